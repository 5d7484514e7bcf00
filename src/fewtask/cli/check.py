"""fewtask check DATA: a look at own data before training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console
from rich.table import Table

from fewtask.cli.common import make_console, parse, progress_on
from fewtask.cli.own import OwnFlags
from fewtask.threads import settle_threads

if TYPE_CHECKING:
    from fewtask.own.inspection import Inspection

DESCRIPTION = """Look at your own data: tasks, classes, sizes, repeated and contradicting rows, rows that tasks share,
cells that cannot be used, and how far untrained centroids and logistic regression come from a few examples. DATA is a
table (CSV, TSV, Parquet), an .npz file, or a folder of pictures or sounds."""
MOST_TASKS = 50
MOST_CLASSES = 6
MOST_BAD = 10


@dataclass(frozen=True, kw_only=True)
class Check(OwnFlags):
    """Flags of a check."""

    data: Annotated[Path, tyro.conf.Positional]
    """A table, an .npz file or a folder."""
    seed: int = 0
    """Seed of the episodes."""
    threads: int = 0
    """Threads to compute with; 0: all cores."""


def main(argv: list[str]) -> int:
    command = parse(Check, argv, "fewtask check", DESCRIPTION)
    from fewtask.own.inspection import inspect
    from fewtask.own.reading import read_own

    settle_threads(command.threads)
    found = inspect(read_own(command.data, command.columns()), command.seed, progress_on(make_console(stderr=True)))
    show(found, make_console())
    return 0


def show(found: Inspection, console: Console) -> None:
    def say(text: str) -> None:
        console.print(text, soft_wrap=True, highlight=False, markup=False)

    say(f"{found.name}: {found.rows:,} rows, {found.features}, {' x '.join(map(str, found.shape))} numbers a row")
    console.print(task_table(found))
    if len(found.tasks) > MOST_TASKS:
        say(f"and {len(found.tasks) - MOST_TASKS:,} more tasks")
    if found.bad:
        say(f"{len(found.bad):,} cells cannot be used, and their rows are left out:")
        for row in found.bad[:MOST_BAD]:
            say(f"  {row}")
        if len(found.bad) > MOST_BAD:
            counts = ", ".join(f"{name} {count:,}" for name, count in found.bad_by_column.items())
            say(f"  and {len(found.bad) - MOST_BAD:,} more; by column: {counts}")
    if found.constant:
        say(f"the same in every row: {', '.join(found.constant)}")
    if found.baselines:
        console.print(baseline_table(found))
    for note in found.notes:
        say(note)


def task_table(found: Inspection) -> Table:
    table = Table(title="tasks", title_justify="left")
    for heading in ("task", "classes", "rows of each", "repeated", "contradicting", "also in other tasks"):
        table.add_column(heading, justify="left" if heading in ("task", "rows of each") else "right")
    for line in found.tasks[:MOST_TASKS]:
        sizes = [f"{name}: {count:,}" for name, count in list(line.classes.items())[:MOST_CLASSES]]
        if len(line.classes) > MOST_CLASSES:
            sizes.append(f"... {min(line.classes.values()):,} to {max(line.classes.values()):,}")
        counts = (f"{line.repeated:,}", f"{line.contradicting:,}", f"{line.shared:,}")
        table.add_row(line.name, str(len(line.classes)), ", ".join(sizes), *counts)
    return table


def baseline_table(found: Inspection) -> Table:
    way = found.baselines[0].way
    title = f"accuracy % without meta-learning, {way} classes, on new rows of these tasks (chance {100 / way:.0f})"
    table = Table(title=title, title_justify="left")
    for heading in ("examples of each class", "untrained centroids", "logistic regression"):
        table.add_column(heading, justify="right")
    for line in found.baselines:
        table.add_row(
            str(line.shot),
            f"{100 * line.centroid:.1f} ± {100 * line.centroid_interval:.1f}",
            f"{100 * line.logistic:.1f} ± {100 * line.logistic_interval:.1f}",
        )
    return table
