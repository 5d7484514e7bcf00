"""The page's figures: loss curves, accuracy against set size, and task maps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fewtask.experiments.figures import mean_curve
from fewtask.experiments.grid import Cell, cell_settings
from fewtask.experiments.ledger import run_digest
from fewtask.experiments.summary import collect as cell_records
from fewtask.experiments.tables import METHOD_TITLES
from fewtask.report.charts import Line, line_chart, map_chart, map_legend, swatch
from fewtask.report.collect import Collected, Filled, task_maps

LOSSES = {"loss": "meta-training loss", "validation_loss": "meta-validation loss"}
CURVES_FROM = ("table1", "table2", "table7")


@dataclass(frozen=True)
class Chart:
    """Panels with one legend: (SVG, text)."""

    title: str
    panels: list[str]
    legend: list[tuple[str, str]]


def loss_curves(collected: Collected) -> list[Chart]:
    """Training and validation loss of all methods, means over seeds, for each data set and setup."""
    cells: dict[str, dict[str, Cell]] = {}
    for one in filter(None, map(collected.named, CURVES_FROM)):
        for cell in one.experiment.cells:
            # Two tables may give the same runs different names: the first one stays.
            cells.setdefault(cell.column, {}).setdefault(run_digest(cell_settings(cell, 0)), cell)
    charts = []
    for column, own in cells.items():
        points: list[dict[str, Any]] = []
        for cell in own.values():
            for record in cell_records(cell, collected.ledger, collected.ledger.seeds).values():
                points += [{"column": column, "row": cell.row, **point} for point in record["history"]]
        styles = _styles(point["row"] for point in points)
        panels = []
        for key, title in LOSSES.items():
            lines = [_curve(points, column, name, key, style) for name, style in styles.items()]
            panels.append(line_chart(title, "step", lines, from_zero=True))
        if any(panels):
            legend = [(swatch(style), name) for name, style in styles.items()]
            charts.append(Chart(column, [panel for panel in panels if panel], legend))
    return charts


def _styles(names: Iterable[str]) -> dict[str, int]:
    """A method looks the same in every chart, whichever others are there."""
    known = [title for method, title in METHOD_TITLES.items() if method != "centroid"]
    styles: dict[str, int] = {}
    for name in dict.fromkeys(names):
        styles[name] = known.index(name) if name in known else len(known) + len(styles)
    return styles


def _curve(points: list[dict[str, Any]], column: str, row: str, key: str, style: int) -> Line:
    steps, means = mean_curve(points, column, row, key)
    return Line(row, [(float(x), float(y), 0.0) for x, y in zip(steps, means)], style)


def set_sizes(one: Filled) -> list[Chart]:
    lines = []
    for index, column in enumerate(one.test.columns):
        own = [r for r in one.test.results if r.cell.column == column and r.accuracy is not None]
        points = [(float(r.cell.row), 100 * r.accuracy.value, 100 * r.accuracy.interval) for r in own if r.accuracy]
        lines.append(Line(column, points, index))
    svg = line_chart("test accuracy, %", "elements of an interpolated set", lines, from_zero=False, unit=" %")
    return [Chart("", [svg], [(swatch(i), line.name) for i, line in enumerate(lines)])] if svg else []


def maps(collected: Collected) -> list[Chart]:
    """The methods' maps of a data set side by side: they show the same original tasks."""
    charts: dict[str, Chart] = {}
    for column, row, values in task_maps(collected):
        chart = charts.setdefault(column, Chart(column, [], map_legend(values)))
        chart.panels.append(map_chart(row, values))
    return list(charts.values())
