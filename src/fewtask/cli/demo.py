"""fewtask demo: `fewtask compare` on rainbow digits, with a word before and after."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from fewtask.cli import compare
from fewtask.cli.common import PluginFiles, make_console, parse
from fewtask.cli.grids import relative

METHODS = ("protonet", "meta-interpolation")


@dataclass(frozen=True)
class Demo:
    """Train ProtoNet and Meta-Interpolation on rainbow digits, three seeds each, and compare them.

    Needs no download. Prints a table, and writes it with the loss curves and the records of the runs to a folder.
    """

    out: Path = Path("demo")
    """Folder for the page, the curves and the records; finished runs there are not trained again."""
    steps: int | None = None
    """Training steps; default those of the preset."""
    seeds: int = 3
    """Runs of each method."""
    workers: int = 0
    """Runs at the same time; 0: as many as there are cores."""
    methods: str = ",".join(METHODS)
    """Methods separated by commas, or all."""
    plugin: PluginFiles = ()
    """Script that registers methods, encoders, set functions, estimators or data sets of its own."""


def main(argv: list[str]) -> int:
    command = parse(Demo, argv, "fewtask demo")
    console = make_console()
    console.print(
        "Rainbow digits: 32 tasks, each its own colour, size and angle; 10 classes, one example of each.\n"
        "The methods learn from 16 of the tasks, are chosen on 6, and are tested on the 10 others.",
        highlight=False,
    )
    if importlib.util.find_spec("matplotlib") is None:
        console.print('Without matplotlib there will be no loss curves: pip install "fewtask[figures]" draws them.')
    page = command.out / "README.md"
    code = compare.main(as_comparison(command, page))
    if page.exists():
        console.print(
            f"All of it: {relative(page)}. Other methods: fewtask compare rainbow-digits. Your own data: fewtask check "
            "FILE_OR_FOLDER.",
            highlight=False,
            soft_wrap=True,
        )
    return code


def as_comparison(command: Demo, page: Path) -> list[str]:
    """The arguments of `fewtask compare` that the demo stands for."""
    words = ["rainbow-digits", "--methods", command.methods, "--seeds", str(command.seeds)]
    words += ["--steps", str(command.steps)] if command.steps is not None else []
    # Nobody else's records: a demo that finds all of its runs in a checkout would show nothing of the training.
    words += ["--workers", str(command.workers), "--page", str(page), "--experiments", str(command.out)]
    return [*words, "--ledger", str(command.out / "records"), "--work-dir", str(command.out / "runs")]
