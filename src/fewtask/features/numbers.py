"""Numbers and categories: standardised and one-hot coded by the rows of the training tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from fewtask.bounds import listed
from fewtask.datasets.base import Progress, quiet
from fewtask.errors import DataError
from fewtask.features.base import Featuriser, Transformed, good_rows
from fewtask.features.table import MISSING, BadRow, Table

MOSTLY = 0.9
"""A column is one of numbers if so many of its filled cells are: what is left are then mistakes, not categories."""
MOST_CATEGORIES = 200
LARGEST = 1e30
FURTHEST = 1e6
"""Standard deviations beyond which a value counts as so far away, so that no number of float32 overflows."""

Type = Literal["number", "category"]


@dataclass(frozen=True)
class NumberColumn:
    """A column and what its training rows said: mean and deviation, or the categories in order."""

    name: str
    type: Type
    mean: float = 0.0
    deviation: float = 1.0
    categories: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        return 1 if self.type == "number" else len(self.categories)


class Numbers(Featuriser):
    """Columns of numbers and categories as one vector.

    missing: rows with a blank or NaN among their numbers are left out ("skip"), or take the mean there ("mean").
    A category that training did not see is a vector of zeros.
    """

    kind = "numbers"

    def __init__(self, columns: Sequence[str], missing: Literal["skip", "mean"] = "skip") -> None:
        if missing not in ("skip", "mean"):
            raise DataError(f"missing numbers can be dealt with by 'skip' or 'mean', not '{missing}'")
        self.columns = tuple(columns)
        self.missing: Literal["skip", "mean"] = missing
        self.learned: tuple[NumberColumn, ...] = ()

    def fit(self, table: Table, rows: np.ndarray) -> None:
        self.learned = tuple(_learn(table, name, rows) for name in self.columns)

    def transform(self, table: Table, progress: Progress = quiet) -> Transformed:
        assert self.learned, "fit comes first"
        bad: list[BadRow] = []
        features = np.zeros((len(table), sum(column.width for column in self.learned)), dtype=np.float32)
        start = 0
        for column in progress(self.learned, "reading columns", len(self.learned)):
            part = features[:, start : start + column.width]
            if column.type == "number":
                bad += self._number(table, column, part)
            else:
                codes = {category: number for number, category in enumerate(column.categories)}
                found = np.array([codes.get(text, -1) for text in table.texts(column.name)], dtype=np.int64)
                known = np.flatnonzero(found >= 0)
                part[known, found[known]] = 1.0
            start += column.width
        good = good_rows(table, bad)
        return features[good], good, sorted(bad, key=lambda row: row.row)

    def _number(self, table: Table, column: NumberColumn, out: np.ndarray) -> list[BadRow]:
        """Fills out [R, 1] and lists the rows that cannot be filled."""
        values, wrong = table.numbers(column.name)
        unknown = np.isnan(values)
        large = ~unknown & (np.abs(values) > LARGEST)
        usable = ~unknown & ~large
        standard = (values[usable] - column.mean) / column.deviation
        out[usable, 0] = np.clip(standard, -FURTHEST, FURTHEST)
        refused = wrong | large if self.missing == "mean" else unknown | large
        cells = table.column(column.name)
        return [
            table.bad(row, column.name, _reason(cells[row], wrong[row])) for row in np.flatnonzero(refused).tolist()
        ]

    def settings(self) -> dict[str, Any]:
        columns = [asdict(column) | {"categories": list(column.categories)} for column in self.learned]
        return {"kind": self.kind, "missing": self.missing, "columns": columns}

    @classmethod
    def from_settings(cls, values: Mapping[str, Any]) -> Numbers:
        learned = [NumberColumn(**column) for column in values["columns"]]
        made = cls([column.name for column in learned], values["missing"])
        made.learned = tuple(replace(column, categories=tuple(column.categories)) for column in learned)
        return made

    def describe(self) -> str:
        types = {column.name: column.type for column in self.learned}
        return f"columns {listed(f'{n} ({types[n]})' if n in types else n for n in self.columns)}"


def _learn(table: Table, name: str, rows: np.ndarray) -> NumberColumn:
    values, wrong = (found[rows] for found in table.numbers(name))
    filled = ~np.isnan(values) | wrong
    if (~wrong & filled).sum() >= MOSTLY * filled.sum():
        finite = values[np.abs(values) <= LARGEST]
        mean = float(finite.mean()) if len(finite) else 0.0
        deviation = float(finite.std()) if len(finite) else 0.0
        # A constant column tells nothing: it becomes zeros, and not a division by zero.
        return NumberColumn(name, "number", mean, deviation if deviation > 1e-12 * max(1.0, abs(mean)) else 1.0)
    texts = table.texts(name)
    categories = sorted({texts[row] for row in rows.tolist()})
    if len(categories) > MOST_CATEGORIES:
        raise DataError(
            f"column '{name}' has {len(categories)} different texts in the training tasks, too many for categories "
            f"(at most {MOST_CATEGORIES}): leave it out of --feature-columns, or name it as text, SMILES or a path"
        )
    return NumberColumn(name, "category", categories=tuple(categories))


def _reason(cell: Any, wrong: bool) -> str:
    if wrong:
        comma = " (a decimal comma?)" if re.fullmatch(r"[+-]?\d*,\d+", str(cell).strip()) else ""
        return f"'{cell}' is no number{comma}"
    if str(cell).strip().lower() in MISSING:
        return "there is no number"
    return f"{cell} is not a finite number"
