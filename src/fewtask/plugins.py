"""Registries: what comes with fewtask, what other packages bring, and what a script adds.

Another package names its own as entry points, in the group of the registry (`fewtask.methods`, `fewtask.encoders`,
`fewtask.set_functions`, `fewtask.estimators`, `fewtask.datasets`, `fewtask.featurisers`); they are known by name and
imported when they are used. A script registers its own when it is loaded, by `--plugin FILE.py` or by standing in
FEWTASK_PLUGINS, which processes started from here inherit.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, MutableMapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Generic, TypeVar

from fewtask.errors import FewtaskError, SettingsError, unknown

T = TypeVar("T")
VARIABLE = "FEWTASK_PLUGINS"


class Registry(MutableMapping[str, T], Generic[T]):
    """Things of one kind by name. Those that come with fewtask keep their names, whatever else is installed."""

    def __init__(self, kind: str, group: str, own: Mapping[str, T]) -> None:
        self.kind, self.group = kind, group
        self._known = dict(own)

    def register(self, thing: T, name: str | None = None) -> T:
        """Adds a thing under its own name or another; also a decorator of classes that have one."""
        name = name or getattr(thing, "name", None)
        if not isinstance(name, str):
            raise SettingsError(f"a {self.kind} needs a name: register(THING, 'NAME')")
        if name in self._known:
            raise SettingsError(f"there is a {self.kind} '{name}' already: give the new one another name")
        self._known[name] = thing
        return thing

    def find(self, name: str) -> T:
        """The thing of that name, or an error with the nearest known names."""
        try:
            return self[name]
        except KeyError:
            raise unknown(self.kind, name, self) from None

    def __getitem__(self, name: str) -> T:
        if name not in self._known:
            load_named()
        if name not in self._known:
            # Raises KeyError where no package has it either.
            self._known[name] = _load(self.kind, self._entries[name])
        return self._known[name]

    def __setitem__(self, name: str, thing: T) -> None:
        self._known[name] = thing

    def __delitem__(self, name: str) -> None:
        del self._known[name]

    def __iter__(self) -> Iterator[str]:
        load_named()
        return iter([*self._known, *(name for name in self._entries if name not in self._known)])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def working(self) -> dict[str, T]:
        """All that can be loaded; a package that is broken is warned of and left out."""
        found = {}
        for name in self:
            try:
                found[name] = self[name]
            except FewtaskError as error:
                warnings.warn(str(error), stacklevel=2)
        return found

    @cached_property
    def _entries(self) -> dict[str, EntryPoint]:
        return {entry.name: entry for entry in entry_points(group=self.group)}


def _load(kind: str, entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except Exception as error:
        package = entry.dist.name if entry.dist is not None else entry.value
        raise SettingsError(
            f"the {kind} '{entry.name}' of the package {package} cannot be loaded ({type(error).__name__}: {error}): "
            "update or remove that package"
        ) from error


def use_plugin(path: str | Path) -> None:
    """Loads a script, here and in every process that is started from now on; one that fails leaves nothing behind."""
    path = Path(path).expanduser().resolve()
    before = os.environ.get(VARIABLE, "")
    named = [text for text in before.split(os.pathsep) if text]
    if str(path) not in named:
        os.environ[VARIABLE] = os.pathsep.join([*named, str(path)])
    try:
        load_named()
    except FewtaskError:
        os.environ[VARIABLE] = before
        raise


def load_named() -> None:
    """Loads the scripts that FEWTASK_PLUGINS names, each once a process."""
    for text in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        path = Path(text).expanduser().resolve()
        module = f"fewtask_plugin_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
        if module not in sys.modules:
            _run_script(module, path)


def _run_script(name: str, path: Path) -> None:
    if not path.is_file() or path.suffix != ".py":
        raise SettingsError(f"the plugin {path} is no Python file: name one that registers what it brings")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Before it runs: what it registers asks for names again, which would load it a second time.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except FewtaskError:
        del sys.modules[name]
        raise
    except Exception as error:
        del sys.modules[name]
        raise SettingsError(f"the plugin {path} cannot be loaded ({type(error).__name__}: {error})") from error
