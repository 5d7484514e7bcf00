"""Which runs an experiment needs, in what order, which are missing, and about how long they will take."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fewtask.experiments.ledger import Ledger, run_stem
from fewtask.methods import get_method
from fewtask.presets import load_preset, preset_label
from fewtask.settings import RunSettings, update

Changes = Mapping[str, Any]

ROUGH_STEP = {"mlp": 0.01, "residual-mlp": 0.01, "text-head": 0.008, "conv4": 0.04, "electra": 2.0}
"""Seconds a step of ProtoNet on one core by encoder, where the ledger does not know better."""
LARGE_IMAGES = {"mini-imagenet-s": 15.0, "rainbow-digits": 0.5}


@dataclass(frozen=True)
class Cell:
    """One number of a table: a method with changed settings on a preset, and the paper's mean and interval."""

    row: str
    column: str
    preset: str
    method: str
    changes: Changes = field(default_factory=dict)
    paper: tuple[float, float] | None = None


@dataclass(frozen=True)
class PlannedRun:
    """A run as it stands in a grid. `task_map`: its task map is wanted too."""

    preset: str
    settings: RunSettings
    task_map: bool = False

    @property
    def stem(self) -> str:
        return run_stem(self.preset, self.settings)

    @property
    def folder(self) -> str:
        """Name of its folder while it is under way: the same whatever preset asks for it."""
        return run_stem(self.settings.dataset, self.settings)

    @property
    def label(self) -> str:
        return f"{self.preset} {self.settings.method} seed {self.settings.seed}"


def cell_settings(cell: Cell, seed: int, changes: Sequence[Changes] = ()) -> RunSettings:
    """The settings of a cell's run: the preset, the cell's own changes, then those asked for."""
    get_method(cell.method.partition(":")[0])
    settings = update(load_preset(cell.preset, cell.method), cell.changes)
    for change in changes:
        settings = update(settings, change)
    settings = update(settings, {"seed": seed})
    if settings.data.train_tasks is not None or settings.data.train_rows is not None:
        # Each run sees another draw of the tasks: what they are matters more than the network's start.
        settings = update(settings, {"data": {"draw": seed}})
    return settings


def plan(
    cells: Iterable[Cell], seeds: int, changes: Sequence[Changes] = (), task_maps: Iterable[Cell] = ()
) -> list[PlannedRun]:
    """Every run once, seed by seed: stopped anywhere, the grid leaves a fair comparison."""
    cells, mapped = list(cells), list(task_maps)
    # Task maps are drawn from the first seed.
    wanted = {run_stem(preset_label(cell.preset), cell_settings(cell, 0, changes)) for cell in mapped}
    runs: dict[str, PlannedRun] = {}
    for seed in range(seeds):
        for cell in [*cells, *mapped] if seed == 0 else cells:
            settings = cell_settings(cell, seed, changes)
            stem = run_stem(preset_label(cell.preset), settings)
            runs.setdefault(stem, PlannedRun(preset_label(cell.preset), settings, task_map=stem in wanted))
    return list(runs.values())


def missing(runs: Iterable[PlannedRun], ledger: Ledger, test: bool = True) -> list[PlannedRun]:
    """The runs that the ledger does not hold, in their order."""
    return [run for run in runs if not complete(run, ledger, test)]


def complete(run: PlannedRun, ledger: Ledger, test: bool) -> bool:
    record = ledger.find(run.settings)
    if record is None or (test and "test" not in record):
        return False
    return not run.task_map or ledger.read_map(run.settings) is not None


@dataclass(frozen=True)
class Estimate:
    """About how long runs take, one after the other and by so many workers; `known`: how many the ledger knows."""

    runs: int
    known: int
    seconds: float
    wall_seconds: float


def estimate(runs: Sequence[PlannedRun], ledger: Ledger, workers: int) -> Estimate:
    speeds: dict[tuple[str, str], list[float]] = {}
    for record in ledger.all():
        steps = record["settings"]["train"]["steps"]
        speeds.setdefault((record["preset"], record["method"]), []).append(record["seconds"] / steps)
    known = 0
    costs = []
    for run in runs:
        measured = speeds.get((run.preset, run.settings.method))
        known += measured is not None
        pace = statistics.median(measured) if measured else rough_pace(run.settings)
        costs.append(pace * run.settings.train.steps)
    total = sum(costs)
    # Workers take the next run as they come free: no faster than the longest run.
    wall = max(total / max(1, workers), max(costs, default=0.0))
    return Estimate(len(runs), known, total, wall)


def rough_pace(settings: RunSettings) -> float:
    """Seconds a step, by rule of thumb."""
    pace = ROUGH_STEP.get(settings.encoder.name, 0.02) * get_method(settings.method).cost
    if settings.interpolation.pairs == "all" and "meta-interpolation" in settings.method:
        pace *= math.sqrt(settings.episode.shot)
    return pace * LARGE_IMAGES.get(settings.dataset, 1.0)
