"""Changes of settings as text (`interpolation.layer=2`), as flat pairs and as nested tables."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fewtask.errors import SettingsError, unknown
from fewtask.settings import RunSettings


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"train": {"steps": 1}} -> {"train.steps": 1}."""
    pairs: dict[str, Any] = {}
    for key, value in values.items():
        pairs |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return pairs


def nested(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """[("train.steps", 1)] -> {"train": {"steps": 1}}."""
    values: dict[str, Any] = {}
    for key, value in pairs:
        *groups, name = key.split(".")
        place = values
        for group in groups:
            place = place.setdefault(group, {})
        place[name] = value
    return values


def parse_changes(assignments: Sequence[str]) -> dict[str, Any]:
    """{"interpolation": {"layer": 2}} from ["interpolation.layer=2"]; wrong names and values are refused."""
    changes: dict[str, Any] = {}
    for text in assignments:
        key, equals, value = text.partition("=")
        if not equals:
            raise SettingsError(f"'{text}' is not of the form key=value, for instance interpolation.layer=2")
        *groups, name = key.split(".")
        kind: Any = RunSettings
        place = changes
        for group in groups:
            kind = _hint(kind, group, key)
            place = place.setdefault(group, {})
        hint = _hint(kind, name, key)
        if hasattr(hint, "__dataclass_fields__"):
            raise SettingsError(f"'{key}' is a group of settings: name one of them, for instance {key}.seed=1")
        place[name] = _value(hint, key, value)
    return changes


def _hint(kind: Any, name: str, key: str) -> Any:
    """The type of a setting of a group."""
    hints = typing.get_type_hints(kind) if hasattr(kind, "__dataclass_fields__") else {}
    if name not in hints:
        raise unknown("setting", key, hints or [name])
    return hints[name]


def _value(hint: Any, key: str, text: str) -> Any:
    """Text as a setting's type asks for it."""
    if typing.get_origin(hint) is typing.Literal:
        choices = typing.get_args(hint)
        if text not in choices:
            raise SettingsError(f"{key} is one of {', '.join(map(str, choices))}, not '{text}'")
        return text
    options = typing.get_args(hint) or (hint,)
    if type(None) in options and text.lower() in ("none", "null"):
        return None
    if str in options:
        return text
    try:
        value = json.loads(text.lower())
    except ValueError:
        value = None
    if bool in options:
        fits = isinstance(value, bool)
    elif float in options:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
    else:
        fits = isinstance(value, int) and not isinstance(value, bool)
    if not fits:
        wanted = next(option.__name__ for option in options if option is not type(None))
        raise SettingsError(f"{key} takes a value of type {wanted}, not '{text}'")
    return value
