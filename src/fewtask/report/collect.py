"""Everything that the pages of results say: the declared experiments, filled from their records."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from fewtask.changes import flat
from fewtask.errors import RunError
from fewtask.experiments.declared import Experiment, all_experiments
from fewtask.experiments.grid import Gathered, gather_cells
from fewtask.experiments.ledger import Ledger
from fewtask.experiments.render import duration
from fewtask.experiments.statistics import Mean, paired_difference
from fewtask.experiments.summary import CellResult, Summary, summarise
from fewtask.experiments.tables import METHOD_TITLES, OURS, Table
from fewtask.presets import base_preset, preset_changes
from fewtask.report.claims import COMPARISONS, Claim, accuracy_claims, corrected, loss_claims

PROTONET = METHOD_TITLES["protonet"]


@dataclass(frozen=True)
class Filled:
    """A table as far as there are runs. `over_protonet`: `test` with ProtoNet as the reference, where it is a row."""

    test: Summary
    validation: Summary
    over_protonet: Summary | None
    missing: dict[str, list[str]]
    """Rows without a run by column."""

    @property
    def table(self) -> Table:
        return self.test.table

    def gain(self, result: CellResult) -> Mean | None:
        """This row's accuracy minus ProtoNet's on the same episodes."""
        over = self.over_protonet
        other = None if over is None else over.at(result.cell.row, result.cell.column)
        behind = None if other is None else other.behind
        return None if behind is None else replace(behind, value=-behind.value)


@dataclass(frozen=True)
class Standing:
    """How Meta-Interpolation fares against the best of the other methods."""

    ours: CellResult
    best: CellResult
    lead: Mean | None


@dataclass(frozen=True)
class Shown:
    """An experiment with its numbers."""

    experiment: Experiment
    gathered: Gathered
    filled: tuple[Filled, ...]

    @cached_property
    def claims(self) -> list[Claim]:
        return [claim for one in self.filled for claim in (*accuracy_claims(one.test), *loss_claims(one.test))]

    @property
    def methods(self) -> list[CellResult]:
        """The methods of its comparison with their accuracies on meta-test; other rows of that table are none."""
        found = (one for one in self.filled if one.table.name in COMPARISONS and self.experiment.test)
        results = [result for one in found for result in one.test.results]
        return [result for result in results if result.accuracy and result.cell.row in METHOD_TITLES.values()]

    @property
    def standing(self) -> Standing | None:
        """Meta-Interpolation against the best of the other methods."""
        ours = [result for result in self.methods if result.cell.method == OURS]
        others = [result for result in self.methods if result.cell.method != OURS]
        if not ours or not others:
            return None
        best = max(others, key=lambda result: result.accuracy.value if result.accuracy else 0.0)
        lead = paired_difference(self.gathered.of(ours[0].cell), self.gathered.of(best.cell))
        return Standing(ours[0], best, lead)

    @property
    def choices(self) -> list[str]:
        """What `auto` chose, and why, a sentence a seed."""
        records = sorted((r for r in self.gathered.records.values() if "auto" in r), key=lambda r: int(r["seed"]))
        return list(dict.fromkeys(_choice(record["seed"], record["auto"]) for record in records))

    @property
    def fingerprints(self) -> list[str]:
        found = {str(r["data_fingerprint"])[:12] for r in self.gathered.records.values() if r.get("data_fingerprint")}
        return sorted(found)


@dataclass(frozen=True)
class DatasetPage:
    """A data set: its title, what its rows are made of, words about it, and its experiments by role."""

    name: str
    title: str
    features: str
    notes: str
    shown: tuple[Shown, ...]

    @property
    def leading(self) -> Shown:
        """The primary experiment, or the first of the others."""
        return self.shown[0]


@dataclass(frozen=True)
class Collected:
    root: Path
    datasets: tuple[DatasetPage, ...]
    files: dict[Path, dict[str, Any]]
    """Every record, those that only chose settings included."""

    @property
    def shown(self) -> list[Shown]:
        return [one for dataset in self.datasets for one in dataset.shown]

    @cached_property
    def claims(self) -> list[Claim]:
        """Of the primary experiments, each claim once a data set, clear or not for all of them together."""
        primary = [one for one in self.shown if one.experiment.role == "primary"]
        return corrected([claim for one in primary for filled in one.filled for claim in accuracy_claims(filled.test)])


def collect(root: Path) -> Collected:
    """Asks the ledger once about each experiment."""
    ledger = Ledger(root, root)
    experiments = all_experiments(root)
    shown = [one for one in (_show(experiment, ledger) for experiment in experiments) if one is not None]
    if not shown:
        raise RunError(
            f"the experiments in {root} have no record of a run: make some with fewtask reproduce DATASET/NAME"
        )
    names = dict.fromkeys(one.experiment.dataset for one in shown)
    pages = [_page(root / name, tuple(s for s in shown if s.experiment.dataset == name)) for name in names]
    # Data sets that have only been explored come last.
    pages.sort(key=lambda page: page.leading.experiment.role != "primary")
    return Collected(root, tuple(pages), ledger.files())


def _choice(seed: int, about: dict[str, Any]) -> str:
    steps = next(line["steps"] for line in about["leaderboard"] if line["remark"] == "chosen")
    return f"Seed {seed}: {about['verdict']}{f'; trained on all tasks for {steps} steps' if steps else ''}."


def dataset_title(folder: Path) -> str:
    """As its page is called."""
    return str(_about(folder).get("title", folder.name))


def _about(folder: Path) -> dict[str, Any]:
    path = folder / "dataset.toml"
    try:
        return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise RunError(f"cannot read what is said about {folder.name}: {error}") from error


def _page(folder: Path, shown: tuple[Shown, ...]) -> DatasetPage:
    notes = folder / "notes.md"
    try:
        text = notes.read_text(encoding="utf-8").strip() if notes.is_file() else ""
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"cannot read what is said about {folder.name}: {error}") from error
    return DatasetPage(folder.name, dataset_title(folder), _about(folder).get("features", ""), text, shown)


def _show(experiment: Experiment, ledger: Ledger) -> Shown | None:
    cells = [cell for table in experiment.tables for cell in table.cells]
    gathered = gather_cells(cells, ledger, experiment.seeds)
    if not gathered.records:
        return None
    return Shown(experiment, gathered, tuple(_fill(table, gathered) for table in experiment.tables))


def _fill(table: Table, gathered: Gathered) -> Filled:
    present = [cell for cell in table.cells if gathered.of(cell)]
    missing = {
        column: [cell.row for cell in table.cells if cell.column == column and cell not in present]
        for column in table.columns
    }
    table = replace(table, cells=tuple(present))
    has_protonet = PROTONET in table.rows
    return Filled(
        summarise(table, gathered),
        summarise(table, gathered, test=False),
        summarise(replace(table, reference=PROTONET), gathered) if has_protonet else None,
        {column: rows for column, rows in missing.items() if rows},
    )


def facts(collected: Collected) -> list[tuple[str, str]]:
    """What was run, and on what."""
    records = [record for record in collected.files.values() if "test" in record]
    others = [record for record in collected.files.values() if "test" not in record]

    def listed(values: Callable[[dict[str, Any]], Any]) -> str:
        return ", ".join(sorted({str(value) for record in records if (value := values(record)) is not None}))

    def environment(key: str) -> Callable[[dict[str, Any]], Any]:
        return lambda record: record.get("environment", {}).get(key)

    def cost(runs: list[dict[str, Any]]) -> str:
        seconds = sum(record["seconds"] for record in runs)
        return (
            f"{len(runs)}, {duration(seconds)} of computing, {duration(seconds / max(1, len(runs)))} a run on average"
        )

    rows = [
        ("runs on meta-test", cost(records)),
        ("runs on meta-validation alone", cost(others) if others else ""),
        ("methods", listed(lambda r: METHOD_TITLES.get(r["method"], r["method"]))),
        ("seeds", listed(lambda r: r["seed"])),
        *((name, listed(environment(name))) for name in ("fewtask", "python", "torch", "numpy", "processor", "device")),
    ]
    return [(name, text) for name, text in rows if text]


def preset_lines(experiment: Experiment) -> tuple[str | None, list[tuple[str, str]]]:
    """The shipped preset that an experiment's extends, and (method or "all methods", changed settings)."""
    changes = preset_changes(experiment.preset)
    methods = changes.pop("methods", {})
    run = {cell.method for table in experiment.tables for cell in table.cells}
    lines: list[tuple[str, Mapping[str, Any]]] = [("all methods", changes)] if changes else []
    lines += [(METHOD_TITLES.get(method, method), own) for method, own in methods.items() if method in run]
    lines += [("every row", experiment.changes)] if experiment.changes else []
    return base_preset(experiment.preset), [(who, setup_text(flat(own))) for who, own in lines]


def setup_text(settings: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in settings.items())
