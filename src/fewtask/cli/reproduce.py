"""fewtask reproduce EXPERIMENT|TABLE: a declared experiment, or a table or figure of the paper, from runs made here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
    open_ledger,
    relative,
    say_failures,
)

if TYPE_CHECKING:
    from fewtask.experiments.declared import Experiment
    from fewtask.experiments.grid import Gathered
    from fewtask.experiments.tables import Table

DESCRIPTION = """Make what an experiment declares, or a table or figure of the paper: runs what the ledger does not have
yet, and shows the result beside the paper's numbers. Interrupt it at any time; the same command goes on."""


@dataclass(frozen=True)
class Reproduce(GridFlags):
    name: Annotated[str, tyro.conf.Positional] = "all"
    """An experiment, by its name (tox21/decay) or its folder; or a table or figure of the paper: table1 to table10,
    figure-loss, figure-tasks, figure-set-size, or all."""
    datasets: str = ""
    """Of the paper's tables, only these data sets or presets, separated by commas; others take their place."""
    methods: str = ""
    """Only these methods, separated by commas."""
    per_task: bool = False
    """Also a row a test task."""
    out: Path | None = None
    """Folder for tables and figures; unset: tables/ and figures/ beside the records of an experiment, in the folder of
    another ledger."""


def main(argv: list[str]) -> int:
    command = parse(Reproduce, argv, "fewtask reproduce", DESCRIPTION)
    from fewtask.experiments.grid import gather, plan, plan_followers

    experiment, tables = chosen(command)
    if experiment is not None:
        command = replace(command, test=command.test and experiment.test)
    seeds = command.seeds or (5 if experiment is None else experiment.seeds)
    changes = asked_changes(command)
    ledger = open_ledger(command, None if experiment is None else experiment.records)
    cells = [cell for table in tables if table.kind != "tasks" for cell in table.cells]
    mapped = [cell for table in tables if table.kind == "tasks" for cell in table.cells]
    runs = plan(cells, seeds, changes, mapped)
    gathered = gather(runs, ledger, seeds, changes)
    console = make_console()
    failures = fill_ledger(command, runs, gathered, ledger, console)
    followers = sum(cell.seeds or seeds for cell in cells if cell.steps_of is not None)
    if followers:
        console.print(f"then {followers} runs that take their steps from these:", highlight=False)
        runs = plan_followers(cells, gathered)
        gathered.add(runs, ledger)
        more = fill_ledger(command, runs, gathered, ledger, console)
        failures = None if failures is None or more is None else [*failures, *more]
    if failures is None:
        return 0
    # Not among an experiment's records: those of every experiment are searched with all that lies below them.
    declared = experiment is not None and ledger.folder == experiment.records.absolute()
    folder = ledger.folder.parent if declared else ledger.folder
    for table in tables:
        show(command, table, gathered, folder, console)
    return say_failures(failures, console)


def chosen(command: Reproduce) -> tuple[Experiment | None, Sequence[Table]]:
    """The experiment of that name with its tables, or the paper's tables."""
    from fewtask.errors import SettingsError, unknown
    from fewtask.experiments.declared import declared_names, find_experiment
    from fewtask.experiments.narrowing import narrow, narrow_all
    from fewtask.experiments.tables import get_table, table_names

    datasets, methods = names(command.datasets), names(command.methods)
    if command.name == "all":
        return None, narrow_all(datasets, methods)
    if command.name in table_names():
        return None, [narrow(get_table(command.name), datasets, methods)]
    experiment = find_experiment(command.name, command.experiments)
    if experiment is None:
        known = [*table_names(), "all", *declared_names(command.experiments)]
        raise unknown("experiment, table or figure", command.name, known)
    if datasets:
        raise SettingsError("--datasets is for the paper's tables: an experiment has its own data set")
    return experiment, [narrow(table, methods=methods) for table in experiment.tables]


def show(command: Reproduce, table: Table, gathered: Gathered, folder: Path, console: Console) -> None:
    """Prints and writes a table, or draws a figure."""
    from fewtask.errors import RunError
    from fewtask.experiments.figures import draw
    from fewtask.experiments.render import LEGEND, accuracy_table, difference_table, task_table, write_table
    from fewtask.experiments.summary import summarise

    if table.kind in ("table", "set-size", "map"):
        summary = summarise(table, gathered, command.test)
        console.print(accuracy_table(summary))
        console.print(LEGEND, highlight=False, soft_wrap=True)
        differences = difference_table(summary)
        if differences is not None:
            console.print(differences)
        if command.per_task:
            for column in summary.columns:
                console.print(task_table(summary, column))
        if table.note:
            console.print(table.note, highlight=False)
        written = write_table(summary, command.out or folder / "tables", command.per_task)
        _say_written(written, console)
    if table.kind != "table":
        try:
            written = draw(table, gathered, command.out or folder / "figures", command.test)
            _say_written(written, console)
        except RunError as error:
            # Without matplotlib, or with every run failed: the other tables are still shown.
            console.print(f"{table.name}: {error}", highlight=False, soft_wrap=True)


def _say_written(paths: Sequence[Path], console: Console) -> None:
    console.print(f"written: {', '.join(map(relative, paths))}", highlight=False, soft_wrap=True)
