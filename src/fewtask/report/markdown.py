"""The pages of results for the documentation: `index.md` on one screen, a page a data set, and all runs as CSV.

Numbers come from the records, words from `findings.md` and from `notes.md` of a data set.
"""

from __future__ import annotations

import re

from fewtask.experiments.declared import Experiment
from fewtask.experiments.pictures import dot_chart, heat_map
from fewtask.experiments.render import (
    LEGEND,
    calibration_text,
    csv_text,
    grid,
    mean_text,
    own_text,
    paper_text,
    updates_text,
)
from fewtask.presets import preset_label
from fewtask.report.claims import VERDICTS, Claim, counted
from fewtask.report.collect import Collected, DatasetPage, Filled, Shown, facts, preset_lines
from fewtask.report.findings import read_findings
from fewtask.report.runs import run_rows
from fewtask.report.short import in_short

RUNS = "runs.csv"
INDEX = "index.md"
CALIBRATION = "calibration error, before → after"


def pages(collected: Collected) -> dict[str, str]:
    """Every file of the documentation's results: name and text."""
    files = {INDEX: index_page(collected), RUNS: csv_text(run_rows(collected))}
    for dataset in collected.datasets:
        files[f"{dataset.name}.md"] = dataset_page(dataset)
        picture = dataset_picture(dataset)
        if picture:
            files[f"{dataset.name}.svg"] = picture
        for one in dataset.shown:
            files |= map_picture(one)
    return files


def dataset_picture(dataset: DatasetPage) -> str:
    """All methods of the leading experiment, as dots with whiskers."""
    return dot_chart(dataset.leading.methods)


def map_picture(one: Shown) -> dict[str, str]:
    """The heat map of an experiment that has one, by its file name."""
    name = f"{one.experiment.name.replace('/', '-')}.svg"
    found = next((filled for filled in one.filled if filled.table.kind == "map"), None)
    if found is None:
        return {}
    return {name: heat_map(found.test if one.experiment.test else found.validation)}


def index_page(collected: Collected) -> str:
    lines = ["# Results", "", "Made by `fewtask report` from the experiments declared in `experiments/`.", ""]
    header = ["data set, experiment", "all methods, test %", "Meta-Interpolation", "best of the others",
              "difference, paired", "updates of λ", "seeds", "features"]  # fmt: skip
    body = [_standing(dataset) for dataset in collected.datasets]
    lines += [*grid(header, _starred(body)), ""]
    short = in_short(collected)
    lines += ["## In short", "", *(f"- {text}" for text in short), ""] if short else []
    findings = read_findings(collected)
    if findings:
        lines += ["## Findings", "", *(f"{place}. {text}" for place, text in enumerate(findings, 1)), ""]
    lines += [*_claim_counts(collected), ""]
    lines += ["## How to read this", "", _escaped_stars(LEGEND)]
    lines[-1] += " A data set has one primary experiment; where it has none yet, the row says what it shows instead."
    lines[-1] += f" The page of a data set has all of its experiments, and [{RUNS}]({RUNS}) every run with its cost."
    lines += ["", *(f"- {name}: {_plain(text)}" for name, text in facts(collected))]
    return "\n".join(lines) + "\n"


def _standing(dataset: DatasetPage) -> list[str]:
    """The row of a data set: its leading experiment."""
    one = dataset.leading
    name = f"[{_plain(dataset.title)}]({dataset.name}.md)<br>`{one.experiment.folder.name}`"
    if one.experiment.role != "primary":
        name += f"<br>{one.experiment.role}"
    standing = one.standing
    if standing is None:
        return [name, "", "—", "—", "—", "—", "—", _plain(dataset.features)]
    best, own = standing.best, standing.ours
    return [
        name, f"![{_plain(dataset.title)}]({dataset.name}.svg)", mean_text(own.accuracy),
        f"{_plain(best.cell.row)}<br>{mean_text(best.accuracy)}", mean_text(standing.lead, sign=True),
        updates_text(own), str(own.seeds), _plain(dataset.features),
    ]  # fmt: skip


def claim_sentence(collected: Collected) -> str:
    """How many of the paper's claims held, each once a data set."""
    counts = counted(collected.claims)
    total = len(collected.claims)
    return (
        f"Of {total} comparisons in the paper's tables, each once a data set, {counts['held']} held here and "
        f"{counts['did not hold']} did not, clearly for all {total} together (Holm's correction); "
        f"{counts['same direction']} go the paper's way and {counts['opposite direction']} the other, within what "
        "chance allows."
    )


def _claim_counts(collected: Collected) -> list[str]:
    return ["## The paper's claims", "", claim_sentence(collected)] if collected.claims else []


def dataset_page(dataset: DatasetPage) -> str:
    lines = [f"# {_plain(dataset.title)}", "", f"[All data sets]({INDEX})", ""]
    if dataset.features:
        lines += [f"Features: {_plain(dataset.features)}", ""]
    if dataset_picture(dataset):
        lines += [f"![all methods, test accuracy in percent]({dataset.name}.svg)", ""]
    for one in dataset.shown:
        lines += _experiment(one)
    if dataset.notes:
        lines += ["## Notes", "", _lowered(dataset.notes), ""]
    lines += ["## How to read the tables", "", _escaped_stars(LEGEND)]
    lines[-1] += (
        " Differences are on the same episodes, seed by seed. The training loss is that of the last steps, the "
    )
    lines[-1] += "validation loss that of the selected weights; losses, updates and seconds are of one run, on average."
    return "\n".join(lines) + "\n"


