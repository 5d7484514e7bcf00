"""The paper's figures from the ledger, each with its numbers as CSV beside it.

Colours are Okabe and Ito's, which people with any kind of colour vision can tell apart; lines also carry their
names, and differ in dash or marker.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fewtask import plotting
from fewtask.errors import RunError
from fewtask.experiments.grid import Gathered
from fewtask.experiments.pictures import heat_map
from fewtask.experiments.render import csv_text
from fewtask.experiments.summary import summarise
from fewtask.experiments.tables import Table
from fewtask.files import write_text

VARIANT_COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), "-", "--", "-.")
MARKERS = ("o", "s", "^")
PARENT_COLOURS = {(0, 1): "#56B4E9", (0, 2): "#E69F00", (1, 2): "#CC79A7"}
ORIGINAL_COLOURS = ("#0072B2", "#D55E00", "#009E73")
FEW_POINTS = 12


def draw(table: Table, gathered: Gathered, out: Path, test: bool = True) -> list[Path]:
    """Writes NAME.png, NAME.pdf and NAME.csv; the files that were written."""
    if table.kind == "map":
        return _map(table, gathered, out, test)
    if table.kind == "tasks":
        rows, paint = _tasks(table, gathered)
    elif table.kind == "loss":
        rows, paint = _losses(table, gathered)
    else:
        rows, paint = _set_sizes(table, gathered, test)
    if not rows:
        raise RunError(f"the ledger has no run of '{table.name}' yet: nothing to draw")
    write_text(out / f"{table.name}.csv", csv_text(rows))
    written = [out / f"{table.name}.csv"]
    pictures = [out / f"{table.name}.{ending}" for ending in ("png", "pdf")]
    plotting.draw(paint, *pictures)
    written += pictures
    return written


Rows = list[dict[str, Any]]
Paint = Callable[[Any], Any]


def _losses(table: Table, gathered: Gathered) -> tuple[Rows, Paint]:
    """A line a method, the mean over seeds; training on the left and validation on the right of each data set."""
    rows: Rows = []
    for cell in table.cells:
        for seed, record in gathered.of(cell).items():
            rows += [{"column": cell.column, "row": cell.row, "seed": seed, **point} for point in record["history"]]

    def paint(pyplot: Any) -> Any:
        kinds = {"loss": "meta-training loss", "validation_loss": "meta-validation loss"}
        columns = table.columns
        figure, axes = pyplot.subplots(len(columns), 2, figsize=(9, 3.1 * len(columns)), squeeze=False)
        for line, column in zip(axes, columns):
            for axis, (key, title) in zip(line, kinds.items()):
                for index, name in enumerate(table.rows):
                    steps, means = mean_curve(rows, column, name, key)
                    if len(steps):
                        marker = "." if len(steps) < FEW_POINTS else None
                        axis.plot(steps, means, marker=marker, label=name, **line_style(table, index))
                axis.set(title=f"{column}: {title}", xlabel="step", ylabel="loss")
                axis.set_ylim(bottom=0)
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncol=3, frameon=False, bbox_to_anchor=(0.5, 1.0))
        figure.tight_layout()
        return figure

    return rows, paint


def line_style(table: Table, index: int) -> dict[str, Any]:
    """Of a row: its method's colour where the rows are methods, a colour by turns where they are variants of one."""
    methods = {cell.row: cell.method for cell in table.cells}
    method = methods[table.rows[index]]
    alone = list(methods.values()).count(method) == 1
    return {
        "color": plotting.method_colour(method) if alone else VARIANT_COLOURS[index % len(VARIANT_COLOURS)],
        "linewidth": plotting.method_width(method) if alone else 1.5,
        "linestyle": DASHES[index % len(DASHES)],
    }


