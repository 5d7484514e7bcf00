"""Predictions from files to a file: adapt to the support of one or several new tasks, then label queries in chunks."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fewtask.datasets.base import Progress, quiet
from fewtask.errors import DataError
from fewtask.features import BadRow, Table
from fewtask.features.table import as_text
from fewtask.files import write_atomically
from fewtask.learner.model import AdaptedModel, Model
from fewtask.learner.sources import (
    LABEL,
    ONE_TASK,
    Labelled,
    chunk_count,
    query_chunks,
    read_labelled,
    transformed,
)

PREDICTED, PROBABILITY, DISTANCE, UNLIKE = "predicted", "probability_", "distance", "unlike_support"
MOST_LISTED = 10


@dataclass
class Summary:
    """What was done: how many rows of each predicted class, how many unlike the support, and the rows left out."""

    classes: list[str]
    support: Counter[str] = field(default_factory=Counter)
    predicted: Counter[str] = field(default_factory=Counter)
    unlike: int = 0
    left_out: int = 0
    reasons: list[str] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return sum(self.predicted.values())

    def leave_out(self, source: str, bad: list[BadRow]) -> None:
        """Counts rows that cannot be read, and keeps the first few: a file may hold a million of them."""
        self.left_out += len({row.row for row in bad})
        self.reasons += [f"{source}, {row}" for row in bad[: MOST_LISTED - len(self.reasons)]]


@dataclass(frozen=True)
class NewTask:
    """A task of the support: its classes, and the model adapted to it."""

    classes: list[str]
    adapted: AdaptedModel


def predict_files(
    model: Model,
    support: Path,
    query: Path,
    out: Path,
    *,
    label_column: str = LABEL,
    task_column: str | None = None,
    strict: bool = False,
    progress: Progress = quiet,
) -> Summary:
    """Writes the query's own columns, the predicted class, probabilities, distance and whether a row is unlike all.

    Rows that cannot be read are left out and listed, or with `strict` refused; then nothing is written.
    """
    separator = _separator(out)
    labelled = read_labelled(support, model, label_column, task_column)
    tasks, bad = adapt_all(labelled, model, strict, task_column is not None)
    summary = Summary(sorted({name for task in tasks.values() for name in task.classes}))
    summary.leave_out(support.name, bad)
    summary.support.update(labelled.labels.tolist())

    def write(path: Path) -> None:
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, delimiter=separator, lineterminator="\n")
            for number, chunk in enumerate(progress(query_chunks(query, model), "predicting", chunk_count(query))):
                if number == 0:
                    writer.writerow(header(chunk, summary.classes, query))
                writer.writerows(label_chunk(chunk, tasks, model, summary, task_column, strict))

    write_atomically(out, write)
    return summary


def adapt_all(labelled: Labelled, model: Model, strict: bool, several: bool) -> tuple[dict[str, NewTask], list[BadRow]]:
    """The model adapted to each task of the support, and the rows of the support that cannot be read."""
    features, good, bad = transformed(labelled.table, model)
    _refuse(bad, strict, labelled.table.source)
    labels, of = labelled.labels[good], labelled.tasks[good]
    tasks = {}
    for name in dict.fromkeys(of.tolist()):
        here = np.flatnonzero(of == name)
        classes, index = np.unique(labels[here], return_inverse=True)
        if len(classes) < 2:
            place = f" of task '{name}'" if several else ""
            raise DataError(
                f"the support{place} has {len(here)} readable rows of one class: at least two classes are needed"
            )
        adapted = model.adapt(features[here], index.reshape(-1), len(classes))
        tasks[name] = NewTask([str(label) for label in classes], adapted)
    if not tasks:
        raise DataError(f"no row of {labelled.table.source} can be read: {bad[0]}")
    return tasks, bad


def header(chunk: Table, classes: list[str], query: Path) -> list[str]:
    added = [PREDICTED, *(PROBABILITY + name for name in classes), DISTANCE, UNLIKE]
    taken = [name for name in added if name in chunk.names]
    if taken:
        raise DataError(f"{query} has a column '{taken[0]}' already, which predictions would add: rename it")
    return [*own_columns(chunk), *added]


def own_columns(chunk: Table) -> list[str]:
    """The query's columns; of arrays, whose cells are no text, the number of the row instead."""
    return ["row"] if _is_array(chunk) else chunk.names


def label_chunk(
    chunk: Table,
    tasks: dict[str, NewTask],
    model: Model,
    summary: Summary,
    task_column: str | None,
    strict: bool,
) -> Iterator[list[Any]]:
    """A line of the output for each row that can be read, in the order of the query."""
    features, good, bad = transformed(chunk, model)
    of = np.array(chunk.texts(task_column))[good] if task_column is not None else np.full(len(good), ONE_TASK)
    for name in dict.fromkeys(of[~np.isin(of, list(tasks))].tolist()):
        reason = f"task '{name}' has no labelled row in the support"
        bad += [chunk.bad(good[place], task_column or "", reason) for place in np.flatnonzero(of == name)]
    _refuse(bad, strict, chunk.source)
    summary.leave_out(chunk.source, bad)
    lines: dict[int, list[Any]] = {}
    for name, task in tasks.items():
        here = np.flatnonzero(of == name)
        if here.size:
            _judge(task, features[here], good[here], summary, lines)
    cells = _cells(chunk)
    return ([*(column[row] for column in cells), *lines[row]] for row in sorted(lines))


def _judge(
    task: NewTask, features: np.ndarray, rows: np.ndarray, summary: Summary, lines: dict[int, list[Any]]
) -> None:
    found = task.adapted.judge(features)
    probabilities, best = np.exp(found.log_probabilities), found.log_probabilities.argmax(axis=1)
    unlike = found.distances > task.adapted.limit
    summary.predicted.update(task.classes[place] for place in best.tolist())
    summary.unlike += int(unlike.sum())
    place = {name: number for number, name in enumerate(task.classes)}
    for number, row in enumerate(rows.tolist()):
        # A class of another task has no probability here.
        chances = [f"{probabilities[number, place[name]]:.6g}" if name in place else "" for name in summary.classes]
        lines[row] = [
            task.classes[int(best[number])],
            *chances,
            f"{found.distances[number]:.6g}",
            "true" if unlike[number] else "false",
        ]


def _cells(chunk: Table) -> list[Any]:
    if _is_array(chunk):
        return [chunk.lines.tolist()]
    return [
        column if isinstance(column, list) else [as_text(cell) for cell in column] for column in chunk.columns.values()
    ]


def _is_array(chunk: Table) -> bool:
    return any(isinstance(column, np.ndarray) and column.ndim > 1 for column in chunk.columns.values())


def _refuse(bad: list[BadRow], strict: bool, source: str) -> None:
    if bad and strict:
        raise DataError(f"{source}, {bad[0]}: correct it, or leave --strict out to skip such rows")


def _separator(out: Path) -> str:
    if out.suffix.lower() in (".tsv", ".tab"):
        return "\t"
    if out.suffix.lower() not in (".csv", ".txt"):
        raise DataError(f"predictions are written as .csv or .tsv, and --out is {out.name}")
    return ","
