"""Which of the paper's comparisons held here.

A claim is a difference of two accuracies that the paper prints: the reference row of a table against each other
row. It is held against the paired difference on the same episodes here. What the paper says of losses is checked
on the means over seeds. Where many claims are counted together, Holm's correction is for their number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fewtask.experiments.statistics import Mean, is_clear
from fewtask.experiments.summary import CellResult, Summary
from fewtask.experiments.tables import METHOD_TITLES, OURS, get_table
from fewtask.presets import base_preset
from fewtask.statistics import LEVEL

Verdict = Literal["held", "same direction", "opposite direction", "did not hold"]
VERDICTS: dict[Verdict, str] = {
    "held": "same sign as in the paper, and the interval excludes zero",
    "same direction": "same sign as in the paper, but the interval includes zero, or there is only one seed",
    "opposite direction": "other sign than in the paper, but the interval includes zero, or there is only one seed",
    "did not hold": "other sign than in the paper, and the interval excludes zero",
}
BOTH = "query + support"
COMPARISONS = ("table1", "table2")


@dataclass(frozen=True)
class Claim:
    """`paper` and `here`: the difference in points of accuracy, or the two losses, as text."""

    table: str
    column: str
    text: str
    paper: str
    here: str
    verdict: Verdict
    chance: float | None = None
    """Of a difference of accuracies: how likely one at least as large is where there is none; None of a single seed."""


def verdict_of(paper: float, here: Mean) -> Verdict:
    clear = is_clear(here)
    if (here.value > 0) == (paper > 0) and here.value != 0:
        return "held" if clear else "same direction"
    return "did not hold" if clear else "opposite direction"


def chance_of(difference: Mean) -> float | None:
    """Student's t of a mean over seeds against zero, both sides."""
    from scipy import stats

    if difference.basis != "seeds":
        return None
    if difference.interval == 0:
        return float(difference.value == 0)
    freedom = difference.seeds - 1
    error = difference.interval / float(stats.t.ppf(0.5 + LEVEL / 2, freedom))
    return float(2 * stats.t.sf(abs(difference.value) / error, freedom))


def corrected(claims: Sequence[Claim]) -> list[Claim]:
    """The claims of accuracy with verdicts that are clear for all of them together (Holm, 1979).

    In the order of their chances, the k-th of n must lie below 5 % divided by n - k + 1; after the first that does
    not, none is clear. Claims of a single seed cannot be tested and are among those that are not clear.
    """
    tested = sorted((claim for claim in claims if claim.chance is not None), key=lambda claim: claim.chance or 0.0)
    clear: set[int] = set()
    for place, claim in enumerate(tested):
        if (claim.chance or 0.0) > (1 - LEVEL) / (len(tested) - place):
            break
        clear.add(id(claim))
    unclear: dict[Verdict, Verdict] = {"held": "same direction", "did not hold": "opposite direction"}
    return [
        claim if id(claim) in clear else replace(claim, verdict=unclear.get(claim.verdict, claim.verdict))
        for claim in claims
    ]


def accuracy_claims(summary: Summary) -> list[Claim]:
    """The reference against every other row, wherever the paper has both numbers and they can be paired here."""
    table = summary.table
    claims = []
    for result in summary.results:
        reference = summary.at(table.reference, result.cell.column)
        if reference is None or result.behind is None or not result.cell.paper or not reference.cell.paper:
            continue
        paper = reference.cell.paper[0] - result.cell.paper[0]
        if paper == 0:
            continue
        first, second = (table.reference, result.cell.row) if paper > 0 else (result.cell.row, table.reference)
        sign = 1 if paper > 0 else -1
        star = "*" if result.behind.basis == "episodes" else ""
        here = f"{100 * sign * result.behind.value:+z.2f} ± {100 * result.behind.interval:.2f}{star}"
        claims.append(
            Claim(
                table.name, result.cell.column, f"{first} is better than {second}", f"{abs(paper):+.2f}", here,
                verdict_of(paper, result.behind), chance_of(result.behind),
            )
        )  # fmt: skip
    return claims


def loss_claims(summary: Summary) -> list[Claim]:
    """Section 3 on strategies of interpolation, and Section 5 on the losses of the methods."""
    claims = []
    name, ours = summary.table.name, METHOD_TITLES[OURS]
    measured = {cell.preset for cell in get_table("figure-loss").cells}
    for column in summary.columns:
        rows = [result for result in summary.results if result.cell.column == column]
        if name == "table5":
            both = summary.at(BOTH, column)
            for row in ("support", "query"):
                text = f"interpolating {row} alone has a higher training loss than both"
                claims += _higher_loss(name, column, text, summary.at(row, column), both)
        elif name in COMPARISONS and (base_preset(rows[0].cell.preset) or rows[0].cell.preset) in measured:
            own = summary.at(ours, column)
            for other in (result for result in rows if result.cell.paper and result.cell.row != ours):
                text = f"{ours} has a higher training loss than {other.cell.row}"
                claims += _higher_loss("figure-loss", column, text, own, other)
                text = f"{ours} has a lower validation loss than {other.cell.row}"
                claims += _higher_loss("figure-loss", column, text, other, own, "validation_loss")
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
