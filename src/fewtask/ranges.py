"""The range of a setting, stated once beside its type, and the check of both.

    steps: Annotated[int, Range(1, 1e9)] = 10_000

Whoever makes a group of settings (Python, a preset, the command line, a saved run) has it checked as it is made.
"""

from __future__ import annotations

import dataclasses
import functools
import numbers
import types
import typing
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fewtask.errors import SettingsError

_HINTS: dict[type[Any], dict[str, Any]] = {}


@dataclass(frozen=True)
class Range:
    """From `least` to `most`, both allowed unless it is said that the value lies above or below them."""

    least: float
    most: float
    above: bool = False
    below: bool = False

    def holds(self, value: float) -> bool:
        """Also refuses what is not a number, with which every comparison fails."""
        return (value > self.least if self.above else value >= self.least) and (
            value < self.most if self.below else value <= self.most
        )

    def __str__(self) -> str:
        first = f"above {self.least:g}" if self.above else f"at least {self.least:g}"
        return f"{first} and {'below' if self.below else 'at most'} {self.most:g}"


class Checked:
    """A frozen dataclass whose values have the types and ranges that its fields state."""

    def __post_init__(self) -> None:
        for name, hint in hints(type(self)).items():
            given = getattr(self, name)
            value = checked(hint, given, f"{prefix(type(self))}{name}")
            if value is not given:
                object.__setattr__(self, name, value)


def hints(kind: type[Any]) -> dict[str, Any]:
    """Types of a dataclass's fields, with their ranges; found once, since settings are made often."""
    if kind not in _HINTS:
        found = typing.get_type_hints(kind, include_extras=True)
        _HINTS[kind] = {item.name: found[item.name] for item in dataclasses.fields(kind)}
    return _HINTS[kind]


def prefix(kind: type[Any]) -> str:
    """What names of settings of a group begin with: TrainSettings are train.*."""
    return str(getattr(kind, "GROUP", ""))


def checked(hint: Any, value: Any, name: str) -> Any:
    """The value, as Python's int or float where another kind of number is given; refused where it does not fit."""
    options, choices, ranges = _allowed(hint)
    if value is None and type(None) in options:
        return value
    if choices:
        if not isinstance(value, str) or value not in choices:
            raise SettingsError(f"{name} is {shown(value)}: it is one of {', '.join(map(str, choices))}")
        return value
    value = _number(value, options)
    if not any(_is(value, option) for option in options):
        wanted = next(option for option in options if option is not type(None))
        raise SettingsError(f"{name} is {shown(value)}: it takes a value of type {getattr(wanted, '__name__', wanted)}")
    for limits in ranges:
        if not limits.holds(value):
            raise SettingsError(f"{name} is {shown(value)}: it must be {limits}")
    return value


def shown(value: Any, longest: int = 40) -> str:
    """A value for an error message."""
    if isinstance(value, float):
        return f"{value:g}"
    text = repr(value)
    return text if len(text) <= longest else f"{text[:longest]}…"


@functools.cache
def _allowed(hint: Any) -> tuple[list[Any], list[Any], list[Range]]:
    """Types, words and ranges; found once a kind of setting, since a report makes settings by the hundred thousand."""
    options, ranges = _parts(hint)
    choices = [
        choice for option in options if typing.get_origin(option) is Literal for choice in typing.get_args(option)
    ]
    return options, choices, ranges


def _parts(hint: Any) -> tuple[list[Any], list[Range]]:
    """The types that are allowed, and the ranges that are stated beside them."""
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        kind, *notes = typing.get_args(hint)
        options, ranges = _parts(kind)
        return options, ranges + [note for note in notes if isinstance(note, Range)]
    if origin in (typing.Union, types.UnionType):
        parts = [_parts(option) for option in typing.get_args(hint)]
        return [o for options, _ in parts for o in options], [r for _, ranges in parts for r in ranges]
    return [hint], []


def _number(value: Any, options: list[Any]) -> Any:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return value
    if int in options and isinstance(value, numbers.Integral):
        return int(value)
    try:
        return float(value) if float in options else value
    except OverflowError:
        # A whole number beyond all floats stays what it is, and is refused.
        return value


def _is(value: Any, option: Any) -> bool:
    if option in (int, float):
        return isinstance(value, option) and not isinstance(value, bool)
    return isinstance(option, type) and isinstance(value, option)


# What a setting may be is stated once, here, and checked wherever settings are made.
Count = Annotated[int, Range(1, 1e9)]
"""Of steps, rows, episodes, ..."""
Size = Annotated[int, Range(1, 100_000)]
"""Of layers and episodes: what is multiplied with others before memory is asked for."""
Seed = Annotated[int, Range(0, 2**63 - 1)]
Share = Annotated[float, Range(0, 1)]
Decay = Annotated[float, Range(0, 1, below=True)]
Rate = Annotated[float, Range(0, 1_000)]
Factor = Annotated[float, Range(0, 1e9, above=True)]
