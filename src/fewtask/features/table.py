"""Tables in memory: named columns of equal length that know where each row came from.

A cell is text (from CSV and TSV), a number (from Parquet and arrays) or, in a column that is an array of more than
one dimension, an array. What a cell means is decided by who reads it: `texts` and `numbers` take either kind.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fewtask.bounds import listed
from fewtask.errors import DataError

Column = Sequence[Any] | np.ndarray


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be used: its position in the table, its line in the source, the column, and why."""

    row: int
    line: int
    column: str
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}, column '{self.column}': {self.reason}"


@dataclass(frozen=True, eq=False)
class Table:
    """Columns [R] in the order of the source.

    lines:  [R] line of each row in the source; without a source the rows count from 1.
    folder: what paths in cells are relative to.
    source: the file's name, for messages.
    """

    columns: Mapping[str, Column]
    lines: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    folder: Path = Path()
    source: str = "the table"
    # Looking at a column, fitting to it and transforming it each need its numbers: texts are parsed once.
    _numbers: dict[str, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        sizes = {name: len(cells) for name, cells in self.columns.items()}
        if len(set(sizes.values())) > 1:
            listed = ", ".join(f"{name} {size}" for name, size in sizes.items())
            raise DataError(f"the columns of {self.source} differ in length ({listed}): give as many rows for each")
        if not len(self.lines) and len(self):
            object.__setattr__(self, "lines", np.arange(1, len(self) + 1))

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()))) if self.columns else 0

    @property
    def names(self) -> list[str]:
        return list(self.columns)

    def column(self, name: str) -> Column:
        if name not in self.columns:
            known = listed(self.names, most=20) or "none"
            raise DataError(f"{self.source} has no column '{name}': its columns are {known}")
        return self.columns[name]

    def take(self, rows: np.ndarray) -> Table:
        """The rows at some positions, with their line numbers."""
        picked: dict[str, Column] = {
            name: cells[rows] if isinstance(cells, np.ndarray) else [cells[int(row)] for row in rows]
            for name, cells in self.columns.items()
        }
        return Table(picked, self.lines[rows], self.folder, self.source)

    def bad(self, row: int, column: str, reason: str) -> BadRow:
        return BadRow(int(row), int(self.lines[row]), one_line(column), one_line(reason))

    def texts(self, name: str) -> list[str]:
        """The cells of a column as text without blanks around it; a missing one is ''."""
        return [as_text(cell) for cell in self.column(name)]

    def numbers(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """[R] float64, NaN where a cell is blank or no number; [R] whether a cell is neither blank nor a number."""
        cells = self.column(name)
        if name not in self._numbers:
            self._numbers[name] = _parsed(cells)
        return self._numbers[name]


MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
"""What people write where nothing is known; compared in lower case."""


def _parsed(cells: Column) -> tuple[np.ndarray, np.ndarray]:
    """What `numbers` says of a column."""
    values, wrong = np.full(len(cells), np.nan), np.zeros(len(cells), dtype=bool)
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "fiub":
        return cells.astype(np.float64), wrong
    try:
        # Most columns of numbers hold nothing else. Python reads 1_000 as a number, which a table hardly means.
        if not any("_" in cell for cell in cells):
            return np.array([float(cell) for cell in cells], dtype=np.float64), wrong
    except (ValueError, TypeError):
        pass
    for row, cell in enumerate(cells):
        text = as_text(cell)
        number = as_number(text)
        wrong[row] = number is None and text.lower() not in MISSING
        values[row] = np.nan if number is None else number
    return values, wrong


def one_line(text: str, longest: int = 160) -> str:
    """Text that a cell had a part in, fit to be printed: no line ends or control characters, and not without end."""
    plain = "".join(sign if sign.isprintable() else "?" for sign in text[: longest + 1])
    return plain if len(plain) <= longest else f"{plain[:longest]}…"


def as_text(cell: Any) -> str:
    """A cell as text: 1.0 and 1 are the same, None and NaN are ''."""
    if isinstance(cell, str):
        return cell.strip()
    if cell is None:
        return ""
    if isinstance(cell, (float, np.floating)):
        if math.isnan(cell):
            return ""
        return str(int(cell)) if math.isfinite(cell) and cell == int(cell) else str(float(cell))
    return str(cell)


def as_number(text: str) -> float | None:
    """The number that a text is, infinity included; None where it is none. '1_000', which Python takes, is none."""
    if "_" in text:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value


def join(tables: Sequence[Table]) -> Table:
    """Chunks of one source, one after the other."""
    first = tables[0]
    if len(tables) == 1:
        return first
    columns: dict[str, Column] = {}
    for name in first.names:
        parts = [table.columns[name] for table in tables]
        if all(isinstance(part, np.ndarray) for part in parts):
            columns[name] = np.concatenate(parts)
        else:
            columns[name] = [cell for part in parts for cell in part]
    return Table(columns, np.concatenate([table.lines for table in tables]), first.folder, first.source)
