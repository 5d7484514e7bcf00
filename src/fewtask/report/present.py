"""Which tables and figures of the paper the ledger has runs of, and under which settings.

Runs may differ from a preset by any setting (fewer steps, matched pairs, another encoder). Each such setup becomes
a column of its own beside the preset's, so that only runs with the same settings are compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fewtask.changes import flat, nested
from fewtask.errors import FewtaskError
from fewtask.experiments.grid import Cell, Changes, cell_settings
from fewtask.experiments.ledger import Ledger, run_digest
from fewtask.experiments.tables import COMPARED, PAPER, Experiment, experiment_names, get_experiment, narrow
from fewtask.methods import get_method
from fewtask.presets import base_preset, load_preset, preset_names
from fewtask.settings import RunSettings, from_dict, identity

Setup = tuple[tuple[str, Any], ...]
"""Settings that differ from a preset: (("train.steps", 300), ...)."""

EXTRA_ROWS: dict[str, tuple[str, Any]] = {
    "{}, validation tasks in training": ("data.train_on_validation", True),
    "{}, validation in halves": ("data.halve_validation", True),
    "{}, classes paired at random": ("interpolation.label_sharing", False),
}
"""Rows beside the paper's, where a preset has runs of them that are not those of another row."""
LONGEST_LABEL = 45
COMPARISONS = ("table1", "table2")
SETUP_KEYS = ("interpolation.pairs",)
"""What a cell may fix and is no subject of an ablation all the same."""


class ReadLedger(Ledger):
    """A ledger that is read once: a page looks up every run many times."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.records = self.all()
        self.by_digest = {self._digest_of(path): self._read(path) for path in self._paths()}

    def find(self, settings: RunSettings) -> dict[str, Any] | None:
        return self.by_digest.get(run_digest(settings))

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
    names: dict[Setup, str] = {}
    found = (_present(get_experiment(name), ledger, setups, names) for name in experiment_names())
    return [one for one in found if one is not None]


def _setup_name(setup: Setup, names: dict[Setup, str]) -> str:
    """A setup in words, or a short name for one of many settings."""
    if not is_long(setup):
        return setup_text(setup)
    return names.setdefault(setup, f"setup {len(names) + 1}")


def is_long(setup: Setup) -> bool:
    return len(setup_text(setup)) > LONGEST_LABEL


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
        base = base_preset(preset) if preset in preset_names() else None
        elsewhere = (base or preset) not in PAPER
        for cell in experiment.cells:
            if elsewhere or cell.preset in (preset, base):
                keys |= set(flat(cell.changes))
    return keys - set(SETUP_KEYS)


def _present(
    experiment: Experiment, ledger: ReadLedger, setups: Mapping[str, list[Setup]], names: dict[Setup, str]
) -> Present | None:
    own = {cell.preset for cell in experiment.cells}
    known = preset_names()
    wanted = [p for p in setups if p in own]
    wanted += [p for p in setups if p in known and p not in own and base_preset(p) in own]
    if experiment.name != "table2":
        # Presets outside the paper stand beside the first table only, not beside its image data sets again.
        wanted += [p for p in setups if p in known and (base_preset(p) or p) not in PAPER]
    cells = narrow(experiment, wanted).cells if wanted else ()
    candidates = {
        column: _filled([cell for cell in cells if cell.column == column], experiment, ledger, setups)
        for column in dict.fromkeys(cell.column for cell in cells)
    }
    worthy = {
        (one.preset, one.setup) for found in candidates.values() for one in found if _worth_showing(experiment, one)
    }
    kept: list[Cell] = []
    labels: dict[str, Setup] = {}
    missing: dict[str, list[str]] = {}
    for column, found in candidates.items():
        for one in _distinct([one for one in found if (one.preset, one.setup) in worthy]):
            label = f"{column}, {_setup_name(one.setup, names)}" if one.setup else column
            labels[label] = one.setup
            kept += [replace(cell, column=label) for cell in one.cells]
            missing[label] = [c.row for c in cells if c.column == column and c.row not in one.rows]
    return Present(replace(experiment, cells=tuple(kept)), labels, missing) if kept else None


@dataclass(frozen=True)
class _Candidate:
    """A column under a setup: its cells that have runs, and for each run whether it met the test tasks."""

    preset: str
    setup: Setup
    cells: list[Cell]
    runs: dict[str, bool]

    @property
    def rows(self) -> set[str]:
        return {cell.row for cell in self.cells}


def _filled(
    members: list[Cell], experiment: Experiment, ledger: ReadLedger, setups: Mapping[str, list[Setup]]
) -> list[_Candidate]:
    """The setups under which a column has runs."""
    if experiment.name in COMPARISONS:
        members = members + [row for cell in members for row in _extra_rows(cell)]
    preset = members[0].preset
    candidates = []
    for setup in setups.get(preset, []):
        runs: dict[str, bool] = {}
        cells = []
        for cell in members:
            cell = replace(cell, changes=nested([*flat(cell.changes).items(), *setup]))
            base = cell_settings(cell, 0)
            digests = [run_digest(replace(base, seed=seed)) for seed in range(ledger.seeds)]
            done = {digest: "test" in record for digest in digests if (record := ledger.by_digest.get(digest))}
            if done:
                cells.append(cell)
                runs |= done
        if cells:
            candidates.append(_Candidate(preset, setup, cells, runs))
    return candidates


def _extra_rows(cell: Cell) -> list[Cell]:
    """The cell with each setting that makes a row of its own; a setting that changes nothing makes none."""
    usual = run_digest(cell_settings(cell, 0))
    rows = [
        replace(cell, row=title.format(cell.row), changes={**cell.changes, **nested([change])}, paper=None)
        for title, change in EXTRA_ROWS.items()
    ]
    return [row for row in rows if run_digest(cell_settings(row, 0)) != usual]


def _distinct(candidates: list[_Candidate]) -> list[_Candidate]:
    """Without setups that are part of another, or that were only tried to choose settings."""
    if any(any(one.runs.values()) for one in candidates):
        candidates = [one for one in candidates if any(one.runs.values())]
    return [
        one
        for place, one in enumerate(candidates)
        if not any(
            _covers(other, one, index < place) or _stray(one, other)
            for index, other in enumerate(candidates)
            if index != place
        )
    ]


def _covers(other: _Candidate, one: _Candidate, earlier: bool) -> bool:
    """A setup with all runs of this one and others besides; of two with the same runs the first stays."""
    return set(one.runs) < set(other.runs) or (set(one.runs) == set(other.runs) and earlier)


def _stray(one: _Candidate, other: _Candidate) -> bool:
    """A run of the figure of set sizes, which fixes the pairs, beside a fuller column with other pairs."""
    mine, others = ([item for item in c.setup if item[0] not in SETUP_KEYS] for c in (one, other))
    return mine == others and one.rows < other.rows


def _worth_showing(experiment: Experiment, one: _Candidate) -> bool:
    """An ablation needs a run of its own, not only those that it shares with the comparison of methods."""
    if experiment.name in COMPARISONS or experiment.kind in ("loss", "tasks"):
        return True
    if experiment.kind == "set-size" and len(one.cells) < 2:
        return False
    return any(_is_own(cell, nested(one.setup)) for cell in one.cells)


def _is_own(cell: Cell, setup: Changes) -> bool:
    if cell.method not in ("centroid", *COMPARED):
        return True
    plain = replace(cell, changes=setup)
    return run_digest(cell_settings(cell, 0)) != run_digest(cell_settings(plain, 0))
