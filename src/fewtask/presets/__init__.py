"""Named settings, one TOML file each.

A preset names its data set and holds the settings shared by all methods; `[methods.NAME]` tables hold what differs.
One that says `extends = "OTHER"` holds only what differs from that other.
"""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import Any

from fewtask.errors import SettingsError, unknown
from fewtask.settings import RunSettings, update


def preset_names() -> list[str]:
    files = resources.files(__package__)
    return sorted(item.name.removesuffix(".toml") for item in files.iterdir() if item.name.endswith(".toml"))


def read_preset(name: str) -> dict[str, Any]:
    known = preset_names()
    if name not in known:
        narrower = [other for other in known if other.startswith(f"{name}-")]
        if narrower:
            raise SettingsError(f"'{name}' has several presets, name one: {', '.join(narrower)}")
        raise unknown("data set or preset", name, known)
    values = _read(name)
    if "extends" not in values:
        return {"dataset": name, **values}
    base = {key: value for key, value in read_preset(values.pop("extends")).items() if key != "about"}
    return _merged(base, values)


def base_preset(name: str) -> str | None:
    """The preset at the root of those that another extends."""
    base: str | None = _read(name).get("extends")
    return base and (base_preset(base) or base)


def preset_changes(name: str) -> dict[str, Any]:
    """What a preset changes of the one at its root: shared settings, and under "methods" those of single methods."""
    values = {key: value for key, value in _read(name).items() if key != "about"}
    base = values.pop("extends", None)
    return {} if base is None else _merged(preset_changes(base), values)


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def _merged(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Tables within tables, `own` over `base`."""
    merged = dict(base)
    for key, value in own.items():
        below = merged.get(key)
        merged[key] = _merged(below, value) if isinstance(value, dict) and isinstance(below, dict) else value
    return merged


def load_preset(name: str, method: str) -> RunSettings:
    """The settings of a preset for a method."""
    values = read_preset(name)
    values.pop("about", None)
    per_method = values.pop("methods", {})
    settings = update(RunSettings(method=method), values)
    return update(settings, per_method.get(method, {}))