def mean_curve(rows: Rows, column: str, row: str, key: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and the mean over seeds of a number at each."""
    points: dict[int, list[float]] = {}
    for point in rows:
        if point["column"] == column and point["row"] == row and point[key] is not None:
            points.setdefault(point["step"], []).append(point[key])
    steps = sorted(points)
    return np.array(steps), np.array([np.mean(points[step]) for step in steps])


def _map(table: Table, gathered: Gathered, out: Path, test: bool) -> list[Path]:
    """A heat map of paired differences; its numbers are those of the table."""
    path = out / f"{table.name}.svg"
    write_text(path, heat_map(summarise(table, gathered, test)))
    return [path]


def _set_sizes(table: Table, gathered: Gathered, test: bool) -> tuple[Rows, Paint]:
    summary = summarise(table, gathered, test)
    rows: Rows = [
        {
            "column": result.cell.column,
            "set_size": int(result.cell.row),
            "accuracy": round(100 * result.accuracy.value, 4),
            "interval": round(100 * result.accuracy.interval, 4),
            "seeds": result.seeds,
            "basis": result.accuracy.basis,
            "split": summary.split,
        }
        for result in summary.results
        if result.accuracy is not None
    ]

    def paint(pyplot: Any) -> Any:
        figure, axis = pyplot.subplots(figsize=(4.2, 3.1))
        for index, column in enumerate(table.columns):
            own = [row for row in rows if row["column"] == column]
            x, y, error = (np.array([row[key] for row in own]) for key in ("set_size", "accuracy", "interval"))
            axis.errorbar(
                x,
                y,
                error,
                color=VARIANT_COLOURS[index % len(VARIANT_COLOURS)],
                marker="o",
                capsize=3,
                linewidth=1.5,
                label=column,
            )
        axis.set(xlabel="elements of an interpolated set", ylabel=f"{summary.split} accuracy, %")
        axis.set_xticks(sorted({row["set_size"] for row in rows}))
        axis.legend(frameon=False)
        figure.tight_layout()
        return figure

    return rows, paint


def _tasks(table: Table, gathered: Gathered) -> tuple[Rows, Paint]:
    """A panel a method and data set, of the first seed."""
    rows: Rows = []
    maps = []
    for cell in table.cells:
        values = gathered.map_of(cell)
        if values is None:
            continue
        maps.append((cell, values))
        for x, y, task, position in values["points"]:
            parents = values["parents"][task]
            kind = "original" if len(parents) == 1 else "interpolated"
            names = " + ".join(values["originals"][p]["name"] for p in parents)
            place = {"column": cell.column, "row": cell.row, "kind": kind, "task": task, "name": names}
            rows.append({**place, "class": position, "x": x, "y": y})

    def paint(pyplot: Any) -> Any:
        figure, axes = pyplot.subplots(1, len(maps), figsize=(3.0 * len(maps), 3.2), squeeze=False)
        for axis, (cell, values) in zip(axes[0], maps):
            _paint_map(axis, values)
            axis.set_title(f"{cell.column}: {cell.row}", fontsize=9)
        handles, labels = axes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="lower center", ncol=3, frameon=False, bbox_to_anchor=(0.5, -0.14))
        figure.tight_layout()
        return figure

    return rows, paint


def _paint_map(axis: Any, values: dict[str, Any]) -> None:
    points = np.array([[x, y, task] for x, y, task, _ in values["points"]])
    parents = [tuple(p) for p in values["parents"]]
    for pair, colour in PARENT_COLOURS.items():
        own = np.array([tuple(sorted(parents[int(task)])) == pair for task in points[:, 2]])
        label = f"tasks {pair[0] + 1} and {pair[1] + 1} interpolated"
        axis.scatter(*points[own, :2].T, s=6, color=colour, alpha=0.6, linewidths=0, label=label)
    for index, colour in enumerate(ORIGINAL_COLOURS[: len(values["originals"])]):
        own = points[:, 2] == index
        style = {"s": 45, "color": colour, "marker": MARKERS[index], "edgecolors": "black", "linewidths": 0.8}
        axis.scatter(*points[own, :2].T, zorder=3, label=f"task {index + 1}", **style)
    axis.set(xticks=[], yticks=[])
