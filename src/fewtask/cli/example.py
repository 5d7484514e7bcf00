"""fewtask example table|folder|molecules --out DIR."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from fewtask.cli.common import make_console, parse


@dataclass(frozen=True)
class Example:
    """Write a small ready-made problem into a folder, without a download, to try the other commands on."""

    kind: Annotated[Literal["table", "folder", "molecules"], tyro.conf.Positional]
    """A long table of numbers, a folder of pictures, or a wide table of molecules."""
    out: Path | None = None
    """Folder to write; default example-KIND."""


def main(argv: list[str]) -> int:
    command = parse(Example, argv, "fewtask example")
    from fewtask.own.examples import write_example

    out = command.out or Path(f"example-{command.kind}")
    made = write_example(command.kind, out)
    console = make_console()
    lines = (
        f"{out}: {made.about}",
        "",
        "look      " + f"fewtask check {out / made.data}",
        "learn     " + f"fewtask train {out / made.data} --out runs/{command.kind}",
        "predict   "
        + f"fewtask predict runs/{command.kind} --support {out / 'support.csv'} --query {out / 'query.csv'}"
        + " --out predictions.csv",
    )
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False, markup=False)
    return 0
