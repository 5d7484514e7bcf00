"""fewtask demo."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from fewtask.cli.common import make_console, parse
from fewtask.demo import METHODS, SEEDS, DemoRun, draw, run_demo, summary


@dataclass(frozen=True)
class Demo:
    """Train ProtoNet and Meta-Interpolation on rainbow digits, three seeds each, and compare them.

    Needs no download. Prints a table, and writes the runs and a figure of the loss curves to a folder.
    """

    out: Path = Path("demo")
    """Folder for the runs and the figure; finished runs there are not trained again."""
    steps: int | None = None
    """Training steps; default those of the preset."""
    workers: int = min(len(METHODS) * len(SEEDS), os.cpu_count() or 1)
    """Runs at the same time."""


def main(argv: list[str]) -> int:
    command = parse(Demo, argv, "fewtask demo")
    console, started = make_console(), time.perf_counter()
    total = len(METHODS) * len(SEEDS)
    console.print(
        "Rainbow digits: 32 tasks, each its own colour, size and angle; 10 classes, one example of each.\n"
        f"Training {' and '.join(METHODS)} on 16 of them, {len(SEEDS)} seeds each, {command.workers} runs at a time."
    )
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        bar = progress.add_task("runs", total=total)

        def tell(run: DemoRun) -> None:
            progress.advance(bar)
            console.print(
                f"  {run.method}, seed {run.seed}: validation {100 * run.record['validation']['accuracy']:.1f} % at "
                f"step {run.record['selected_step']}, test {100 * run.record['test']['accuracy']:.1f} % "
                f"({time.perf_counter() - started:.0f} s)"
            )

        runs = run_demo(command.out, command.steps, command.workers, tell)
    console.print(table(runs))
    picture = command.out / "loss.png"
    draw(runs, picture)
    difference = paired(runs)
    console.print(
        f"Meta-Interpolation minus ProtoNet on the same test episodes, seed by seed: "
        f"{', '.join(f'{d:+.2f}' for d in difference)} points."
    )
    console.print(f"Figure: {picture}   Runs: {command.out}   Time: {time.perf_counter() - started:.0f} s")
    return 0


def table(runs: list[DemoRun]) -> Table:
    shown = Table(title=f"mean ± 95 % over {len(SEEDS)} seeds (Student's t)", title_justify="left")
    shown.add_column("method")
    columns = summary(runs, METHODS[0])
    for name in columns:
        shown.add_column(name, justify="right")
    for method in METHODS:
        values = summary(runs, method)
        shown.add_row(method, *(f"{mean:.2f} ± {interval:.2f}" for mean, interval in values.values()))
    return shown


def paired(runs: list[DemoRun]) -> list[float]:
    """Difference of test accuracy in points, seed by seed."""
    accuracy = {(run.method, run.seed): 100 * run.record["test"]["accuracy"] for run in runs}
    return [accuracy["meta-interpolation", seed] - accuracy["protonet", seed] for seed in SEEDS]
