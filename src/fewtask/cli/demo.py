"""fewtask demo: best against best on rainbow digits, with few and small training tasks and with all of everything."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fewtask.cli import compare
from fewtask.cli.common import PluginFiles, make_console, parse
from fewtask.cli.grids import names, relative

if TYPE_CHECKING:
    from fewtask.experiments.statistics import Mean
    from fewtask.experiments.summary import Summary
    from fewtask.experiments.tables import Table

PRESET = "rainbow-digits-best"
METHODS = ("centroid", "protonet", "mean-interpolation", "meta-interpolation")
REFERENCE = "protonet"
FEW, ALL = 4, 16
FEW_ROWS = 5
"""Rows a class of the few tasks: with 4 tasks of 5 rows the map (experiments/rainbow-digits/map) has interpolation
furthest ahead."""
SEEDS = 3
SHORTER = {"steps": 1000, "validate_every": 250}
"""Half of the length that the settings were chosen for, so that it takes minutes; λ is updated as often."""


@dataclass(frozen=True)
class Demo:
    """Train ProtoNet, mean interpolation and Meta-Interpolation on rainbow digits, and compare them.

    Once with four training tasks of five rows a class and once with all sixteen and all rows, each method with the
    settings that meta-validation chose for it, untrained centroids beside them. Needs no download. Prints what it
    finds, and writes it with the loss curves and the records of the runs to a folder.
    """

    out: Path = Path("demo")
    """Folder for the page, the curves and the records; finished runs there are not trained again."""
    steps: int | None = None
    """Training steps; default 1,000."""
    seeds: int = SEEDS
    """Runs of each method; with four tasks each draws other ones."""
    workers: int = 0
    """Runs at the same time; 0: as many as there are cores."""
    methods: str = ",".join(METHODS)
    """Methods separated by commas."""
    plugin: PluginFiles = ()
    """Script that registers methods, encoders, set functions, estimators or data sets of its own."""


def main(argv: list[str]) -> int:
    command = parse(Demo, argv, "fewtask demo")
    console = make_console()
    console.print(
        "Rainbow digits: 32 tasks, each its own colour, size and angle; 10 classes, one example of each.\n"
        f"The methods learn from {FEW} of the tasks with {FEW_ROWS} rows a class, or from {ALL} with all rows; they "
        "are chosen on 6 tasks, and tested on the 10 others.",
        highlight=False,
    )
    if importlib.util.find_spec("matplotlib") is None:
        console.print('Without matplotlib there will be no loss curves: pip install "fewtask[figures]" draws them.')
    page = command.out / "README.md"
    shown = compare.carry_through(as_comparison(command, page), demo_table(names(command.methods)), "fewtask demo")
    assert shown is not None
    summary, code = shown
    for sentence in findings(summary):
        console.print(sentence, highlight=False, soft_wrap=True)
    console.print(
        f"All of it: {relative(page)}. Other methods: fewtask compare {PRESET}. Your own data: fewtask check "
        "FILE_OR_FOLDER.",
        highlight=False,
        soft_wrap=True,
    )
    return code


def as_comparison(command: Demo, page: Path) -> compare.Compare:
    """The flags of `fewtask compare` that the demo stands for."""
    return compare.Compare(
        preset=PRESET,
        seeds=command.seeds,
        steps=command.steps,
        workers=command.workers,
        page=page,
        # Nobody else's records: a demo that finds all of its runs in a checkout would show nothing of the training.
        experiments=command.out,
        ledger=command.out / "records",
        work_dir=command.out / "runs",
    )


def demo_table(methods: list[str]) -> Table:
    """A row a method, a column with few training tasks and one with all."""
    from fewtask.experiments.grid import Cell
    from fewtask.experiments.tables import METHOD_TITLES, Table
    from fewtask.methods import get_method

    titles = {method: METHOD_TITLES.get(method, get_method(method).title) for method in methods}
    columns: dict[str, dict[str, int]] = {
        f"{FEW} training tasks of {FEW_ROWS} rows": {"train_tasks": FEW, "train_rows": FEW_ROWS},
        f"{ALL} training tasks of all rows": {},
    }
    cells = [
        Cell(titles[method], column, PRESET, method, {"train": SHORTER, "data": data})
        for column, data in columns.items()
        for method in methods
    ]
    reference = titles.get(REFERENCE, cells[0].row)
    return Table("demo", "Rainbow digits, every method at its best", tuple(cells), reference)


def findings(summary: Summary) -> list[str]:
    """A sentence for each column: who is how far ahead of the reference or behind it."""
    sentences = []
    for column in summary.columns:
        results = [r for r in summary.results if r.cell.column == column and r.behind]
        texts = [f"{result.cell.row} is {_distance(result.behind)}" for result in results if result.behind]
        if texts:
            sentences.append(f"With {column}, against {summary.table.reference}: {'; '.join(texts)}.")
    return sentences


def _distance(behind: Mean) -> str:
    from fewtask.experiments.statistics import is_clear

    side = "behind by" if behind.value > 0 else "ahead by"
    doubt = "clearly" if is_clear(behind) else "of one seed" if behind.basis == "episodes" else "within chance"
    return f"{side} {100 * abs(behind.value):.2f} ± {100 * behind.interval:.2f} points, {doubt}"


def readme_table(summary: Summary) -> str:
    """The numbers for a page: accuracies and paired differences, a column each for few tasks and for all."""
    from dataclasses import replace

    from fewtask.experiments.render import grid, mean_text, own_text

    columns = summary.columns
    header = ["test %", *(text for column in columns for text in (column, f"minus {summary.table.reference}"))]
    body = []
    for row in summary.rows:
        cells = [row]
        for result in (summary.at(row, column) for column in columns):
            gain = (
                None if result is None or result.behind is None else replace(result.behind, value=-result.behind.value)
            )
            known = result is not None and result.accuracy is not None
            cells += [own_text(result) if known else "not run", "" if gain is None else mean_text(gain, sign=True)]
        body.append(cells)
    return "\n".join([*grid(header, body), "", " ".join(findings(summary))]).rstrip()
