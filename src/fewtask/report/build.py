"""The web page: one self-contained file. The first screen answers, the rest is one click away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fewtask.errors import RunError
from fewtask.experiments.render import LEGEND, calibration_text, mean_text, own_text, paper_text, updates_text
from fewtask.experiments.statistics import Mean, is_clear
from fewtask.experiments.summary import CellResult
from fewtask.experiments.tables import METHOD_TITLES
from fewtask.plotting import method_colour
from fewtask.presets import preset_label
from fewtask.report.claims import VERDICTS, Claim, counted
from fewtask.report.collect import Collected, DatasetPage, Filled, Shown, Standing, facts, preset_lines
from fewtask.report.findings import read_findings
from fewtask.report.markdown import CALIBRATION, claim_sentence, dataset_picture, map_picture
from fewtask.report.panels import Chart, loss_curves, maps, set_sizes
from fewtask.report.prose import html, inline
from fewtask.report.runs import run_rows
from fewtask.report.short import in_short


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
    numbers: list[Number]
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
    """A table of an experiment."""

    id: str
    title: str
    note: str
    header: list[str]
    rows: list[Row]
    tasks: list[Tasks]
    missing: list[str]


@dataclass(frozen=True)
class Part:
    """An experiment."""

    id: str
    shown: Shown
    base: str | None
    preset: str
    changes: list[tuple[str, str]]
    sections: list[Section]
    charts: list[Chart]
    pictures: list[str]
    claims: list[Claim]
    verdicts: dict[str, int]


@dataclass(frozen=True)
class DatasetPart:
    """A data set: its row on the first screen, and its experiments behind it."""

    page: DatasetPage
    picture: str
    standing: Standing | None
    updates: str
    notes: str
    parts: list[Part]


def page(collected: Collected) -> str:
    """The page's HTML."""
    context: dict[str, Any] = {
        "datasets": [_dataset(one) for one in collected.datasets],
        "short": in_short(collected),
        "findings": [inline(text) for text in read_findings(collected)],
        "claims": claim_sentence(collected) if collected.claims else "",
        "facts": facts(collected),
        "verdicts": VERDICTS,
        "runs": run_rows(collected),
        "legend": LEGEND,
        "colours": {method: method_colour(method) for method in METHOD_TITLES},
        "mean_text": mean_text,
        "judged": judged,
    }
    return _environment().get_template("page.html").render(context)


def _environment() -> Any:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise RunError('the report needs Jinja2: pip install "fewtask[report]"') from error
    made = Environment(
        loader=PackageLoader("fewtask", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # Escapes for itself.
    made.filters["prose"] = inline
    return made


def _dataset(dataset: DatasetPage) -> DatasetPart:
    standing = dataset.leading.standing
    updates = "—" if standing is None else updates_text(standing.ours)
    parts = [_part(one) for one in dataset.shown]
    return DatasetPart(dataset, dataset_picture(dataset), standing, updates, html(dataset.notes), parts)


def _part(one: Shown) -> Part:
    name = one.experiment.name.replace("/", "-")
    base, changes = preset_lines(one.experiment)
    shown = [filled for filled in one.filled if filled.table.kind in ("table", "set-size", "map")]
    sections = [_section(filled, f"{name}-{filled.table.name}", one.experiment.test) for filled in shown]
    sizes = [chart for filled in one.filled if filled.table.kind == "set-size" for chart in set_sizes(filled)]
    return Part(
        name, one, base, preset_label(one.experiment.preset), changes, sections,
        [*sizes, *loss_curves(one), *maps(one)], list(map_picture(one).values()),
        one.claims, {verdict: count for verdict, count in counted(one.claims).items() if count},
    )  # fmt: skip


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


def _plain_number(value: float | None, text: str) -> Number:
    return Number("—") if value is None else Number(text.format(value), value)


def _section(one: Filled, name: str, test: bool) -> Section:
    table = one.table
    paper = any(result.cell.paper for result in one.test.results)
    gains = test and table.reference != "ProtoNet" and any(one.gain(result) for result in one.test.results)
    header = ["here, test % (seeds)"] if test else []
    header += ["paper", *(["here − paper"] if test else [])] if paper else []
    header += [f"{table.reference} − row"] if test else []
    header += ["row − ProtoNet"] if gains else []
    header += ["validation %" if test else "validation % (seeds)", f"{table.reference} − row, validation"]
    sure = any(result.calibration for result in one.test.results)
    header += [CALIBRATION] if sure else []
    header += ["training loss", "validation loss", "updates of λ", "seconds a run"]
    rows = []
    for result, validation in zip(one.test.results, one.validation.results):
        own = result.cell.row == table.reference
        own_accuracy = Number(own_text(result), None if result.accuracy is None else result.accuracy.value)
        numbers = [own_accuracy] if test else []
        if paper:
            numbers += [Number(paper_text(result), result.cell.paper and result.cell.paper[0])]
            numbers += [_against_paper(result)] if test else []
        numbers += [Number("") if own else judged(result.behind)] if test else []
        numbers += [judged(one.gain(result))] if gains else []
        numbers += [_accuracy(validation.accuracy) if test else Number(own_text(validation))]
        numbers += [Number("") if own else judged(validation.behind)]
        after = result.calibration and result.calibration[1]
        numbers += [Number(calibration_text(result.calibration), after)] if sure else []
        numbers += [_plain_number(loss, "{:.3f}") for loss in (result.training_loss, result.validation_loss)]
        numbers += [Number(updates_text(result)), _plain_number(result.seconds, "{:,.0f}")]
        rows.append(Row(result.cell.column, result.cell.row, numbers, _is_best(one, result, test), own))
    missing = [f"{column}: {', '.join(absent)}" for column, absent in one.missing.items()]
    tasks = [_tasks(one, column) for column in table.columns] if test else []
    return Section(name, f"{table.name}: {table.title}", table.note, header, rows, tasks, missing)


def _is_best(one: Filled, result: CellResult, test: bool) -> bool:
    summary = one.test if test else one.validation
    known = [
        (r.accuracy.value, r.cell.row) for r in summary.results if r.cell.column == result.cell.column and r.accuracy
    ]
    return len(known) > 1 and max(known)[1] == result.cell.row


def _tasks(one: Filled, column: str) -> Tasks:
    results = [result for result in one.test.results if result.cell.column == column and result.tasks]
    names = dict.fromkeys(task for result in results for task in result.tasks)
    rows = [(name, [_accuracy(result.tasks.get(name)) for result in results]) for name in names]
    return Tasks(column, [result.cell.row for result in results], rows)
