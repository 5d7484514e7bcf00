"""Everything that the page of results and the web page say, from the ledger alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fewtask.changes import flat
from fewtask.errors import RunError
from fewtask.experiments.grid import cell_settings
from fewtask.experiments.render import duration
from fewtask.experiments.statistics import Mean
from fewtask.experiments.summary import CellResult, Summary, summarise
from fewtask.experiments.tables import METHOD_TITLES, Experiment
from fewtask.presets import base_preset, preset_changes, preset_names
from fewtask.report.claims import Claim, accuracy_claims, loss_claims
from fewtask.report.present import (
    Present,
    ReadLedger,
    Setup,
    differing,
    is_long,
    present_experiments,
    setup_text,
)

PROTONET = METHOD_TITLES["protonet"]


@dataclass(frozen=True)
class Filled:
    """A table or figure with its numbers. `over_protonet`: `test` with ProtoNet as the reference, where it is a row."""

    present: Present
    test: Summary
    validation: Summary
    over_protonet: Summary | None

    @property
    def experiment(self) -> Experiment:
        return self.present.experiment

    def gain(self, result: CellResult) -> Mean | None:
        """This row's accuracy minus ProtoNet's on the same episodes."""
        over = self.over_protonet
        other = None if over is None else over.at(result.cell.row, result.cell.column)
        behind = None if other is None else other.behind
        return None if behind is None else replace(behind, value=-behind.value)


@dataclass(frozen=True)
class Standing:
    """How the reference fares against the best of the other methods in a column."""

    table: str
    column: str
    reference: CellResult
    best: CellResult
    lead: Mean | None


@dataclass(frozen=True)
class Collected:
    """What a ledger holds."""

    ledger: ReadLedger
    filled: tuple[Filled, ...]
    claims: tuple[Claim, ...]

    @property
    def setup_names(self) -> dict[Setup, str]:
        """Setups of the tables that have a short name, which ends the names of their columns."""
        columns = [item for one in self.filled for item in one.present.setups.items()]
        return {setup: column.rpartition(", ")[2] for column, setup in columns if is_long(setup)}

    def named(self, name: str) -> Filled | None:
        return next((one for one in self.filled if one.experiment.name == name), None)


def collect(folder: Path) -> Collected:
    ledger = ReadLedger(folder)
    if not ledger.records:
        raise RunError(
            f"the ledger in {folder} has no record of a run: make some with fewtask reproduce table1 --ledger {folder}"
        )
    filled = tuple(_fill(present, ledger) for present in present_experiments(ledger))
    claims = [claim for one in filled for claim in (*accuracy_claims(one.test), *loss_claims(one.test))]
    return Collected(ledger, filled, tuple(claims))


def _fill(present: Present, ledger: ReadLedger) -> Filled:
    experiment = present.experiment
    has_protonet = PROTONET in experiment.rows
    return Filled(
        present,
        summarise(experiment, ledger, ledger.seeds),
        summarise(experiment, ledger, ledger.seeds, test=False),
        summarise(replace(experiment, reference=PROTONET), ledger, ledger.seeds) if has_protonet else None,
    )


def standings(collected: Collected) -> list[Standing]:
    """Meta-Interpolation against the best of the other methods, for each data set and setup of Tables 1 and 2."""
    found = []
    for name in ("table1", "table2"):
        one = collected.named(name)
        for column in one.test.columns if one is not None else ():
            assert one is not None
            rows = [r for r in one.test.results if r.cell.column == column and r.accuracy is not None]
            reference = next((r for r in rows if r.cell.row == one.experiment.reference), None)
            others = [r for r in rows if r is not reference and r.cell.row in METHOD_TITLES.values()]
            if reference is not None and others:
                best = max(others, key=lambda r: r.accuracy.value if r.accuracy else 0.0)
                found.append(Standing(name, column, reference, best, best.behind))
    return found


def facts(collected: Collected) -> list[tuple[str, str]]:
    """What was run, and on what."""
    records = collected.ledger.records
    tested = sum("test" in record for record in records)
    seconds = sum(record["seconds"] for record in records)

    def listed(values: Callable[[dict[str, Any]], Any]) -> str:
        return ", ".join(sorted({str(value) for record in records if (value := values(record)) is not None}))

    def environment(key: str) -> Callable[[dict[str, Any]], Any]:
        return lambda record: record.get("environment", {}).get(key)

    rows = [
        ("runs", f"{len(records)}, {tested} of them evaluated on meta-test"),
        ("data sets", listed(lambda r: r["dataset"])),
        ("methods", listed(lambda r: METHOD_TITLES.get(r["method"], r["method"]))),
        ("seeds", listed(lambda r: r["seed"])),
        ("computing time", f"{duration(seconds)} in all, {duration(seconds / len(records))} a run on average"),
        *((name, listed(environment(name))) for name in ("fewtask", "python", "torch", "numpy", "processor", "device")),
        ("data fingerprints", listed(_fingerprint)),
    ]
    return [(name, text) for name, text in rows if text]


def _fingerprint(record: dict[str, Any]) -> str | None:
    fingerprint = record.get("data_fingerprint")
    return None if fingerprint is None else f"{record['dataset']} {str(fingerprint)[:12]}"


def extended_presets(collected: Collected) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """(preset, the paper's preset that it extends, [(method or "all methods", changed settings)]) of those run."""
    found = []
    for name in sorted({record["preset"] for record in collected.ledger.records} & set(preset_names())):
        base = base_preset(name)
        if base is not None:
            changes = preset_changes(name)
            methods = changes.pop("methods", {})
            lines = [("all methods", changes)] if changes else []
            lines += [(METHOD_TITLES.get(method, method), own) for method, own in methods.items()]
            found.append((name, base, [(who, setup_text(flat(own).items())) for who, own in lines]))
    return found


@dataclass(frozen=True)
class RunLine:
    """A run as the list of all runs shows it."""

    preset: str
    method: str
    seed: int
    setup: str
    steps: int
    selected: int | None
    validation: float
    test: float | None
    seconds: float


def run_lines(collected: Collected) -> list[RunLine]:
    return [
        RunLine(
            record["preset"],
            METHOD_TITLES.get(record["method"], record["method"]),
            record["seed"],
            setup_text(item for item in differing(record).items() if item[0] != "train.steps"),
            record["settings"]["train"]["steps"],
            record.get("selected_step"),
            record["validation"]["accuracy"],
            record["test"]["accuracy"] if "test" in record else None,
            record["seconds"],
        )
        for record in collected.ledger.records
    ]


def task_maps(collected: Collected) -> list[tuple[str, str, dict[str, Any]]]:
    """(column, row, map) of every task map in the ledger, of the first seed."""
    one = collected.named("figure-tasks")
    found = []
    for cell in one.experiment.cells if one is not None else ():
        values = collected.ledger.read_map(cell_settings(cell, 0))
        if values is not None:
            found.append((cell.column, cell.row, values))
    return found
