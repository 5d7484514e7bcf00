"""Which of the paper's comparisons held here.

A claim is a difference of two accuracies that the paper prints: the reference row of a table against each other
row. It is held against the paired difference on the same episodes here. What the paper says of losses is checked
on the means over seeds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from fewtask.experiments.statistics import Mean
from fewtask.experiments.summary import CellResult, Summary
from fewtask.experiments.tables import METHOD_TITLES, OURS

Verdict = Literal["held", "same direction", "opposite direction", "did not hold"]
VERDICTS: dict[Verdict, str] = {
    "held": "same sign as in the paper, and the interval excludes zero",
    "same direction": "same sign as in the paper, but the interval includes zero, or there is only one seed",
    "opposite direction": "other sign than in the paper, but the interval includes zero, or there is only one seed",
    "did not hold": "other sign than in the paper, and the interval excludes zero",
}
BOTH = "query + support"


@dataclass(frozen=True)
class Claim:
    """`paper` and `here`: the difference in points of accuracy, or the two losses, as text."""

    table: str
    column: str
    text: str
    paper: str
    here: str
    verdict: Verdict


def is_clear(difference: Mean) -> bool:
    """Zero lies outside the interval; one over the episodes of a single run says nothing about another seed."""
    return difference.basis == "seeds" and abs(difference.value) > difference.interval


def verdict_of(paper: float, here: Mean) -> Verdict:
    clear = is_clear(here)
    if (here.value > 0) == (paper > 0) and here.value != 0:
        return "held" if clear else "same direction"
    return "did not hold" if clear else "opposite direction"


def accuracy_claims(summary: Summary) -> list[Claim]:
    """The reference against every other row, wherever the paper has both numbers and they can be paired here."""
    experiment = summary.experiment
    claims = []
    for result in summary.results:
        reference = summary.at(experiment.reference, result.cell.column)
        if reference is None or result.behind is None or not result.cell.paper or not reference.cell.paper:
            continue
        paper = reference.cell.paper[0] - result.cell.paper[0]
        if paper == 0:
            continue
        first, second = (
            (experiment.reference, result.cell.row) if paper > 0 else (result.cell.row, experiment.reference)
        )
        sign = 1 if paper > 0 else -1
        star = "*" if result.behind.basis == "episodes" else ""
        here = f"{100 * sign * result.behind.value:+z.2f} ± {100 * result.behind.interval:.2f}{star}"
        claims.append(
            Claim(
                experiment.name, result.cell.column, f"{first} is better than {second}", f"{abs(paper):+.2f}", here,
                verdict_of(paper, result.behind),
            )
        )  # fmt: skip
    return claims


def loss_claims(summary: Summary) -> list[Claim]:
    """Section 3 on strategies of interpolation, and Section 5 on the losses of the methods."""
    claims = []
    name, ours = summary.experiment.name, METHOD_TITLES[OURS]
    for column in summary.columns:
        rows = [result for result in summary.results if result.cell.column == column]
        if name == "table5":
            both = summary.at(BOTH, column)
            for row in ("support", "query"):
                text = f"interpolating {row} alone has a higher training loss than both"
                claims += _higher_loss(name, column, text, summary.at(row, column), both)
        elif name == "figure-loss":
            own = summary.at(ours, column)
            for other in (result for result in rows if result.cell.row != ours):
                text = f"{ours} has a higher training loss than {other.cell.row}"
                claims += _higher_loss(name, column, text, own, other)
                text = f"{ours} has a lower validation loss than {other.cell.row}"
                claims += _higher_loss(name, column, text, other, own, "validation_loss")
    return claims


def _higher_loss(
    table: str,
    column: str,
    text: str,
    high: CellResult | None,
    low: CellResult | None,
    which: Literal["training_loss", "validation_loss"] = "training_loss",
) -> list[Claim]:
    if high is None or low is None:
        return []
    more, less = getattr(high, which), getattr(low, which)
    if more is None or less is None:
        return []
    own, other = (less, more) if which == "validation_loss" else (more, less)
    # Losses are means without an interval: no more than a direction can be told.
    verdict: Verdict = "same direction" if more > less else "opposite direction"
    paper = "lower" if which == "validation_loss" else "higher"
    return [Claim(table, column, text, paper, f"{own:.3f} against {other:.3f}", verdict)]


def counted(claims: Iterable[Claim]) -> dict[Verdict, int]:
    counts: dict[Verdict, int] = dict.fromkeys(VERDICTS, 0)
    for claim in claims:
        counts[claim.verdict] += 1
    return counts
