"""fewtask list [datasets|methods|presets]: what can be named on the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro
from rich.table import Table

from fewtask.cli.common import PluginFiles, make_console, parse


@dataclass(frozen=True)
class List:
    """List what can be named on the command line: data sets, methods and presets, or one of the three."""

    what: Annotated[Literal["all", "datasets", "methods", "presets"], tyro.conf.Positional] = "all"
    plugin: PluginFiles = ()
    """Script that registers methods, encoders, set functions, estimators or data sets of its own."""


def main(argv: list[str]) -> int:
    command = parse(List, argv, "fewtask list")
    console = make_console()
    for i, kind in enumerate(KINDS if command.what == "all" else [command.what]):
        if i:
            console.print()
        console.print(KINDS[kind]())
    return 0


def methods_table() -> Table:
    from fewtask.methods import METHODS

    table = _table("method", "what it does")
    for name, method in METHODS.working().items():
        table.add_row(name, method.summary)
    return table


def datasets_table() -> Table:
    from fewtask.datasets import SOURCES

    table = _table("data set", "domain", "train / validation / test", "what it is")
    for source in SOURCES.working().values():
        table.add_row(source.name, source.domain, source.splits, source.title)
    return table


def presets_table() -> Table:
    from fewtask.presets import preset_names, read_preset

    table = _table("preset", "about")
    for name in preset_names():
        table.add_row(name, read_preset(name).get("about", ""))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column)
    return table


KINDS: dict[str, Callable[[], Table]] = {
    "datasets": datasets_table,
    "methods": methods_table,
    "presets": presets_table,
}
