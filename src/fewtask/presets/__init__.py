"""Settings in TOML files: named ones that come with fewtask, and anyone's own by path.

A preset names its data set and holds the settings shared by all methods; `[methods.NAME]` tables hold what differs.
One that says `extends = "OTHER"` holds only what differs from that other: a name, or a path from the file itself.
"""

from __future__ import annotations

import copy
import functools
import os
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

from fewtask.errors import SettingsError, unknown
from fewtask.settings import RunSettings, update


def preset_names() -> list[str]:
    files = resources.files(__package__)
    return sorted(item.name.removesuffix(".toml") for item in files.iterdir() if item.name.endswith(".toml"))


def is_path(name: str) -> bool:
    """Whether a preset is given by its file and not by its name."""
    return name.endswith(".toml") or os.sep in name


def preset_label(name: str) -> str:
    """A short name for files and tables; EXPERIMENT/preset.toml has the names of the folders that it lies in."""
    if not is_path(name):
        return name
    path = Path(name).resolve()
    return f"{path.parent.parent.name}-{path.parent.name}" if path.stem == "preset" else path.stem


def read_preset(name: str) -> dict[str, Any]:
    """All tables of a preset, those that it extends included."""
    values: dict[str, Any] = {}
    for layer in _layers(name):
        values = _merged({key: value for key, value in values.items() if key != "about"}, layer)
    if "dataset" not in values:
        raise SettingsError(f'the preset {name} names no data set: give it extends = "OTHER" or dataset = "NAME"')
    return values


def base_preset(name: str) -> str | None:
    """The name of the preset at the root of those that another extends; None for one that extends none."""
    chain = _chain(name)
    return preset_label(chain[0]) if len(chain) > 1 else None


def preset_changes(name: str) -> dict[str, Any]:
    """What a preset changes of the one at its root: shared settings, and under "methods" those of single methods."""
    values: dict[str, Any] = {}
    for layer in _layers(name)[1:]:
        values = _merged(values, {key: value for key, value in layer.items() if key != "about"})
    return values


def load_preset(name: str | Path, method: str) -> RunSettings:
    """The settings of a preset, by its name or its file, for a method."""
    values = read_preset(str(name))
    values.pop("about", None)
    per_method = values.pop("methods", {})
    if not isinstance(per_method, dict) or not all(isinstance(own, dict) for own in per_method.values()):
        raise SettingsError(f"the preset {name} has no tables [methods.NAME] but methods = {per_method!r}")
    try:
        settings = update(RunSettings(method=method), values)
        return update(settings, per_method.get(method, {}))
    except SettingsError as error:
        if is_path(str(name)):
            raise SettingsError(f"the preset {name}: {error}") from error
        raise


def _chain(name: str) -> list[str]:
    """A preset after those that it extends, the root first; paths are complete."""
    chain = [name]
    while (base := _read(chain[0]).get("extends")) is not None:
        if not isinstance(base, str):
            raise SettingsError(f"the preset {chain[0]} extends {base!r}: name a preset, or its file")
        if is_path(base) and is_path(chain[0]):
            base = os.path.normpath(Path(chain[0]).parent / base)
        if base in chain:
            raise SettingsError(f"the preset {name} extends itself, by way of {base}")
        chain.insert(0, base)
    return chain


def _layers(name: str) -> list[dict[str, Any]]:
    """What each preset of the chain says, less its word on what it extends; a root's name is its data set's."""
    chain = _chain(name)
    layers = [{key: value for key, value in _read(one).items() if key != "extends"} for one in chain]
    return layers if is_path(chain[0]) else [{"dataset": chain[0]} | layers[0], *layers[1:]]


def _read(name: str) -> dict[str, Any]:
    try:
        if is_path(name):
            return _parsed(Path(name).expanduser().read_text(encoding="utf-8"))
        if name in (known := preset_names()):
            return _parsed(resources.files(__package__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"cannot read the preset {name}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"the preset {name} is not valid TOML: {error}") from error
    narrower = [other for other in known if other.startswith(f"{name}-")]
    if narrower:
        raise SettingsError(f"'{name}' has several presets, name one: {', '.join(narrower)}")
    raise unknown("data set or preset", name, known)


def _parsed(text: str) -> dict[str, Any]:
    """A copy, which the reader may change."""
    return copy.deepcopy(_tables(text))


@functools.lru_cache(maxsize=256)
def _tables(text: str) -> dict[str, Any]:
    """Parsed once: a report reads the same few presets for every run."""
    return tomllib.loads(text)


def _merged(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Tables within tables, `own` over `base`."""
    merged = dict(base)
    for key, value in own.items():
        below = merged.get(key)
        merged[key] = _merged(below, value) if isinstance(value, dict) and isinstance(below, dict) else value
    return merged
