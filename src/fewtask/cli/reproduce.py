"""fewtask reproduce NAME: a table or figure of the paper from runs made here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console

from fewtask.cli.common import make_console, parse
from fewtask.cli.grids import (
    GridFlags,
    asked_changes,
    fill_ledger,
    names,
    relative,
    say_failures,
)

if TYPE_CHECKING:
    from fewtask.experiments.grid import Changes
    from fewtask.experiments.tables import Experiment

DESCRIPTION = """Make a table or figure of the paper: runs what the ledger does not have yet, and shows the result
beside the paper's numbers. Interrupt it at any time; the same command goes on."""


@dataclass(frozen=True)
class Reproduce(GridFlags):
    name: Annotated[str, tyro.conf.Positional] = "all"
    """table1 to table10, figure-loss, figure-tasks, figure-set-size, or all."""
    datasets: str = ""
    """Only these data sets or presets, separated by commas; others than the paper's take its place."""
    methods: str = ""
    """Only these methods, separated by commas."""
    per_task: bool = False
    """Also a row a test task."""
    out: Path | None = None
    """Folder for tables and figures; unset: tables/ and figures/ in the ledger's folder."""


def main(argv: list[str]) -> int:
    command = parse(Reproduce, argv, "fewtask reproduce", DESCRIPTION)
    from fewtask.experiments.grid import plan
    from fewtask.experiments.tables import get_experiment, narrow, narrow_all

    datasets, methods = names(command.datasets), names(command.methods)
    if command.name == "all":
        experiments = narrow_all(datasets, methods)
    else:
        experiments = [narrow(get_experiment(command.name), datasets, methods)]
    changes = asked_changes(command)
    cells = [cell for e in experiments if e.kind != "tasks" for cell in e.cells]
    mapped = [cell for e in experiments if e.kind == "tasks" for cell in e.cells]
    runs = plan(cells, command.seeds if cells else 1, changes, mapped)
    console = make_console()
    failures = fill_ledger(command, runs, console)
    if failures is None:
        return 0
    for experiment in experiments:
        show(command, experiment, changes, console)
    return say_failures(failures, console)


def show(command: Reproduce, experiment: Experiment, changes: Sequence[Changes], console: Console) -> None:
    """Prints and writes a table, or draws a figure, from the ledger."""
    from fewtask.errors import RunError
    from fewtask.experiments.figures import draw
    from fewtask.experiments.ledger import Ledger
    from fewtask.experiments.render import LEGEND, accuracy_table, difference_table, task_table, write_table
    from fewtask.experiments.summary import summarise

    ledger = Ledger(command.ledger)
    if experiment.kind in ("table", "set-size"):
        summary = summarise(experiment, ledger, command.seeds, changes, command.test)
        console.print(accuracy_table(summary))
        console.print(LEGEND, highlight=False, soft_wrap=True)
        differences = difference_table(summary)
        if differences is not None:
            console.print(differences)
        if command.per_task:
            for column in summary.columns:
                console.print(task_table(summary, column))
        if experiment.note:
            console.print(experiment.note, highlight=False)
        written = write_table(summary, command.out or command.ledger / "tables", command.per_task)
        _say_written(written, console)
    if experiment.kind != "table":
        try:
            out = command.out or command.ledger / "figures"
            written = draw(experiment, ledger, command.seeds, changes, out, command.test)
            _say_written(written, console)
        except RunError as error:
            # Without matplotlib, or with every run failed: the other tables are still shown.
            console.print(f"{experiment.name}: {error}", highlight=False, soft_wrap=True)


def _say_written(paths: Sequence[Path], console: Console) -> None:
    console.print(f"written: {', '.join(map(relative, paths))}", highlight=False, soft_wrap=True)
