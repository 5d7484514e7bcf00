"""Which tables and figures of the paper the ledger has runs of, and under which settings.

Runs may differ from a preset by any setting (fewer steps, matched pairs, another encoder). Each such setup becomes
a column of its own beside the preset's, so that only runs with the same settings are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fewtask.errors import FewtaskError
from fewtask.methods import get_method
from fewtask.presets import load_preset, preset_names
from fewtask.reproduce.grid import Cell, Changes, cell_settings
from fewtask.reproduce.ledger import Ledger, run_digest
from fewtask.reproduce.tables import COMPARED, IMAGE, NON_IMAGE, Experiment, experiment_names, get_experiment, narrow
from fewtask.settings import RunSettings, from_dict, identity

Setup = tuple[tuple[str, Any], ...]
"""Settings that differ from a preset: (("train.steps", 300), ...)."""

EXTRA_ROWS: dict[str, tuple[str, Any]] = {
    "{}, validation tasks in training": ("data.train_on_validation", True),
    "{}, validation in halves": ("data.halve_validation", True),
}
"""Rows beside the paper's that show what the meta-validation labels are worth."""
SETUP_KEYS = ("interpolation.pairs",)
"""What a cell may fix and is no subject of an ablation all the same."""


class ReadLedger(Ledger):
    """A ledger that is read once: a page looks up every run many times."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.records = self.all()
        self._known = {self._digest_of(path): self._read(path) for path in self._paths()}

    def find(self, settings: RunSettings) -> dict[str, Any] | None:
        return self._known.get(run_digest(settings))

    @property
    def seeds(self) -> int:
        """Seeds 0 to so many are worth looking for."""
        return 1 + max((int(record["seed"]) for record in self.records), default=0)


@dataclass(frozen=True)
class Present:
    """A table or figure as far as there are runs: its cells' settings are complete, each setup a column."""

    experiment: Experiment
    setups: dict[str, Setup]
    missing: dict[str, list[str]]
    """Rows without a run by column."""


def present_experiments(ledger: ReadLedger) -> list[Present]:
    """In the paper's order; those without a run are left out."""
    setups = known_setups(ledger.records)
    found = (_present(get_experiment(name), ledger, setups) for name in experiment_names())
    return [one for one in found if one is not None]


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"train": {"steps": 1}} -> {"train.steps": 1}."""
    pairs: dict[str, Any] = {}
    for key, value in values.items():
        pairs |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
    return pairs


def nested(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """[("train.steps", 1)] -> {"train": {"steps": 1}}."""
    values: dict[str, Any] = {}
    for key, value in pairs:
        *groups, name = key.split(".")
        place = values
        for group in groups:
            place = place.setdefault(group, {})
        place[name] = value
    return values


def differing(record: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a run that are not its preset's; those of an unknown preset or setting differ in nothing."""
    try:
        groups = get_method(record["method"]).groups
        own = flat(identity(from_dict(record["settings"]), groups))
        base = flat(identity(load_preset(record["preset"], record["method"]), groups))
    except FewtaskError:
        return {}
    return {key: value for key, value in own.items() if key != "seed" and base.get(key) != value}


def setup_text(setup: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(f"{key}={value}" for key, value in setup)


def known_setups(records: Iterable[Mapping[str, Any]]) -> dict[str, list[Setup]]:
    """The setups of each preset's runs; what an ablation of the paper varies is a row there, not a setup."""
    varied: dict[str, set[str]] = {}
    setups: dict[str, set[Setup]] = {}
    for record in records:
        preset = record["preset"]
        if preset not in varied:
            varied[preset] = _varied(preset)
        own = ((key, value) for key, value in differing(record).items() if key not in varied[preset])
        setups.setdefault(preset, {()}).add(tuple(sorted(own)))
    return {preset: sorted(own, key=lambda s: (len(s), repr(s))) for preset, own in setups.items()}


def _varied(preset: str) -> set[str]:
    keys = {key for key, _ in EXTRA_ROWS.values()}
    for name in experiment_names():
        experiment = get_experiment(name)
        elsewhere = preset not in (*NON_IMAGE, *IMAGE)
        for cell in experiment.cells:
            if elsewhere or cell.preset == preset:
                keys |= set(flat(cell.changes))
    return keys - set(SETUP_KEYS)


def _present(experiment: Experiment, ledger: ReadLedger, setups: Mapping[str, list[Setup]]) -> Present | None:
    own = {cell.preset for cell in experiment.cells}
    # Presets outside the paper stand beside the first table only, not beside its image data sets again.
    foreign = [p for p in setups if p in preset_names() and p not in (*NON_IMAGE, *IMAGE)]
    wanted = [p for p in setups if p in own] + (foreign if experiment.name != "table2" else [])
    cells = narrow(experiment, wanted).cells if wanted else ()
    kept: list[Cell] = []
    labels: dict[str, Setup] = {}
    missing: dict[str, list[str]] = {}
    for column in dict.fromkeys(cell.column for cell in cells):
        members = [cell for cell in cells if cell.column == column]
        for setup, found in _filled(experiment, members, ledger, setups.get(members[0].preset, [])):
            label = f"{column}, {setup_text(setup)}" if setup else column
            labels[label] = setup
            kept += [replace(cell, column=label) for cell in found]
            rows = {cell.row for cell in found}
            missing[label] = [cell.row for cell in members if cell.row not in rows]
    return Present(replace(experiment, cells=tuple(kept)), labels, missing) if kept else None


def _filled(
    experiment: Experiment, members: list[Cell], ledger: ReadLedger, setups: Iterable[Setup]
) -> list[tuple[Setup, list[Cell]]]:
    """The setups under which a column has runs, with its cells that have; none that is part of another."""
    if experiment.name in ("table1", "table2"):
        members = members + [
            replace(cell, row=title.format(cell.row), changes={**cell.changes, **nested([change])}, paper=None)
            for cell in members
            for title, change in EXTRA_ROWS.items()
        ]
    candidates = []
    for setup in setups:
        runs: dict[tuple[str, int], bool] = {}
        cells = []
        for cell in members:
            cell = replace(cell, changes=nested([*flat(cell.changes).items(), *setup]))
            records = {seed: ledger.find(cell_settings(cell, seed)) for seed in range(ledger.seeds)}
            done = {(run_digest(cell_settings(cell, s)), s): "test" in r for s, r in records.items() if r is not None}
            if done:
                cells.append(cell)
                runs |= done
        if _worth_showing(experiment, cells, setup):
            candidates.append((setup, cells, runs))
    if any(any(runs.values()) for _, _, runs in candidates):
        # Runs that never met the test tasks were made to choose settings.
        candidates = [one for one in candidates if any(one[2].values())]
    return [
        (setup, cells)
        for index, (setup, cells, runs) in enumerate(candidates)
        if not any(
            set(runs) < set(other) or (set(runs) == set(other) and place < index)
            for place, (_, _, other) in enumerate(candidates)
        )
    ]


def _worth_showing(experiment: Experiment, cells: list[Cell], setup: Setup) -> bool:
    """An ablation needs a run of its own, not only those that it shares with the comparison of methods."""
    if experiment.name in ("table1", "table2") or experiment.kind in ("loss", "tasks"):
        return bool(cells)
    if experiment.kind == "set-size" and len(cells) < 2:
        return False
    return any(_is_own(cell, nested(setup)) for cell in cells)


def _is_own(cell: Cell, setup: Changes) -> bool:
    if cell.method not in ("centroid", *COMPARED):
        return True
    plain = replace(cell, changes=setup)
    return run_digest(cell_settings(cell, 0)) != run_digest(cell_settings(plain, 0))
