"""What a step of each row of an experiment costs, beside its reference's: in turns, in one process, with one thread.

Seconds in records are wall time, of whatever machine and beside whatever else they were made. Where the cost of a
choice is the question, it is measured by itself: the mean of steps without an update of λ, and what an update adds,
divided among the steps between two.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fewtask.bench.measure import processor_seconds
from fewtask.bench.report import Table, machine
from fewtask.datasets.cache import load_dataset
from fewtask.experiments.declared import Experiment
from fewtask.experiments.grid import cell_settings
from fewtask.methods import make_method
from fewtask.settings import RunSettings, update
from fewtask.training.loop import new_state, training_step
from fewtask.training.state import TrainingState

NEVER = 1_000_000_000
STEPS = 4
"""Steps of a row at a time: where half of them do not interpolate, both kinds must be among them."""


def row_costs(
    experiment: Experiment, seconds: float, tell: Callable[[str], None] = lambda text: None, least: int = 3
) -> dict[str, Any]:
    """{"machine": ..., "rows": {row: {"step": s, "update": s, "period": n, "cost": reference's as 1}}}."""
    table = experiment.tables[0]
    settings = {cell.row: cell_settings(cell, 0, [experiment.changes]) for cell in table.cells}
    states = {row: _state(own, NEVER) for row, own in settings.items()}
    tell(f"{experiment.name}: steps of {len(states)} rows in turns")
    steps = mean_seconds({row: _several(state) for row, state in states.items()}, seconds, least)
    rows: dict[str, dict[str, float]] = {}
    for row, own in settings.items():
        step = steps[row] / STEPS
        rows[row] = {"step": step, "update": 0.0, "period": float(own.hyper_period)}
        if states[row].method.bilevel and own.hyper_period <= own.train.steps:
            tell(f"{experiment.name}: an update of {row}")
            state = _state(own, 1)
            found = mean_seconds({row: partial(training_step, state)}, 0.0, least)
            rows[row]["update"] = max(0.0, found[row] - step)
    base = _whole(rows[table.reference])
    return {"machine": machine(), "rows": {row: own | {"cost": _whole(own) / base} for row, own in rows.items()}}


def mean_seconds(works: Mapping[str, Callable[[], object]], seconds: float, least: int) -> dict[str, float]:
    """Mean processor seconds of each, in turns for so long and at least `least` rounds, after a warm-up."""
    for work in works.values():
        work()
    spent = dict.fromkeys(works, 0.0)
    rounds, end = 0, time.perf_counter() + seconds
    while rounds < least or time.perf_counter() < end:
        for name, work in works.items():
            spent[name] += processor_seconds(work)
        rounds += 1
    return {name: whole / rounds for name, whole in spent.items()}


def rows_table(name: str, costs: Mapping[str, Any]) -> Table:
    lines = [
        [row, f"{1e3 * own['step']:.1f}", f"{1e3 * own['update']:.0f}", f"{own['period']:.0f}", f"{own['cost']:.2f}"]
        for row, own in costs["rows"].items()
    ]
    return f"{name}: what a step costs", ["row", "step, ms", "update of λ, ms", "every", "reference as 1"], lines


def _state(settings: RunSettings, period: int) -> TrainingState:
    pools = load_dataset(settings.dataset, settings.data).pools(settings.data, settings.episode.way)
    settings = update(settings, {"hyper": {"period": period}})
    return new_state(make_method(settings, pools.input_shape).train(), pools.train, pools.outer)


def _several(state: TrainingState) -> Callable[[], None]:
    def work() -> None:
        for _ in range(STEPS):
            training_step(state)

    return work


def _whole(row: Mapping[str, float]) -> float:
    """Seconds of a step with its share of an update."""
    return row["step"] + row["update"] / row["period"]
