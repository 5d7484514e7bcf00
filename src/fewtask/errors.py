"""Errors that a user can act on: each says what is wrong and what was needed.

The command line prints the message of any of these as one sentence and exits non-zero; everything else is a
defect of fewtask and shows its traceback.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST_NAMED = 40
"""Names that an error lists: a user's own table may have thousands of tasks."""


class FewtaskError(Exception):
    """Base of every error that fewtask raises on purpose."""

    exit_code = 1


class TaskError(FewtaskError):
    """A task or class cannot give the episode that was asked for."""


class SettingsError(FewtaskError):
    """Settings that do not exist or do not fit together."""


class DataError(FewtaskError):
    """Raw or prepared data are missing, damaged or not in the publisher's form."""


class InputError(FewtaskError, ValueError):
    """Arrays or frames that a classifier cannot use; a ValueError too, as scikit-learn's tools expect."""


class RunError(FewtaskError):
    """A run folder cannot be read, written or continued."""


class DamagedError(RunError):
    """A file of a run is cut off or was changed: its content does not have its checksum."""


class StoppedError(RunError):
    """Ctrl-C: what is done is saved, and the message says how to go on."""

    exit_code = 130


def unknown(kind: str, name: str, known: Iterable[str], error: type[FewtaskError] = SettingsError) -> FewtaskError:
    """An error for a name that is not in a registry, with the nearest known names."""
    names = sorted(known)
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return error(f"unknown {kind} '{name}': {hint}known are {', '.join(names[:MOST_NAMED])}{more}")
