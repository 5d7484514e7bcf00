"""The web page: one self-contained file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fewtask.errors import RunError
from fewtask.report.charts import Line, line_chart, map_chart, map_legend, swatch
from fewtask.report.claims import VERDICTS, counted
from fewtask.report.collect import Collected, Filled, facts, run_lines, standings, task_maps
from fewtask.reproduce.figures import mean_curve
from fewtask.reproduce.render import LEGEND, mean_text
from fewtask.reproduce.statistics import Mean
from fewtask.reproduce.summary import CellResult
from fewtask.reproduce.summary import collect as cell_records
from fewtask.reproduce.tables import experiment_names, get_experiment

LOSSES = {"loss": "meta-training loss", "validation_loss": "meta-validation loss"}
CURVES_FROM = ("table1", "table2", "table7")


@dataclass(frozen=True)
class Number:
    """A number in a table. mark: better, worse, or even, with `clear` when the intervals leave no doubt."""

    text: str
    sort: float | None = None
    mark: str = ""
    meaning: str = ""


@dataclass(frozen=True)
class Row:
    column: str
    row: str
    seeds: int
    accuracy: Number
    paper: Number
    against_paper: Number
    lead: Number
    gain: Number
    validation: Number
    validation_lead: Number
    seconds: Number
    best: bool
    reference: bool


@dataclass(frozen=True)
class Tasks:
    """A row a test task, a column a method."""

    column: str
    header: list[str]
    rows: list[tuple[str, list[Number]]]


@dataclass(frozen=True)
class Chart:
    """Panels with one legend: (SVG, text)."""

    title: str
    panels: list[str]
    legend: list[tuple[str, str]]


@dataclass(frozen=True)
class Section:
    name: str
    title: str
    note: str
    reference: str
    has_gain: bool
    rows: list[Row]
    tasks: list[Tasks]
    missing: list[str]
    charts: list[Chart]


def page(collected: Collected) -> str:
    """The page's HTML."""
    sections = [_section(one) for one in collected.filled if one.experiment.kind in ("table", "set-size")]
    context: dict[str, Any] = {
        "facts": facts(collected),
        "index": _index(collected),
        "standings": standings(collected),
        "sections": sections,
        "curves": loss_curves(collected),
        "maps": _maps(collected),
        "claims": collected.claims,
        "verdicts": VERDICTS,
        "counts": counted(collected.claims),
        "runs": run_lines(collected),
        "legend": LEGEND,
        "mean_text": mean_text,
        "judged": judged,
    }
    return _environment().get_template("page.html").render(context)


