"""fewtask list datasets|methods|presets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro
from rich.table import Table

from fewtask.cli.common import make_console, parse


@dataclass(frozen=True)
class List:
    """List what can be named on the command line."""

    what: Annotated[Literal["datasets", "methods", "presets"], tyro.conf.Positional]


def main(argv: list[str]) -> int:
    command = parse(List, argv, "fewtask list")
    table = Table(box=None, pad_edge=False)
    if command.what == "methods":
        from fewtask.methods import METHODS

        table.add_column("method")
        table.add_column("what it does")
        for name, method in METHODS.items():
            table.add_row(name, method.summary)
    elif command.what == "datasets":
        from fewtask.datasets import SOURCES

        for column in ("data set", "domain", "train / validation / test", "what it is"):
            table.add_column(column)
        for source in SOURCES.values():
            table.add_row(source.name, source.domain, source.splits, source.title)
    else:
        from fewtask.presets import preset_names, read_preset

        table.add_column("preset")
        table.add_column("about")
        for name in preset_names():
            table.add_row(name, read_preset(name).get("about", ""))
    make_console().print(table)
    return 0
