"""An experiment's figures on the web page: loss curves, accuracy against set size, and task maps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fewtask.experiments.figures import mean_curve
from fewtask.report.charts import Line, line_chart, map_chart, map_legend, swatch
from fewtask.report.collect import Filled, Shown

LOSSES = {"loss": "meta-training loss", "validation_loss": "meta-validation loss"}
CURVES_FROM = ("table1", "table2", "table7", "figure-loss")


@dataclass(frozen=True)
class Chart:
    """Panels with one legend: (SVG, text)."""

    title: str
    panels: list[str]
    legend: list[tuple[str, str]]


def loss_curves(one: Shown) -> list[Chart]:
    """Training and validation loss of all methods, means over seeds."""
    charts = []
    for filled in one.filled:
        if filled.table.name not in CURVES_FROM:
            continue
        points: list[dict[str, Any]] = []
        methods: dict[str, str] = {}
        for cell in filled.table.cells:
            for record in one.gathered.of(cell).values():
                points += [{"column": cell.column, "row": cell.row, **point} for point in record["history"]]
                if record["history"]:
                    methods[cell.row] = cell.method
        for column in filled.table.columns:
            panels = []
            for key, title in LOSSES.items():
                lines = [_curve(points, column, row, key, method) for row, method in methods.items()]
                panels.append(line_chart(title, "step", lines, from_zero=True))
            if any(panels):
                legend = [(swatch(method), row) for row, method in methods.items()]
                charts.append(Chart("Losses", [panel for panel in panels if panel], legend))
    return charts


def _curve(points: list[dict[str, Any]], column: str, row: str, key: str, method: str) -> Line:
    steps, means = mean_curve(points, column, row, key)
    return Line(row, [(float(x), float(y), 0.0) for x, y in zip(steps, means)], method)


def set_sizes(one: Filled) -> list[Chart]:
    lines = []
    for column in one.table.columns:
        own = [r for r in one.test.results if r.cell.column == column and r.accuracy is not None]
        points = [(float(r.cell.row), 100 * r.accuracy.value, 100 * r.accuracy.interval) for r in own if r.accuracy]
        lines.append(Line(column, points, own[0].cell.method if own else ""))
    svg = line_chart("test accuracy, %", "elements of an interpolated set", lines, from_zero=False, unit=" %")
    return [Chart("", [svg], [(swatch(line.method), line.name) for line in lines])] if svg else []


def maps(one: Shown) -> list[Chart]:
    """The methods' maps side by side: they show the same original tasks."""
    charts: dict[str, Chart] = {}
    for table in (table for table in one.experiment.tables if table.kind == "tasks"):
        for cell in table.cells:
            values = one.gathered.map_of(cell)
            if values is not None:
                chart = charts.setdefault(cell.column, Chart("Original and interpolated tasks", [], map_legend(values)))
                chart.panels.append(map_chart(cell.row, values))
    return list(charts.values())