def _environment() -> Any:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise RunError('the report needs Jinja2: pip install "fewtask[report]"') from error
    return Environment(
        loader=PackageLoader("fewtask", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def judged(mean: Mean | None, better: str = "ahead", worse: str = "behind") -> Number:
    """A difference, marked by its sign and by whether its interval excludes zero."""
    if mean is None:
        return Number("—")
    clear = abs(mean.value) > mean.interval
    mark = ("better" if mean.value > 0 else "worse" if mean.value < 0 else "even") + ("" if clear else " unsure")
    meaning = better if mean.value > 0 else worse if mean.value < 0 else "even"
    return Number(mean_text(mean, sign=True), mean.value, mark, meaning + ("" if clear else ", within its interval"))


def _accuracy(mean: Mean | None) -> Number:
    return Number("—") if mean is None else Number(mean_text(mean), mean.value)


def _against_paper(result: CellResult) -> Number:
    mean, paper = result.accuracy, result.cell.paper
    if mean is None or paper is None:
        return Number("")
    # Two independent means: their intervals add in quadrature.
    interval = (mean.interval**2 + (paper[1] / 100) ** 2) ** 0.5
    return judged(
        Mean(mean.value - paper[0] / 100, interval, mean.seeds, "seeds"), "above the paper", "below the paper"
    )


def _section(one: Filled) -> Section:
    experiment = one.experiment
    best = {column: _best(one, column) for column in one.test.columns}
    rows = []
    for result, validation in zip(one.test.results, one.validation.results):
        cell = result.cell
        paper = (
            Number("") if cell.paper is None else Number(f"{cell.paper[0]:.2f} ± {cell.paper[1]:.2f}", cell.paper[0])
        )
        seconds = Number("—") if result.seconds is None else Number(f"{result.seconds:,.0f}", result.seconds)
        reference = cell.row == experiment.reference
        rows.append(
            Row(
                cell.column, cell.row, validation.seeds, _accuracy(result.accuracy), paper, _against_paper(result),
                Number("") if reference else judged(result.behind),
                judged(one.gain(result)),
                _accuracy(validation.accuracy),
                Number("") if reference else judged(validation.behind),
                seconds, cell.row == best[cell.column], reference,
            )
        )  # fmt: skip
    missing = [f"{column}: {', '.join(absent)}" for column, absent in one.present.missing.items() if absent]
    charts = _set_sizes(one) if experiment.kind == "set-size" else []
    has_gain = experiment.reference != "ProtoNet" and any(row.gain.sort is not None for row in rows)
    return Section(
        experiment.name, experiment.title, experiment.note, experiment.reference, has_gain,
        rows, [_tasks(one, column) for column in one.test.columns], missing, charts,
    )  # fmt: skip


def _best(one: Filled, column: str) -> str | None:
    known = [(r.accuracy.value, r.cell.row) for r in one.test.results if r.cell.column == column and r.accuracy]
    return max(known)[1] if len(known) > 1 else None


def _tasks(one: Filled, column: str) -> Tasks:
    results = [result for result in one.test.results if result.cell.column == column and result.tasks]
    names = dict.fromkeys(task for result in results for task in result.tasks)
    rows = [(name, [_accuracy(result.tasks.get(name)) for result in results]) for name in names]
    return Tasks(column, [result.cell.row for result in results], rows)


def _index(collected: Collected) -> list[dict[str, Any]]:
    """Each table and figure of the paper: where it is on the page, or how to make it."""
    entries = []
    for name in experiment_names():
        one = collected.named(name)
        entry: dict[str, Any] = {"name": name, "title": get_experiment(name).title, "present": one is not None}
        if one is not None:
            seeds = [result.seeds for result in one.validation.results]
            span = f"{min(seeds)}" if min(seeds) == max(seeds) else f"{min(seeds)} to {max(seeds)}"
            numbers = f"{len(seeds)} numbers of {span} seed{'' if span == '1' else 's'}"
            lacking = sum(map(len, one.present.missing.values()))
            entry["text"] = numbers + (f", {lacking} not run" if lacking else "")
        entries.append(entry)
    return entries


def loss_curves(collected: Collected) -> list[Chart]:
    """Training and validation loss of all methods, means over seeds, for each data set and setup."""
    cells: dict[str, dict[str, Any]] = {}
    for one in filter(None, map(collected.named, CURVES_FROM)):
        for cell in one.experiment.cells:
            cells.setdefault(cell.column, {}).setdefault(cell.row, cell)
    charts = []
    for column, rows in cells.items():
        points: list[dict[str, Any]] = []
        for row, cell in rows.items():
            for record in cell_records(cell, collected.ledger, collected.ledger.seeds).values():
                points += [{"column": column, "row": row, **point} for point in record["history"]]
        names = [row for row in rows if any(point["row"] == row for point in points)]
        panels = [
            line_chart(
                title, "step", [_curve(points, column, name, key, i) for i, name in enumerate(names)], from_zero=True
            )
            for key, title in LOSSES.items()
        ]
        if any(panels):
            charts.append(Chart(column, [p for p in panels if p], [(swatch(i), name) for i, name in enumerate(names)]))
    return charts


def _curve(points: list[dict[str, Any]], column: str, row: str, key: str, style: int) -> Line:
    steps, means = mean_curve(points, column, row, key)
    return Line(row, [(float(x), float(y), 0.0) for x, y in zip(steps, means)], style)


def _set_sizes(one: Filled) -> list[Chart]:
    lines = []
    for index, column in enumerate(one.test.columns):
        own = [r for r in one.test.results if r.cell.column == column and r.accuracy is not None]
        points: Sequence[tuple[float, float, float]] = [
            (float(r.cell.row), 100 * r.accuracy.value, 100 * r.accuracy.interval) for r in own if r.accuracy
        ]
        lines.append(Line(column, points, index))
    svg = line_chart("test accuracy, %", "elements of an interpolated set", lines, from_zero=False, unit=" %")
    return [Chart("", [svg], [(swatch(i), line.name) for i, line in enumerate(lines)])] if svg else []


def _maps(collected: Collected) -> list[Chart]:
    """The methods' maps of a data set side by side: they show the same original tasks."""
    charts: dict[str, Chart] = {}
    for column, row, values in task_maps(collected):
        chart = charts.setdefault(column, Chart(column, [], map_legend(values)))
        chart.panels.append(map_chart(row, values))
    return list(charts.values())
