"""The candidates in a table: for people, and as leaderboard.csv in the folder of the search."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from rich.table import Table

from fewtask.auto.halving import Outcome
from fewtask.auto.scores import Standing, difference, ranked

COLUMNS = (
    "candidate", "accuracy", "standard_error", "difference", "difference_standard_error", "steps", "reached",
    "milliseconds_a_step", "cost", "remark",
)  # fmt: skip


def lines(outcome: Outcome, winner: Standing) -> list[dict[str, str | float | int]]:
    """A line a candidate, the best first; `difference` is that to the winner, task by task."""
    found: list[dict[str, str | float | int]] = []
    for one in ranked(outcome.standings):
        apart, error = difference(one, winner)
        found.append(
            {
                "candidate": one.candidate.name,
                "accuracy": round(one.accuracy, 5),
                "standard_error": round(one.standard_error, 5),
                "difference": round(apart, 5),
                "difference_standard_error": round(error, 5),
                "steps": 0 if one.candidate.floor else one.steps,
                "reached": 0 if one.candidate.floor else one.reached,
                "milliseconds_a_step": 0.0 if one.candidate.floor else round(1000 * one.seconds, 2),
                "cost": round(one.cost, 1),
                "remark": "chosen" if one is winner else "",
            }
        )
    found += [{"candidate": name, "remark": f"cannot be: {why}"} for name, why in outcome.failed.items()]
    found += [{"candidate": name, "remark": "no time left for it"} for name in outcome.unreached]
    return found


def as_csv(found: Sequence[dict[str, str | float | int]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return text.getvalue()


def as_table(found: Sequence[dict[str, str | float | int]], title: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for heading in ("held-out accuracy %", "to the chosen", "steps", "ms a step", "cost in ProtoNet steps"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("")
    for line in found:
        numbers = ["—"] * 5
        if "accuracy" in line:
            numbers = [
                _points(line["accuracy"], line["standard_error"], ""),
                _points(line["difference"], line["difference_standard_error"], "+"),
                str(line["steps"]),
                f"{line['milliseconds_a_step']}",
                f"{line['cost']}",
            ]
        chosen = line["remark"] == "chosen"
        table.add_row(str(line["candidate"]), *numbers, str(line["remark"]), style="bold" if chosen else None)
    return table


def _points(value: str | float | int, error: str | float | int, sign: str) -> str:
    return f"{100 * float(value):{sign}.1f} ± {100 * float(error):.1f}"
