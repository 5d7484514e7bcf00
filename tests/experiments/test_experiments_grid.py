"""The order of a grid, what is missing, what it costs, and changes written as text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from grid_helpers import made_up

from fewtask.changes import parse_changes
from fewtask.errors import SettingsError
from fewtask.experiments.grid import Cell, PlannedRun, cell_settings, estimate, gather, plan
from fewtask.experiments.ledger import Ledger

CELLS = [Cell(m, d, d, m) for d in ("rainbow-digits", "nci") for m in ("protonet", "mlti")]


def missing(runs: list[PlannedRun], ledger: Ledger, test: bool = True) -> list[PlannedRun]:
    gathered = gather(runs, ledger, 1)
    return [run for run in runs if gathered.lacks(run, test)]


def test_runs_go_seed_by_seed_so_that_every_prefix_is_fair() -> None:
    runs = plan(CELLS, seeds=3)
    assert [run.settings.seed for run in runs] == [0] * 4 + [1] * 4 + [2] * 4
    for seed in range(3):
        block = runs[4 * seed : 4 * seed + 4]
        assert [(run.preset, run.settings.method) for run in block] == [(c.preset, c.method) for c in CELLS]


def test_a_cell_may_have_fewer_seeds_than_its_table() -> None:
    runs = plan([*CELLS[:1], replace(CELLS[1], seeds=1)], seeds=3)
    assert [(run.settings.method, run.settings.seed) for run in runs] == [
        ("protonet", 0), ("mlti", 0), ("protonet", 1), ("protonet", 2),
    ]  # fmt: skip


def test_a_run_that_two_tables_need_is_made_once() -> None:
    again = [Cell("full", "nci", "nci", "protonet"), Cell("other", "nci", "nci", "protonet", {"data": {"seed": 1}})]
    assert len(plan([*CELLS, *again], seeds=2)) == 2 * 5


def test_task_maps_are_asked_of_the_first_seed_alone() -> None:
    runs = plan(CELLS, 2, task_maps=[CELLS[1], Cell("x", "esc50", "esc50", "mlti")])
    assert [(r.preset, r.settings.seed) for r in runs if r.task_map] == [("rainbow-digits", 0), ("esc50", 0)]
    assert len(runs) == 9


def test_runs_in_the_ledger_are_not_missing_and_changed_settings_are_another_run(tmp_path: Path) -> None:
    ledger, runs = Ledger(tmp_path), plan(CELLS, seeds=2)
    ledger.write(made_up(runs[1].settings, np.arange(40)))
    assert missing(runs, ledger) == [runs[0], *runs[2:]]
    changed = plan(CELLS, 2, [{"train": {"steps": 300}}])
    assert missing(changed, ledger) == changed


def test_a_record_without_meta_test_is_missing_only_where_meta_test_is_wanted(tmp_path: Path) -> None:
    ledger, runs = Ledger(tmp_path), plan(CELLS[:1], seeds=1)
    record = made_up(runs[0].settings, np.arange(40))
    del record["test"]
    ledger.write(record)
    assert missing(runs, ledger, test=False) == []
    assert missing(runs, ledger, test=True) == runs


def test_the_estimate_is_measured_speed_times_steps(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for seed, seconds in enumerate((10.0, 20.0, 90.0)):
        ledger.write(made_up(cell_settings(CELLS[0], seed), np.arange(40)) | {"seconds": seconds})
    runs = plan(CELLS[:1], seeds=7, changes=[{"train": {"steps": 400}}])
    cost = estimate(runs, ledger.all(), workers=2)
    # The median run took 20 s.
    steps = cell_settings(CELLS[0], 0).train.steps
    assert (cost.runs, cost.known) == (7, 7)
    assert cost.seconds == pytest.approx(7 * 20.0 * 400 / steps)
    assert cost.wall_seconds == pytest.approx(cost.seconds / 2)


def test_changes_are_read_by_the_type_of_their_setting() -> None:
    texts = ["interpolation.layer=0", "data.strict=true", "optimizer.lr=1", "encoder.name=mlp", "data.features=none"]
    assert parse_changes(texts) == {
        "interpolation": {"layer": 0},
        "data": {"strict": True, "features": None},
        "optimizer": {"lr": 1},
        "encoder": {"name": "mlp"},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("interpolation.layer", "key=value"),
        ("interpolation.layr=1", "unknown setting"),
        ("nothing.at=1", "unknown setting"),
        ("seed.deep=1", "unknown setting"),
        ("interpolation.layer=two", "type int"),
        ("interpolation.layer=true", "type int"),
        ("data.strict=1", "type bool"),
        ("interpolation.strategy=both", "one of support, query"),
        ("interpolation=1", "group"),
    ],
)
def test_wrong_changes_are_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        parse_changes([text])
