"""Findings: sentences written by hand, whose numbers come from the records.

`findings.md` in the folder of experiments is a list of at most seven. In it
`{{tox21/decay: ProtoNet}}` is the accuracy of that row of that experiment, and
`{{tox21/decay: Meta-Interpolation - ProtoNet}}` the difference on the same episodes. `validation` after the
experiment's name means meta-validation.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from fewtask.errors import RunError, unknown
from fewtask.experiments.render import mean_text
from fewtask.experiments.statistics import over_seeds, paired_difference
from fewtask.report.collect import Collected, Shown

MOST = 7
NUMBER = re.compile(r"\{\{([^{}:]+):([^{}]+)\}\}")


def read_findings(collected: Collected) -> list[str]:
    """The findings with their numbers; none where nobody has written any."""
    path = collected.root / "findings.md"
    if not path.is_file():
        return []
    items = re.split(r"^- ", path.read_text(encoding="utf-8"), flags=re.M)[1:]
    if len(items) > MOST:
        raise RunError(f"{path} has {len(items)} findings: {MOST} are what a reader remembers")
    return [fill(" ".join(item.split()), collected, path) for item in items]


def fill(text: str, collected: Collected, path: Path) -> str:
    """Text with its numbers in place."""
    shown = {one.experiment.name: one for one in collected.shown}

    def number(match: re.Match[str]) -> str:
        name, _, split = match[1].strip().partition(" ")
        if name not in shown:
            raise unknown(f"experiment in {path.name}", name, shown, RunError)
        return number_text(shown[name], match[2], split or "test", path)

    return NUMBER.sub(number, text)


def number_text(one: Shown, rows: str, split: str, path: Path) -> str:
    names = [name.strip() for name in rows.split(" - ")]
    records = [_records(one, name, path) for name in names]
    mean = over_seeds(records[0], split) if len(records) == 1 else paired_difference(records[0], records[1], split)
    if mean is None:
        raise RunError(f"{path.name} asks for '{rows.strip()}' of {one.experiment.name}, which has no such number yet")
    return mean_text(mean, sign=len(records) > 1)


def _records(one: Shown, row: str, path: Path) -> dict[int, dict[str, Any]]:
    cells = [cell for table in one.experiment.tables for cell in table.cells]
    for cell in cells:
        if cell.row == row:
            return one.gathered.of(cell)
    raise unknown(f"row of {one.experiment.name} in {path.name}", row, {cell.row for cell in cells}, RunError)