def _experiment(one: Shown) -> list[str]:
    experiment = one.experiment
    lines = [f"## {_plain(experiment.title)}", "", _prose(experiment.asks), ""]
    lines += [f"- experiment `{experiment.name}`, {experiment.role}"]
    lines += [f"- looked at before: {_prose(experiment.looked_at)}"]
    base, changes = preset_lines(experiment)
    preset = base or preset_label(experiment.preset)
    if not changes:
        lines += [f"- settings of the preset `{preset}`"]
    else:
        lines += [
            f"- settings: those of the preset `{preset}` but",
            # Four spaces: with fewer mkdocs takes them for entries of the list around them.
            *(f"    - {who}: {_plain(text)}" for who, text in changes),
        ]
    lines += [f"- rows of the data: {', '.join(one.fingerprints)}" if one.fingerprints else "", ""]
    if experiment.note:
        lines += [_prose(experiment.note), ""]
    for filled in one.filled:
        lines += _table(filled, experiment)
    lines += [*(f"- {_plain(text)}" for text in one.choices), ""] if one.choices else []
    lines += [f"![paired differences]({name})\n" for name in map_picture(one)]
    return [*lines, *_claims(one.claims)]


def _table(one: Filled, experiment: Experiment) -> list[str]:
    table = one.table
    lines = [f"### {table.name}: {_plain(table.title)}", ""] if table.name not in ("rows", "map") else []
    if table.note:
        lines += [_plain(table.note), ""]
    for column in table.columns:
        if column != experiment.name:
            lines += [f"#### {_plain(column)}", ""]
        header, body = table_texts(one, column, experiment.test)
        rows = [[f"**{row[0]}**" if row[0] == _plain(table.reference) else row[0], *row[1:]] for row in body]
        lines += [*grid(header, _starred(rows)), ""]
    for column, absent in one.missing.items():
        where = "" if column == experiment.name else f" ({_plain(column)})"
        lines += [f"Not run yet{where}: {', '.join(map(_plain, absent))}.", ""]
    return lines


def table_texts(one: Filled, column: str, test: bool) -> tuple[list[str], list[list[str]]]:
    """The heading and the rows of a table's column; without meta-test, what was validated."""
    reference = one.table.reference
    gains = test and any(one.gain(result) for result in one.test.results)
    paper = any(result.cell.paper for result in one.test.results)
    header = ["", *(["test % (seeds)"] if test else []), *(["paper"] if paper else [])]
    header += [f"{_plain(reference)} − row"] if test else []
    header += ["row − ProtoNet"] if gains else []
    header += ["validation %" if test else "validation % (seeds)", f"{_plain(reference)} − row, validation"]
    sure = any(result.calibration for result in one.test.results)
    header += [CALIBRATION] if sure else []
    header += ["training loss", "validation loss", "updates of λ", "seconds a run"]
    body = []
    for result, validation in zip(one.test.results, one.validation.results):
        if result.cell.column == column:
            own = result.cell.row == reference
            row = [_plain(result.cell.row), *([own_text(result)] if test else [])]
            row += [paper_text(result)] if paper else []
            row += ["" if own else mean_text(result.behind, sign=True)] if test else []
            row += [mean_text(one.gain(result), sign=True)] if gains else []
            row += [mean_text(validation.accuracy) if test else own_text(validation)]
            row += ["" if own else mean_text(validation.behind, sign=True)]
            row += [calibration_text(result.calibration)] if sure else []
            row += ["—" if v is None else f"{v:.3f}" for v in (result.training_loss, result.validation_loss)]
            body.append([*row, updates_text(result), "—" if result.seconds is None else f"{result.seconds:,.0f}"])
    return header, body


def _claims(claims: list[Claim]) -> list[str]:
    if not claims:
        return []
    counts = counted(claims)
    text = "; ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
    body = [[claim.table, _plain(claim.text), claim.paper, claim.here, claim.verdict] for claim in claims]
    header = ["where", "claim of the paper", "paper", "here", "verdict"]
    opening = f'<details markdown="1"><summary>Claims of the paper: {text}</summary>'
    return [opening, "", *grid(header, _starred(body)), "", "</details>", ""]


def _lowered(text: str) -> str:
    """Headings of a block made smaller, to stand under the page's own."""
    return "\n".join("#" + line if line.startswith("#") else line for line in text.splitlines())


def _starred(body: list[list[str]]) -> list[list[str]]:
    """A lone star after an interval is no emphasis."""
    return [[_escaped_stars(cell) if "±" in cell else cell for cell in row] for row in body]


def _escaped_stars(text: str) -> str:
    return text.replace("*", "\\*")


def _plain(text: str) -> str:
    """Text that Markdown leaves alone, and that is no HTML whatever a record's names say."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("|", "\\|").replace("_", "\\_").replace("`", "\\`").replace("[", "\\[")


def _prose(text: str) -> str:
    """What people wrote about an experiment: plain but for `code`."""
    *pairs, last = re.split(r"(`[^`<>&]+`)", text)
    return "".join([*(one if one.startswith("`") else _plain(one) for one in pairs), _plain(last)])
