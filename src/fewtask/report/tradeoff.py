"""What a choice brings on meta-validation, and what it costs: the studies `small-phi` and `second-order`.

A study is an experiment of that name on several data sets with the same rows. Rows that end in ", 4 tasks" make a panel
of their own. In each panel every row is compared with the same reference on the same episodes, and the cost of its
steps, measured in turns (`fewtask bench --rows`), with the reference's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fewtask.experiments.pictures import Dot, cost_chart
from fewtask.experiments.render import grid, mean_text
from fewtask.experiments.statistics import Mean, is_clear, paired_difference
from fewtask.files import read_json
from fewtask.report.collect import Collected, Shown, dataset_title

SMALL_PHI, SECOND_ORDER = "small-phi", "second-order"
CHEAP = 1.5
"""The goal of a merge that is learned: so many steps of a ProtoNet a step."""
NOT_RUN = "not run"
Records = Mapping[int, dict[str, Any]]
TAIL = re.compile(r"^(?P<row>.*?)(?:, (?P<tasks>\d+ tasks))?$")


@dataclass(frozen=True)
class Panel:
    """One data set, or one number of its tasks. leads: accuracy minus the reference's. costs: its step as 1, of the
    rows that were measured."""

    title: str
    reference: str
    leads: dict[str, Mean]
    costs: dict[str, float]


def split(row: str) -> tuple[str, str]:
    """A row's name without the number of tasks, and that number as text."""
    found = TAIL.match(row)
    assert found is not None
    return found["row"], found["tasks"] or ""


def panels(collected: Collected, name: str) -> list[Panel]:
    """Every panel that has a run besides its reference's."""
    shown = [one for one in collected.shown if one.experiment.folder.name == name]
    return [panel for one in shown for panel in _panels(one, dataset_title(collected.root / one.experiment.dataset))]


def _panels(one: Shown, title: str) -> list[Panel]:
    table = one.experiment.tables[0]
    reference, _ = split(table.reference)
    measured = read_json(one.experiment.costs)["rows"] if one.experiment.costs.exists() else {}
    # The number of tasks changes nothing in what a step costs.
    costs = {split(row)[0]: float(own["cost"]) for row, own in measured.items()}
    cells: dict[str, dict[str, Records]] = {}
    for cell in table.cells:
        row, tasks = split(cell.row)
        cells.setdefault(tasks, {})[row] = one.gathered.of(cell)
    found = []
    for tasks, rows in cells.items():
        base = rows.get(reference, {})
        pairs = {row: paired_difference(own, base, "validation") for row, own in rows.items() if row != reference}
        leads = {row: mean for row, mean in pairs.items() if mean is not None}
        if leads:
            known = {row: costs[row] for row in leads if row in costs}
            found.append(Panel(f"{title}, {tasks}" if tasks else title, reference, leads, known))
    return found


def rows_of(found: Sequence[Panel]) -> list[str]:
    """Rows in the order in which panels have them."""
    return list(dict.fromkeys(row for panel in found for row in panel.leads))


def tradeoff_table(collected: Collected, name: str) -> str:
    """Markdown: a row a choice, with its number in the picture; a column a panel. Nothing run says so."""
    found = panels(collected, name)
    if not found:
        return f"{NOT_RUN[0].upper()}{NOT_RUN[1:]} yet."
    body = [
        [str(number), row, *(_cell(panel, row) for panel in found)]
        for number, row in enumerate(rows_of(found), start=1)
    ]
    words = (
        f"Points of accuracy on meta-validation more than {found[0].reference} has, ± half of the 95 % interval over "
        "seeds (one seed, over episodes: \\*), on the same episodes; in brackets the processor time of a step, the "
        f"updates of λ shared out among the steps, with {found[0].reference}'s as 1. Bold: the "
        "interval does not contain zero."
    )
    return "\n".join([*grid(["", "", *(panel.title for panel in found)], body), "", words, *_goal(found, name)])


def _cell(panel: Panel, row: str) -> str:
    if row not in panel.leads:
        return NOT_RUN
    text = mean_text(panel.leads[row], sign=True).replace("*", "\\*")
    text = f"__{text}__" if is_clear(panel.leads[row]) else text
    return f"{text} ({panel.costs[row]:.2f})" if row in panel.costs else text


def _goal(found: Sequence[Panel], name: str) -> list[str]:
    """Of `small-phi`: which choices are cheap in every panel and clearly behind in none."""
    if name != SMALL_PHI:
        return []
    met = [row for row in rows_of(found) if all(row in p.leads and _is_met(p, row) for p in found)]
    where = f"in {len(found)} panel{'s' if len(found) > 1 else ''} that {'have' if len(found) > 1 else 'has'} run"
    return ["", f"At most {CHEAP:g} ProtoNet steps a step at no loss beyond the interval, {where}: "
            + (f"{', '.join(met)}." if met else "none.")]  # fmt: skip


def _is_met(panel: Panel, row: str) -> bool:
    lead = panel.leads[row]
    return panel.costs.get(row, float("inf")) <= CHEAP and not (is_clear(lead) and lead.value < 0)


def tradeoff_picture(collected: Collected, name: str) -> str:
    """SVG: a panel each, what a row brings against what it costs; empty where nothing has run."""
    found = panels(collected, name)
    numbers = {row: number for number, row in enumerate(rows_of(found), start=1)}
    return cost_chart(
        [
            (panel.title, [Dot(str(numbers[row]), row, cost, panel.leads[row]) for row, cost in panel.costs.items()])
            for panel in found
            if panel.costs
        ],
        f"a step, {found[0].reference} as 1" if found else "",
    )
