"""The page of results for the documentation: numbers from the ledger, words from a file of notes.

The notes are Markdown. A block under the heading `## NAME` of a table or figure goes to that part of the page;
everything else goes under "What differs from the paper, and why".
"""

from __future__ import annotations

from pathlib import Path

from fewtask.errors import RunError
from fewtask.experiments.render import LEGEND, duration, grid, mean_text, own_text, paper_text
from fewtask.experiments.tables import experiment_names
from fewtask.report.claims import VERDICTS, Claim, counted
from fewtask.report.collect import Collected, Filled, extended_presets, facts, run_lines, standings

GENERAL = ""


def read_notes(path: Path | None) -> dict[str, str]:
    """Blocks of text by the name of a table or figure; the rest under the empty name."""
    if path is None:
        return {}
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"cannot read the notes in {path}: {error}") from error
    blocks: dict[str, list[str]] = {}
    current = GENERAL
    for line in text.splitlines():
        heading = line.removeprefix("## ").strip() if line.startswith("## ") else None
        if heading in experiment_names():
            current = heading or GENERAL
            continue
        if heading is not None:
            current = GENERAL
        blocks.setdefault(current, []).append(line)
    return {name: block for name, lines in blocks.items() if (block := "\n".join(lines).strip())}


def results(collected: Collected, notes: dict[str, str]) -> str:
    lines = [
        "# Results",
        "",
        "Made from the ledger by `fewtask report --markdown`; the numbers are not written by hand.",
    ]
    lines += ["", *_standings(collected)]
    lines += ["## What was run", "", *(f"- {name}: {_plain(text)}" for name, text in facts(collected)), ""]
    lines += ["## What differs from the paper, and why", "", *_setups(collected)]
    if GENERAL in notes:
        lines += [_lowered(notes[GENERAL]), ""]
    lines += _claims(collected)
    legend = LEGEND.replace("*", "\\*")
    lines += ["## Tables", "", f"{legend} Differences are on the same episodes, row by row of the same seed.", ""]
    for one in collected.filled:
        if one.experiment.kind in ("table", "set-size"):
            lines += _table(one)
        else:
            lines += [f"### {one.experiment.name}: {one.experiment.title}", ""]
            if one.experiment.kind == "loss":
                lines += _losses(one)
            else:
                lines += ["The task maps are in the web page that `fewtask report` makes.", ""]
        if one.experiment.name in notes:
            lines += [_lowered(notes[one.experiment.name], 2), ""]
    return "\n".join([*lines, *_costs(collected)]).rstrip() + "\n"


def _standings(collected: Collected) -> list[str]:
    body = [
        [_plain(s.column), mean_text(s.reference.accuracy), s.best.cell.row, mean_text(s.best.accuracy),
         mean_text(s.lead, sign=True)]
        for s in standings(collected)
    ]  # fmt: skip
    if not body:
        return []
    header = ["data set", "Meta-Interpolation", "best of the others", "its accuracy", "difference, paired"]
    return ["## In short", "", *grid(header, _starred(body)), ""]


def _setups(collected: Collected) -> list[str]:
    """What presets change of the paper's, and runs of their presets; the latter the same for a whole column."""
    own = []
    for name, base, changes in extended_presets(collected):
        own += [f"Preset `{name}` is the paper's `{base}` with", ""]
        own += [*(f"- {who}: {_plain(text)}" for who, text in changes), ""]
    lines = {
        f"- {one.experiment.name}, {_plain(column)}: {', '.join(f'`{key} = {value}`' for key, value in setup)}"
        for one in collected.filled
        for column, setup in one.present.setups.items()
        if setup
    }
    if not lines:
        return [*own, "All runs have the settings of their presets.", ""]
    return [
        *own,
        "These runs have other settings than the presets, the same for every row of a column:",
        "",
        *sorted(lines),
        "",
    ]


