"""A table filled from the ledger: each cell's mean over seeds, and the reference minus it on the same episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fewtask.experiments.grid import Cell, Gathered
from fewtask.experiments.statistics import Mean, over_seeds, over_tasks, paired_difference
from fewtask.experiments.tables import Table


@dataclass(frozen=True)
class CellResult:
    """What the ledger knows of a cell. `behind`: the reference row's accuracy minus this one's."""

    cell: Cell
    seeds: int
    accuracy: Mean | None
    behind: Mean | None
    tasks: dict[str, Mean]
    training_loss: float | None
    validation_loss: float | None
    validation_accuracy: float | None
    seconds: float | None
    updates: tuple[int, int] | None
    """Least and greatest number of updates of λ; None where nothing is updated."""
    calibration: tuple[float, float] | None
    """Expected calibration error before and after calibration; None where nothing was calibrated."""


@dataclass(frozen=True)
class Summary:
    """A filled table; `split` is where accuracies were measured."""

    table: Table
    split: str
    results: tuple[CellResult, ...]
    seeds: int

    def at(self, row: str, column: str) -> CellResult | None:
        return next((r for r in self.results if r.cell.row == row and r.cell.column == column), None)

    @property
    def rows(self) -> list[str]:
        return self.table.rows

    @property
    def columns(self) -> list[str]:
        return self.table.columns


def summarise(table: Table, gathered: Gathered, test: bool = True) -> Summary:
    """From records alone."""
    split = "test" if test else "validation"
    records = {(cell.row, cell.column): gathered.of(cell) for cell in table.cells}
    results = []
    for cell in table.cells:
        own = records[cell.row, cell.column]
        reference = records.get((table.reference, cell.column), {})
        behind = None if cell.row == table.reference else paired_difference(reference, own, split)
        runs = list(own.values())
        results.append(
            CellResult(
                cell,
                sum(split in record for record in runs),
                over_seeds(own, split),
                behind,
                over_tasks(own, split),
                _mean([_last_loss(record) for record in runs]),
                _mean([record["validation"]["loss"] for record in runs]),
                _mean([record["validation"]["accuracy"] for record in runs]),
                _mean([record["seconds"] for record in runs]),
                _span([record.get("hyper_updates", 0) for record in runs]),
                calibration(runs, split),
            )
        )
    return Summary(table, split, tuple(results), gathered.seeds)


def calibration(records: Sequence[dict[str, Any]], split: str = "test") -> tuple[float, float] | None:
    """Expected calibration error before and after, the mean over seeds."""
    scores = [record[split] for record in records if "calibrated_error" in record.get(split, {})]
    before, after = (_mean([score[key] for score in scores]) for key in ("calibration_error", "calibrated_error"))
    return None if before is None or after is None else (before, after)


def _last_loss(record: dict[str, Any]) -> float | None:
    """Mean training loss since the last but one point of the history: steadier than the last line alone."""
    return record["history"][-1]["loss"] if record["history"] else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _span(values: Sequence[int]) -> tuple[int, int] | None:
    return (min(values), max(values)) if any(values) else None
