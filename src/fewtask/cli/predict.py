"""fewtask predict RUN --support ten.csv --query rest.csv --out predictions.csv."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from fewtask.cli.common import choose_device, make_console, parse, progress_on
from fewtask.threads import settle_threads

if TYPE_CHECKING:
    from rich.console import Console

    from fewtask.learner.predict import Summary

DESCRIPTION = """Label the rows of a new task from a few labelled ones. SUPPORT has the columns that the model was
trained with and one of labels; QUERY has the same columns. Both may be tables (CSV, TSV, Parquet), .npz files (X and y)
or, for models of pictures and sounds, folders (class/file, and files). The output has the query's own columns, then
`predicted`, `probability_CLASS` for each class (calibrated on held-out tasks), `distance` to the nearest prototype and
`unlike_support`: true where a row is further from every class's examples than 99 of 100 rows of the held-out tasks
were."""


@dataclass(frozen=True)
class Predict:
    """Flags of prediction."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of a model that was trained on own data."""
    support: Path
    """The labelled rows: any number of classes, any number of rows of each."""
    query: Path
    """The rows to label; of any length."""
    out: Path = Path("predictions.csv")
    """Where to write, .csv or .tsv."""
    label_column: str = "label"
    """Column of the support that holds the classes."""
    task_column: str | None = None
    """Column of support and query that names the new task, where there are several at once."""
    strict: bool = False
    """Refuse rows that cannot be read instead of skipping them."""
    device: str = "auto"
    """auto, cpu, cuda, ..."""
    threads: int = 0
    """Threads to compute with; 0: all cores."""


def main(argv: list[str]) -> int:
    command = parse(Predict, argv, "fewtask predict", DESCRIPTION)
    from fewtask.learner.model import Model
    from fewtask.learner.predict import predict_files

    settle_threads(command.threads)
    summary = predict_files(
        Model.load(command.run, choose_device(command.device)),
        command.support,
        command.query,
        command.out,
        label_column=command.label_column,
        task_column=command.task_column,
        strict=command.strict,
        progress=progress_on(make_console(stderr=True)),
    )
    say(summary, command.out, make_console())
    return 0


def say(summary: Summary, out: Path, console: Console) -> None:
    def line(text: str) -> None:
        console.print(text, soft_wrap=True, highlight=False, markup=False)

    shown = ", ".join(f"{count} rows of '{name}'" for name, count in sorted(summary.support.items()))
    line(f"adapted to {shown}")
    found = ", ".join(f"{count:,} as '{name}'" for name, count in sorted(summary.predicted.items()))
    line(f"{summary.rows:,} rows labelled: {found or 'none'}")
    if summary.unlike:
        line(f"{summary.unlike:,} of them are unlike the support: what is said of them is a guess")
    if summary.left_out:
        line(f"{summary.left_out:,} rows cannot be used and were left out:")
        for sentence in summary.reasons:
            line(f"  {sentence}")
        if summary.left_out > len(summary.reasons):
            line(f"  and {summary.left_out - len(summary.reasons):,} more")
    line(f"written to {out}")
