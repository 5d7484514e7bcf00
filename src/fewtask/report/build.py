"""The web page: one self-contained file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fewtask.errors import RunError
from fewtask.experiments.render import LEGEND, mean_text, own_text
from fewtask.experiments.statistics import Mean
from fewtask.experiments.summary import CellResult
from fewtask.experiments.tables import experiment_names, get_experiment
from fewtask.report.claims import VERDICTS, counted, is_clear
from fewtask.report.collect import Collected, Filled, extended_presets, facts, run_lines, standings
from fewtask.report.panels import Chart, loss_curves, maps, set_sizes
from fewtask.report.present import setup_text


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
class Section:
    name: str
    title: str
    note: str
    reference: str
    has_paper: bool
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
        "setups": [(name, setup_text(setup)) for setup, name in collected.setup_names.items()],
        "presets": extended_presets(collected),
        "index": _index(collected),
        "standings": standings(collected),
        "sections": sections,
        "curves": loss_curves(collected),
        "maps": maps(collected),
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
    clear = is_clear(mean)
    doubt = "" if clear else ", of one seed" if mean.basis == "episodes" else ", within its interval"
    mark = ("better" if mean.value > 0 else "worse" if mean.value < 0 else "even") + ("" if clear else " unsure")
    meaning = better if mean.value > 0 else worse if mean.value < 0 else "even"
    return Number(mean_text(mean, sign=True), mean.value, mark, meaning + doubt)


def _accuracy(mean: Mean | None) -> Number:
    return Number("—") if mean is None else Number(mean_text(mean), mean.value)


def _against_paper(result: CellResult) -> Number:
    mean, paper = result.accuracy, result.cell.paper
    if mean is None or paper is None:
        return Number("")
    # Two independent means: their intervals add in quadrature.
    interval = (mean.interval**2 + (paper[1] / 100) ** 2) ** 0.5
    return judged(
        Mean(mean.value - paper[0] / 100, interval, mean.seeds, mean.basis), "above the paper", "below the paper"
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
        accuracy = Number(own_text(result), None if result.accuracy is None else result.accuracy.value)
        reference = cell.row == experiment.reference
        rows.append(
            Row(
                cell.column, cell.row, accuracy, paper,
                _against_paper(result),
                Number("") if reference else judged(result.behind),
                judged(one.gain(result)),
                _accuracy(validation.accuracy),
                Number("") if reference else judged(validation.behind),
                seconds, cell.row == best[cell.column], reference,
            )
        )  # fmt: skip
    missing = [f"{column}: {', '.join(absent)}" for column, absent in one.present.missing.items() if absent]
    charts = set_sizes(one) if experiment.kind == "set-size" else []
    has_paper = any(row.paper.text for row in rows)
    has_gain = experiment.reference != "ProtoNet" and any(row.gain.sort is not None for row in rows)
    return Section(
        experiment.name, experiment.title, experiment.note, experiment.reference, has_paper, has_gain,
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
