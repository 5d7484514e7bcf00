"""Which runs an experiment needs, in what order, which are missing, and about how long they will take."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fewtask.experiments.ledger import Ledger, run_digest, run_stem
from fewtask.methods import AUTO, get_method, groups_of
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
    """A name, or a path."""
    method: str
    changes: Changes = field(default_factory=dict)
    paper: tuple[float, float] | None = None
    seeds: int | None = None
    """So many seeds instead of the table's."""
    settings_of: str | None = None
    """The method whose settings of the preset these are; unset: its own. So that rows differ in the method alone."""
    steps_of: Cell | None = None
    """Trained for as many steps as the run of this other cell with the same seed selected."""
    voters: str | None = None
    """Of `auto`: another way to vote than the one that its settings name."""


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
    return seed_settings(cell, [seed], changes)[seed]


def seed_settings(cell: Cell, seeds: Iterable[int], changes: Sequence[Changes] = ()) -> dict[int, RunSettings]:
    """The settings of a cell's runs by seed."""
    for method in (cell.method, cell.settings_of or cell.method):
        groups_of(method)
    settings = load_preset(cell.preset, cell.settings_of or cell.method)
    for change in ({"method": cell.method}, cell.changes, *changes):
        settings = update(settings, change)
    # With fewer tasks or rows each run sees another draw: what they are matters more than the network's start.
    drawn = settings.data.train_tasks is not None or settings.data.train_rows is not None
    return {seed: update(settings, {"seed": seed, "data": {"draw": seed} if drawn else {}}) for seed in seeds}


def plan(
    cells: Iterable[Cell],
    seeds: int,
    changes: Sequence[Changes] = (),
    task_maps: Iterable[Cell] = (),
    known: Gathered | None = None,
) -> list[PlannedRun]:
    """Every run once, seed by seed: stopped anywhere, the grid leaves a fair comparison.

    Cells that take their steps from others are planned where `known` has the runs of those.
    """
    known = known or Gathered(seeds, changes, {}, {})
    cells, mapped = list(cells), list(task_maps)
    wanted = [(cell, cell.seeds or seeds, False) for cell in cells]
    # Task maps are drawn from the first seed.
    wanted += [(cell, 1, True) for cell in mapped]
    found: dict[tuple[int, str], PlannedRun] = {}
    for cell, count, with_map in wanted:
        label = preset_label(cell.preset)
        for seed, settings in known.settings_of(cell, count).items():
            key = (seed, run_stem(label, settings))
            if key not in found or (with_map and seed == 0):
                found[key] = PlannedRun(label, settings, with_map)
    return [run for _, run in sorted(found.items(), key=lambda item: item[0][0])]


@dataclass(frozen=True)
class Gathered:
    """What a ledger holds of the runs of some cells: it is asked once, and everything is shown from this."""

    seeds: int
    changes: Sequence[Changes]
    records: dict[str, dict[str, Any]]
    """By the hash of their settings."""
    maps: dict[str, dict[str, Any]]

    def settings_of(self, cell: Cell, seeds: int | None = None) -> dict[int, RunSettings]:
        """The settings of a cell's runs by seed; where it takes its steps from another's runs, as far as those are."""
        settings = seed_settings(cell, range(seeds or cell.seeds or self.seeds), self.changes)
        if cell.steps_of is None:
            return settings
        # What is untrained selects step 0, and a run has one at least.
        steps = {seed: max(1, record["selected_step"]) for seed, record in self.of(cell.steps_of).items()}
        return {seed: update(settings[seed], {"train": {"steps": steps[seed]}}) for seed in settings if seed in steps}

    def of(self, cell: Cell) -> dict[int, dict[str, Any]]:
        """The records of a cell by seed."""
        found = {seed: self.records.get(run_digest(own)) for seed, own in self.settings_of(cell).items()}
        voting = {seed: _voting(record, cell.voters) for seed, record in found.items() if record is not None}
        return {seed: record for seed, record in voting.items() if record is not None}

    def map_of(self, cell: Cell) -> dict[str, Any] | None:
        return self.maps.get(run_digest(cell_settings(cell, 0, self.changes)))

    def lacks(self, run: PlannedRun, test: bool) -> bool:
        digest = run_digest(run.settings)
        record = self.records.get(digest)
        return record is None or (test and "test" not in record) or (run.task_map and digest not in self.maps)

    def add(self, runs: Iterable[PlannedRun], ledger: Ledger) -> None:
        """Takes in what the ledger holds of these runs."""
        runs = list(runs)
        self.records.update(ledger.gather(run.settings for run in runs))
        for run in runs:
            values = ledger.read_map(run.settings) if run.task_map else None
            if values is not None:
                self.maps[run_digest(run.settings)] = values


def gather(runs: Iterable[PlannedRun], ledger: Ledger, seeds: int, changes: Sequence[Changes] = ()) -> Gathered:
    gathered = Gathered(seeds, changes, {}, {})
    gathered.add(runs, ledger)
    return gathered


def gather_cells(cells: Sequence[Cell], ledger: Ledger, seeds: int, changes: Sequence[Changes] = ()) -> Gathered:
    """What a ledger holds of the cells of a table, with those task maps that there are."""
    gathered = gather(plan(cells, seeds, changes, cells), ledger, seeds, changes)
    gathered.add(plan_followers(cells, gathered), ledger)
    return gathered


def plan_followers(cells: Iterable[Cell], known: Gathered) -> list[PlannedRun]:
    """The runs of cells that take their steps from others, as far as those have run."""
    return plan([cell for cell in cells if cell.steps_of is not None], known.seeds, known.changes, known=known)


def _voting(record: dict[str, Any], voters: str | None) -> dict[str, Any] | None:
    """The record as it would be with another way to vote; None where there is none such, for nothing learned λ."""
    if voters is None or "voters" not in record:
        return record
    return record | {"test": record["voters"][voters]} if voters in record["voters"] else None


def complete(run: PlannedRun, ledger: Ledger, test: bool) -> bool:
    return not gather([run], ledger, 1).lacks(run, test)


@dataclass(frozen=True)
class Estimate:
    """About how long runs take, one after the other and by so many workers; `known`: how many records tell of."""

    runs: int
    known: int
    seconds: float
    wall_seconds: float


def estimate(runs: Sequence[PlannedRun], records: Iterable[Mapping[str, Any]], workers: int) -> Estimate:
    speeds: dict[tuple[str, str], list[float]] = {}
    for record in records:
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
    """Seconds a step, by rule of thumb; of `auto` its whole search, divided by the steps that its settings name."""
    pace = ROUGH_STEP.get(settings.encoder.name, 0.02)
    if settings.method == AUTO:
        pace *= counted_steps(settings)[1] / settings.train.steps
    else:
        pace *= get_method(settings.method).cost
    if settings.interpolation.pairs == "all" and "meta-interpolation" in settings.method:
        pace *= math.sqrt(settings.episode.shot)
    return pace * LARGE_IMAGES.get(settings.dataset, 1.0)


def counted_steps(settings: RunSettings) -> tuple[int, float]:
    """Steps that a run of `auto` tells of while it is under way, and its cost in steps of a ProtoNet; about."""
    from fewtask.auto.candidates import named_candidates
    from fewtask.auto.rungs import foreseen

    wanted = settings.auto.wanted
    return foreseen(settings.auto, named_candidates(same_classes=True, wanted=wanted))
