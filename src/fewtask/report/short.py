"""The results in a sentence each: where Meta-Interpolation leads, where not, and at what cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fewtask.experiments.statistics import Mean, is_clear, paired_difference
from fewtask.experiments.summary import CellResult
from fewtask.experiments.tables import METHOD_TITLES, OURS
from fewtask.report.collect import PROTONET, Collected, DatasetPage, Shown

BEST, PAPER = "best", "paper"
MEAN = METHOD_TITLES["mean-interpolation"]
TITLE = METHOD_TITLES[OURS]


def in_short(collected: Collected) -> list[str]:
    """Sentences about the experiments that gave every method its best; none where there is no such experiment."""
    best = {page.title: page.leading for page in collected.datasets if page.leading.experiment.folder.name == BEST}
    if not best:
        return []
    leads = {title: None if one.standing is None else one.standing.lead for title, one in best.items()}
    ours, means = ({title: _difference(one, row, PROTONET) for title, one in best.items()} for row in (TITLE, MEAN))
    papers = {
        page.title: _difference(one, TITLE, PROTONET)
        for page in collected.datasets
        for one in page.shown
        if one.experiment.folder.name == PAPER
    }
    sentences = [
        (f"With every method at its best, against the best of the others {TITLE} is", _sorted(leads)),
        (f"Against ProtoNet alone {TITLE} is", _sorted(ours)),
        (f"{MEAN}, which learns nothing about merging, is against ProtoNet", _sorted(means)),
        (f"With the paper's own settings for all, {TITLE} is against ProtoNet", _sorted(papers)),
        *(("With fewer tasks and rows", _map_text(page.title, one)) for page, one in _maps(collected)),
        ("With the time of a ProtoNet run as 1 a run takes", _costs(list(best.values()))),
    ]
    return [f"{start} {text}." for start, text in sentences if text]


def _result(one: Shown, row: str) -> CellResult | None:
    return next((result for result in one.methods if result.cell.row == row), None)


def _difference(one: Shown, row: str, other: str) -> Mean | None:
    first, second = _result(one, row), _result(one, other)
    if first is None or second is None:
        return None
    return paired_difference(one.gathered.of(first.cell), one.gathered.of(second.cell))


def _sorted(found: dict[str, Mean | None]) -> str:
    """Data sets by what their intervals say."""
    known = {title: mean for title, mean in found.items() if mean is not None}
    groups = {
        "clearly ahead on": [title for title, mean in known.items() if is_clear(mean) and mean.value > 0],
        "clearly behind on": [title for title, mean in known.items() if is_clear(mean) and mean.value < 0],
        "within chance on": [title for title, mean in known.items() if not is_clear(mean)],
    }
    texts = [f"{words} {_listed([_with(t, known[t]) for t in titles])}" for words, titles in groups.items() if titles]
    return ", ".join(texts)


def _with(title: str, mean: Mean) -> str:
    return f"{title} ({100 * mean.value:+z.2f} ± {100 * mean.interval:.2f})"


def _listed(texts: Sequence[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def _maps(collected: Collected) -> Iterator[tuple[DatasetPage, Shown]]:
    """Experiments with a map against ProtoNet."""
    for page in collected.datasets:
        for one in page.shown:
            if any(filled.table.kind == "map" and filled.table.reference == PROTONET for filled in one.filled):
                yield page, one


def _map_text(title: str, one: Shown) -> str:
    """In how many cells of a map interpolation is clearly ahead of ProtoNet or behind it."""
    filled = next(filled for filled in one.filled if filled.table.kind == "map")
    cells = len({r.cell.column for r in filled.test.results if r.cell.row in (TITLE, MEAN) and r.behind is not None})
    if cells < 2:
        return ""
    texts = []
    for row in (TITLE, MEAN):
        behind = [r.behind for r in filled.test.results if r.cell.row == row and r.behind is not None]
        worse, better = (sum(is_clear(mean) and sign * mean.value > 0 for mean in behind) for sign in (1, -1))
        texts.append(f"{row} is clearly ahead of ProtoNet in {better} and clearly behind in {worse}")
    return f"on {title}, {cells} cells of its map: {', '.join(texts)}"


def _costs(shown: Sequence[Shown]) -> str:
    spans = {row: _span(shown, row) for row in (MEAN, METHOD_TITLES["protonet-st"], TITLE)}
    return ", ".join(f"{span} ({row})" for row, span in spans.items() if span)


def _span(shown: Iterable[Shown], row: str) -> str:
    """Least and greatest of how much longer a run takes than ProtoNet's."""
    pairs = [(_result(one, row), _result(one, PROTONET)) for one in shown]
    ratios = [own.seconds / plain.seconds for own, plain in pairs if own and plain and own.seconds and plain.seconds]
    if not ratios:
        return ""
    low, high = f"{min(ratios):.1f}", f"{max(ratios):.1f}"
    return low if low == high else f"{low} to {high}"
