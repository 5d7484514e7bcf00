"""Which labelled examples train, which validate and which test: whole tasks, or whole classes of a class pool.

Where there is only one task, or too few classes, its rows are divided instead, which is said: what is learned then
has seen the very task that it is validated on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fewtask.errors import DataError, unknown
from fewtask.pool import SPLITS

NOWHERE, TRAIN, VALIDATION, TEST = -1, 0, 1, 2
VALIDATION_SHARE = 0.25
LEAST_ROWS = 2
"""Of a class: one to show and one to ask about."""


@dataclass(frozen=True)
class Division:
    """home: [M] split of each example (-1: left out); notes: what was decided and why, a sentence each."""

    home: np.ndarray
    notes: tuple[str, ...]


def divide(
    labels: np.ndarray,
    tasks: np.ndarray | None,
    rows: np.ndarray,
    validation: Sequence[str] | None,
    test: Sequence[str],
    seed: int,
) -> Division:
    """labels [M], tasks [M] or None for a class pool, rows [M] of the table."""
    kept, notes = usable(labels, tasks)
    units, kind = (labels, "class") if tasks is None else (tasks, "task")
    names = list(dict.fromkeys(units[kept].tolist()))
    _check_names(names, validation or (), test, kind)
    home = np.full(len(labels), NOWHERE)
    home[kept] = TRAIN
    home[kept & np.isin(units, list(test))] = TEST
    left = [name for name in names if name not in test]
    if validation is None:
        validation = _set_aside(left, kind, seed)
        if not validation:
            return _halve(home, labels, tasks, rows, seed, notes, kind, len(left))
        notes.append(f"{kind}es set aside for validation: " if kind == "class" else "tasks set aside for validation: ")
        notes[-1] += f"{', '.join(validation)} (others with --validation-tasks)"
    home[kept & np.isin(units, list(validation))] = VALIDATION
    _check_left(home, units, kind)
    return Division(home, tuple(notes))


def usable(labels: np.ndarray, tasks: np.ndarray | None) -> tuple[np.ndarray, list[str]]:
    """[M] whether an example's class has rows enough and its task classes enough; what is left out, and why."""
    of = np.full(len(labels), "") if tasks is None else tasks
    kept = np.ones(len(labels), dtype=bool)
    notes = []
    for task in dict.fromkeys(of.tolist()):
        here = of == task
        place = f" of task '{task}'" if tasks is not None else ""
        for label, count in zip(*np.unique(labels[here], return_counts=True)):
            if count < LEAST_ROWS:
                kept[here & (labels == label)] = False
                notes.append(f"class '{label}'{place} is left out: it has {count} row, and {LEAST_ROWS} are needed")
        classes = len(np.unique(labels[here & kept]))
        if classes < 2:
            kept[here] = False
            notes.append(f"task '{task}' is left out: it has {classes} usable class, and 2 are needed")
    if not kept.any():
        raise DataError(
            f"no task has 2 classes of at least {LEAST_ROWS} rows: label more rows, or name another label column"
        )
    return kept, notes


def _check_names(names: Sequence[str], validation: Sequence[str], test: Sequence[str], kind: str) -> None:
    for name in (*validation, *test):
        if name not in names:
            raise unknown(kind, name, names, DataError)
    both = sorted(set(validation) & set(test))
    if both:
        raise DataError(f"{kind} '{both[0]}' is named for validation and for test: a {kind} can serve only one")


def _set_aside(names: Sequence[str], kind: str, seed: int) -> list[str]:
    """A quarter of the tasks, or of the classes and then at least 2 of them; none where too few would be left."""
    least = 2 if kind == "class" else 1
    count = max(least, round(VALIDATION_SHARE * len(names)))
    if len(names) - count < least:
        return []
    chosen = np.random.default_rng([seed, len(names)]).permutation(len(names))[:count]
    return [names[number] for number in sorted(chosen)]


def _halve(
    home: np.ndarray,
    labels: np.ndarray,
    tasks: np.ndarray | None,
    rows: np.ndarray,
    seed: int,
    notes: list[str],
    kind: str,
    count: int,
) -> Division:
    """Half of the rows of each class validate; a row of the table stays on one side with all its labels."""
    rng = np.random.default_rng([seed, count])
    side = np.full(int(rows.max()) + 1, NOWHERE)
    of = np.full(len(labels), "") if tasks is None else tasks
    for task, label in sorted(set(zip(of[home == TRAIN].tolist(), labels[home == TRAIN].tolist()))):
        own = np.unique(rows[(home == TRAIN) & (of == task) & (labels == label)])
        fresh = rng.permutation(own[side[own] == NOWHERE])
        side[fresh[::2]], side[fresh[1::2]] = TRAIN, VALIDATION
    chosen = home == TRAIN
    home[chosen] = side[rows[chosen]]
    many = f"{count} {'classes' if kind == 'class' else 'task' if count == 1 else 'tasks'}"
    notes.append(
        f"warning: with {many} nothing can be set aside for validation, so the rows of each class are halved; "
        "learning across tasks cannot work here, expect no more than an ordinary classifier would give"
    )
    return Division(home, tuple(notes))


def _check_left(home: np.ndarray, units: np.ndarray, kind: str) -> None:
    least = 2 if kind == "class" else 1
    for split, number in (("train", TRAIN), ("validation", VALIDATION)):
        count = len(np.unique(units[home == number]))
        if count < least:
            raise DataError(
                f"{count} {kind}{'' if count == 1 else 'es' if kind == 'class' else 's'} left for {split}, and {least} "
                f"needed: name fewer with {' and '.join(_flags(split))}"
            )


def _flags(split: str) -> list[str]:
    assert split in SPLITS
    return ["--validation-tasks", "--test-tasks"] if split == "train" else ["--test-tasks"]
