"""A filled table for people and for programs: on the terminal, as Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from rich.table import Table

from fewtask.experiments.statistics import Mean
from fewtask.experiments.summary import CellResult, Summary
from fewtask.files import write_text
from fewtask.presets import preset_label

LEGEND = (
    "Accuracy in percent (seeds done), ± half of the 95 % interval: over seeds by Student's t; "
    "with one seed over episodes, marked *."
)
CSV_COLUMNS = (
    "table", "row", "column", "preset", "method", "split", "seeds", "mean", "interval", "basis", "paper_mean",
    "paper_interval", "reference", "reference_minus_this", "difference_interval", "difference_seeds",
    "difference_basis", "training_loss", "validation_loss", "validation_accuracy", "seconds",
)  # fmt: skip


def mean_text(mean: Mean | None, sign: bool = False) -> str:
    if mean is None:
        return "—"
    value = f"{100 * mean.value:+z.2f}" if sign else f"{100 * mean.value:.2f}"
    star = "*" if mean.basis == "episodes" else ""
    return f"{value} ± {100 * mean.interval:.2f}{star}"


def own_text(result: CellResult | None) -> str:
    if result is None or result.accuracy is None:
        return "—"
    return f"{mean_text(result.accuracy)} ({result.seeds})"


def paper_text(result: CellResult | None) -> str:
    paper = None if result is None else result.cell.paper
    return "" if paper is None else f"{paper[0]:.2f} ± {paper[1]:.2f}"


def updates_text(result: CellResult) -> str:
    """How often λ was updated in a run."""
    if result.updates is None:
        return "—"
    low, high = result.updates
    return f"{low}" if low == high else f"{low} to {high}"


def calibration_text(calibration: tuple[float, float] | None) -> str:
    return "" if calibration is None else "{:.3f} → {:.3f}".format(*calibration)


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def accuracy_table(summary: Summary) -> Table:
    """Rows by columns; the paper's number below ours."""
    shown = summary.table
    what = "" if summary.split == "test" else f" ({summary.split} tasks)"
    table = Table(title=f"{shown.name}: {shown.title}{what}", title_justify="left", show_lines=True)
    table.add_column("")
    for column in summary.columns:
        table.add_column(column, justify="right", no_wrap=True)
    best = {column: _best(summary, column) for column in summary.columns}
    for row in summary.rows:
        cells = []
        for column in summary.columns:
            result = summary.at(row, column)
            text = own_text(result)
            text = f"[bold]{text}[/bold]" if row == best[column] else text
            paper = paper_text(result)
            cells.append(f"{text}\n[dim]paper {paper}[/dim]" if paper else text)
        table.add_row(row, *cells)
    return table


def difference_table(summary: Summary) -> Table | None:
    """The reference minus each other row, on the same episodes."""
    rows = [row for row in summary.rows if any(_behind(summary, row, c) for c in summary.columns)]
    if not rows:
        return None
    title = f"{summary.table.reference} minus …, on the same episodes"
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for column in summary.columns:
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(row, *(mean_text(_behind(summary, row, column), sign=True) for column in summary.columns))
    return table


def task_table(summary: Summary, column: str) -> Table:
    """A row a test task, a column a method or variant."""
    table = Table(title=f"{column}: {summary.split} tasks", title_justify="left")
    table.add_column("task")
    results = [result for row in summary.rows if (result := summary.at(row, column)) is not None]
    for result in results:
        table.add_column(result.cell.row, justify="right", no_wrap=True)
    for task in dict.fromkeys(task for result in results for task in result.tasks):
        table.add_row(task, *(mean_text(result.tasks.get(task)) for result in results))
    return table


