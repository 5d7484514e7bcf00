"""fewtask bench: how fast steps, hyper-updates, sampling and evaluation are, against a plain transcription."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from fewtask.cli.common import make_console, parse
from fewtask.errors import unknown
from fewtask.files import filled, write_json, write_text
from fewtask.threads import settle_threads

DESCRIPTION = """Measures training steps, hyper-updates, sampling and evaluation side by side with a plain
transcription of the paper, on random rows with the shapes of its data sets, and checks that both compute the same.
Needs no data set. Times are processor time with one thread."""


@dataclass(frozen=True)
class Bench:
    sizes: tuple[str, ...] = ("tox21", "nci", "esc50", "rmnist", "cifar100-fs")
    """Data sets whose sizes are measured."""
    out: Path | None = None
    """Folder for speed.json, speed.md and speed.png."""
    markdown: Path | None = None
    """Write the tables to this page, between its marks where it is there already, and the figure beside it."""
    seconds: float = 100.0
    """Time to share between the measurements; each makes at least one round."""
    full: bool = False
    """Also measure hyper-updates at the sizes of image data sets: several minutes more."""
    peer: str | None = None
    """Only compare ProtoNet with another library, where it is installed: easyfsl."""
    estimators: bool = False
    """Only compare hypergradient estimators with the exact hypergradient of a small problem: half a minute."""
    threads: bool = False
    """Only compare one thread with as many as there are cores, on a machine that does nothing else."""
    rows: str | None = None
    """Only what a step of each row of a declared experiment costs (rainbow-digits/small-phi), in turns; kept beside the
    experiment as costs.json, for the pages."""
    small: bool = False
    """Everything at a tiny size, to see that it works."""


def main(argv: list[str]) -> int:
    command = parse(Bench, argv, "fewtask bench", DESCRIPTION)
    from fewtask.bench.figure import draw
    from fewtask.bench.report import machine, page_text, tables
    from fewtask.bench.sizes import get_size
    from fewtask.bench.suite import run

    for name in command.sizes:
        get_size(name)
    settle_threads(1)
    console, notes = make_console(), make_console(stderr=True)
    if command.peer is not None:
        return compare_peer(command, command.peer, console)
    if command.estimators:
        return compare_estimators(command, console)
    if command.threads:
        return compare_threads(command, console)
    if command.rows is not None:
        return compare_rows(command, command.rows, console, notes)
    page = command.markdown or (command.out and command.out / "speed.md")
    before = page.read_text(encoding="utf-8") if page and page.exists() else None
    if before is not None:
        # A page without a place for the tables is refused before minutes of measuring.
        filled(before, "bench", "")
    results = run(
        command.sizes, command.seconds, command.full, lambda text: notes.print(text, style="dim"), command.small
    )
    console.print(machine())
    for title, head, lines in tables(results):
        print_table(console, title, head, lines)
    keep(command, "speed", results)
    if page is not None:
        picture = page.with_suffix(".png")
        draw(results, picture)
        write_text(page, page_text(results, picture.name, before))
        console.print(f"written: {page}, {picture}")
    return 0


def compare_peer(command: Bench, name: str, console: Console) -> int:
    from fewtask.bench.peer import SIZES, compare, peer_modules, peer_table
    from fewtask.bench.sizes import get_size

    peer_modules(name)
    sizes = {key: get_size(key).small() if command.small else get_size(key) for key in SIZES}
    results = {key: compare(name, size, command.seconds / len(sizes)) for key, size in sizes.items()}
    print_table(console, *peer_table(name, results))
    keep(command, "peer", results)
    return 0


def compare_estimators(command: Bench, console: Console) -> int:
    from fewtask.bench.estimators import TRIALS, estimators_table, study

    notes = make_console(stderr=True)
    notes.print("a small problem, its Hessian column by column, and every estimator on it", style="dim")
    results = study(TRIALS[::4] if command.small else TRIALS)
    print_table(console, *estimators_table(results))
    keep(command, "estimators", results)
    return 0


def compare_threads(command: Bench, console: Console) -> int:
    from fewtask.bench import threads
    from fewtask.bench.sizes import get_size

    sizes = [get_size(name).small() if command.small else get_size(name) for name in command.sizes]
    results = threads.compare_threads(sizes, command.seconds)
    print_table(console, *threads.threads_table(results))
    keep(command, "threads", results)
    return 0


def compare_rows(command: Bench, name: str, console: Console, notes: Console) -> int:
    from fewtask.bench.rows import row_costs, rows_table
    from fewtask.experiments.declared import declared_names, find_experiment

    experiment = find_experiment(name)
    if experiment is None:
        raise unknown("experiment", name, declared_names())
    costs = row_costs(experiment, command.seconds, lambda text: notes.print(text, style="dim"))
    print_table(console, *rows_table(experiment.name, costs))
    write_json(experiment.costs, costs)
    console.print(f"written: {experiment.costs}")
    return 0


def keep(command: Bench, name: str, results: dict[str, Any]) -> None:
    """The measurements as a file, where a folder for them is named."""
    if command.out is not None:
        command.out.mkdir(parents=True, exist_ok=True)
        (command.out / f"{name}.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def print_table(console: Console, title: str, head: list[str], lines: list[list[str]]) -> None:
    table = Table(*head, title=title, title_justify="left")
    for line in lines:
        table.add_row(*line)
    console.print(table)