def _claims(collected: Collected) -> list[str]:
    if not collected.claims:
        return []
    counts = counted(collected.claims)
    lines = ["## Claims of the paper that held here, and that did not", ""]
    lines += [f"- {counts[verdict]} {verdict}: {meaning}" for verdict, meaning in VERDICTS.items()]
    lines += ["", "Losses are compared without an interval, so only their direction counts.", ""]
    failed = [claim for claim in collected.claims if claim.verdict in ("did not hold", "opposite direction")]
    held = [claim for claim in collected.claims if claim not in failed]
    for title, claims in (("Did not hold, or went the other way", failed), ("Held, or went the same way", held)):
        if claims:
            header = ["where", "data set", "claim", "paper", "here", "verdict"]
            lines += [f"### {title}", "", *grid(header, _starred([_claim_texts(claim) for claim in claims])), ""]
    return lines


def _claim_texts(claim: Claim) -> list[str]:
    return [claim.table, _plain(claim.column), claim.text, claim.paper, claim.here, claim.verdict]


def _table(one: Filled) -> list[str]:
    experiment = one.experiment
    lines = [f"### {experiment.name}: {experiment.title}", ""]
    if experiment.note:
        lines += [experiment.note, ""]
    reference = experiment.reference
    gains = any(one.gain(result) for result in one.test.results)
    for column in one.test.columns:
        header = [
            "", "test % (seeds)", "paper", f"{reference} − row", *(["row − ProtoNet"] if gains else []),
            "validation %", f"{reference} − row, validation", "seconds a run",
        ]  # fmt: skip
        body = []
        for result, validation in zip(one.test.results, one.validation.results):
            if result.cell.column != column:
                continue
            own = result.cell.row == reference
            body.append(
                [
                    f"**{result.cell.row}**" if own else result.cell.row,
                    own_text(result),
                    paper_text(result),
                    "" if own else mean_text(result.behind, sign=True),
                    *([mean_text(one.gain(result), sign=True)] if gains else []),
                    mean_text(validation.accuracy),
                    "" if own else mean_text(validation.behind, sign=True),
                    "—" if result.seconds is None else f"{result.seconds:,.0f}",
                ]
            )
        lines += [f"#### {_plain(column)}", "", *grid(header, _starred(body)), ""]
        if one.present.missing[column]:
            lines += [f"Not run yet: {', '.join(one.present.missing[column])}.", ""]
    return lines


def _losses(one: Filled) -> list[str]:
    header = ["data set", "method", "training loss", "validation loss"]
    body = [
        [
            _plain(r.cell.column),
            r.cell.row,
            *("—" if v is None else f"{v:.3f}" for v in (r.training_loss, r.validation_loss)),
        ]
        for r in one.test.results
    ]
    text = "The training loss is that of the last steps, the validation loss that of the selected weights; means over "
    return [text + "seeds. The curves are in the web page that `fewtask report` makes.", "", *grid(header, body), ""]


def _costs(collected: Collected) -> list[str]:
    body = [
        [run.preset, run.method, str(run.seed), f"{run.steps:,}", f"{run.seconds:,.0f}", _plain(run.setup)]
        for run in run_lines(collected)
    ]
    total = sum(run.seconds for run in run_lines(collected))
    header = ["preset", "method", "seed", "steps", "seconds", "settings that differ from the preset"]
    return ["## Cost of each run", "", f"{duration(total)} of computing in all.", "", *grid(header, body), ""]


def _lowered(text: str, by: int = 1) -> str:
    """Headings of a block made smaller, to stand under the page's own."""
    return "\n".join("#" * by + line if line.startswith("#") else line for line in text.splitlines())


def _starred(body: list[list[str]]) -> list[list[str]]:
    """A lone star after an interval is no emphasis."""
    return [[cell.replace("*", "\\*") if "±" in cell else cell for cell in row] for row in body]


def _plain(text: str) -> str:
    """Text that Markdown leaves alone in a table."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("_", "\\_")