def markdown(summary: Summary, per_task: bool = False) -> str:
    shown = summary.table
    lines = [f"## {shown.name}: {shown.title}", ""]
    if summary.split != "test":
        lines += [f"On the {summary.split} tasks.", ""]
    header = [text for column in summary.columns for text in (column, "paper")]
    body = [
        [row]
        + [text for c in summary.columns for text in (own_text(summary.at(row, c)), paper_text(summary.at(row, c)))]
        for row in summary.rows
    ]
    lines += grid(["", *header], body)
    lines += ["", LEGEND.replace("*", "\\*"), ""]
    if shown.note:
        lines += [shown.note, ""]
    rows = [row for row in summary.rows if any(_behind(summary, row, c) for c in summary.columns)]
    if rows:
        lines += [f"{shown.reference} minus each other row, on the same episodes:", ""]
        texts = [[row, *(mean_text(_behind(summary, row, c), sign=True) for c in summary.columns)] for row in rows]
        lines += [*grid(["", *summary.columns], texts), ""]
    if per_task:
        for column in summary.columns:
            results = [result for row in summary.rows if (result := summary.at(row, column)) is not None]
            tasks = dict.fromkeys(task for result in results for task in result.tasks)
            texts = [[task, *(mean_text(result.tasks.get(task)) for result in results)] for task in tasks]
            lines += [f"### {column}: {summary.split} tasks", ""]
            lines += [*grid(["task", *(result.cell.row for result in results)], texts), ""]
    return "\n".join(lines)


def grid(header: list[str], body: list[list[str]]) -> list[str]:
    """Lines of a Markdown table, numbers to the right."""
    return [
        "| " + " | ".join(header) + " |",
        "|---|" + "---:|" * (len(header) - 1),
        *("| " + " | ".join(row) + " |" for row in body),
    ]


def as_rows(summary: Summary) -> list[dict[str, Any]]:
    """One flat row a cell; accuracies in percent, losses as they are."""
    rows = []
    for result in summary.results:
        cell, mean, behind = result.cell, result.accuracy, result.behind
        values: tuple[Any, ...] = (
            summary.table.name, cell.row, cell.column, preset_label(cell.preset), cell.method, summary.split,
            result.seeds,
            mean and _percent(mean.value), mean and _percent(mean.interval), mean and mean.basis,
            cell.paper and cell.paper[0], cell.paper and cell.paper[1],
            summary.table.reference, behind and _percent(behind.value), behind and _percent(behind.interval),
            behind and behind.seeds, behind and behind.basis,
            result.training_loss, result.validation_loss, result.validation_accuracy, result.seconds,
        )  # fmt: skip
        rows.append(dict(zip(CSV_COLUMNS, values)))
    return rows


def write_table(summary: Summary, out: Path, per_task: bool = False) -> list[Path]:
    """NAME.csv, NAME.md and NAME.json."""
    name, rows = summary.table.name, as_rows(summary)
    document = {
        "name": name,
        "title": summary.table.title,
        "note": summary.table.note,
        "split": summary.split,
        "seeds": summary.seeds,
        "cells": [
            row | {"tasks": {task: [_percent(m.value), _percent(m.interval)] for task, m in result.tasks.items()}}
            for row, result in zip(rows, summary.results)
        ],
    }
    texts = {
        "csv": csv_text(rows),
        "md": markdown(summary, per_task),
        "json": json.dumps(document, indent=1, ensure_ascii=False) + "\n",
    }
    for ending, text in texts.items():
        write_text(out / f"{name}.{ending}", text)
    return [out / f"{name}.{ending}" for ending in texts]


def csv_text(rows: list[dict[str, Any]]) -> str:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def _percent(share: float) -> float:
    return round(100 * share, 4)


def _behind(summary: Summary, row: str, column: str) -> Mean | None:
    result = summary.at(row, column)
    return None if result is None else result.behind


def _best(summary: Summary, column: str) -> str | None:
    known = [
        (result.accuracy.value, row)
        for row in summary.rows
        if (result := summary.at(row, column)) is not None and result.accuracy is not None
    ]
    return max(known)[1] if len(known) > 1 else None
