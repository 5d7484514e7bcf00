"""What choosing is worth: one table over data sets, the goals beside it, and what has not run said as such."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from made_records import declare, record

from fewtask.experiments.grid import cell_settings, gather_cells, plan_followers
from fewtask.experiments.ledger import Ledger
from fewtask.report.build import page
from fewtask.report.collect import collect
from fewtask.report.markdown import pages
from fewtask.report.nested import nested, nested_table

ROWS = """
preset = "PRESET"
reference = "auto"
[[rows]]
method = "auto"
[[rows]]
title = "auto, refit alone"
method = "auto"
voters = "refit"
[[rows]]
title = "auto, folds alone"
method = "auto"
voters = "folds"
[[rows]]
method = "protonet"
refit = true
[[rows]]
method = "centroid"
"""
BEST = 'preset = "tox21"\ntables = ["table1"]\nmethods = ["protonet"]\nset = { "train.steps" = 99 }\n'
# Correct queries of 50 more than the centroid has, by row: two points of accuracy each.
LEADS = {"centroid": 0, "protonet": 2, "refit": 4, "folds": 3, "both": 5, "protonet refit": 6, "leading": 1}


def score_of(seed: int, lead: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(10, 30, 60) + lead


def auto_record(settings: Any, seed: int) -> dict[str, Any]:
    """A record of `auto` whose voters do as LEADS says."""
    ways = {}
    for way in ("refit", "folds", "both"):
        made = record("x", settings, score_of(seed, LEADS[way]), 1)
        ways[way] = made["test"] | {"calibration_error": 0.2, "calibrated_error": 0.02 + 0.02 * seed}
    line = {"candidate": "mean-interpolation", "steps": 40, "remark": "chosen"}
    about = {"winner": "mean-interpolation", "verdict": "it beats <b>", "leaderboard": [line]}
    return made | {"voters": ways, "test": ways["both"], "auto": about}


def run_all(root: Path, name: str, preset: str, seeds: int) -> None:
    """The records of an experiment `auto` as if it had run, refits after what they follow."""
    one = declare(root, name, "exploration", ROWS.replace("PRESET", preset), seeds)
    ledger = Ledger(one.records)
    cells = one.tables[0].cells
    gathered = gather_cells(cells, ledger, seeds)
    for cell in cells:
        for seed, settings in gathered.settings_of(cell).items():
            if cell.method == "auto":
                ledger.write(auto_record(settings, seed))
            else:
                ledger.write(record(preset, settings, score_of(seed, LEADS[cell.method]), 1) | {"selected_step": 77})
    for run in plan_followers(cells, gather_cells(cells, ledger, seeds)):
        assert run.settings.train.steps == 77
        ledger.write(record(preset, run.settings, score_of(run.settings.seed, LEADS["protonet refit"]), 1))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    run_all(tmp_path, "tox21/auto", "tox21", 2)
    leading = declare(tmp_path, "tox21/best", "primary", BEST, 2)
    for seed in range(2):
        made = record("tox21", cell_settings(leading.tables[0].cells[0], seed), score_of(seed, LEADS["leading"]), 1)
        # Meta-validation prefers this ProtoNet.
        Ledger(leading.records).write(made | {"validation": made["validation"] | {"accuracy": 0.99}})
    declare(tmp_path, "nci/auto", "exploration", ROWS.replace("PRESET", "nci"), 2)
    return tmp_path


def test_auto_is_compared_with_what_meta_validation_and_hindsight_prefer(root: Path) -> None:
    there, missing = sorted(nested(collect(root)), key=lambda one: one.dataset, reverse=True)
    assert there.tuned is not None
    assert there.tuned.title == "ProtoNet (best)"
    assert there.best is not None
    assert there.best.title == "ProtoNet, refit"
    # Two points a query: five more than the centroid, four more than tuned ProtoNet, one fewer than the refit.
    leads = [there.lead(name) for name in (there.centroid, there.tuned, there.best)]
    assert [round(100 * lead.value, 6) for lead in leads if lead is not None] == [10.0, 8.0, -2.0]
    assert there.sureness == pytest.approx((0.2, 0.03))
    assert there.winners == "mean-interpolation (2)"
    assert not missing.auto


def test_the_goals_are_said_to_be_met_or_not_on_what_has_run(root: Path) -> None:
    text = nested_table(collect(root))
    assert "| nci | not run |" in text
    assert "with the usual split on tox21: met, +8.00." in text
    assert "with the usual split on nci: not run." in text
    assert "on the mean of the 1 data sets that have run, of 2: met, +8.00." in text
    assert "best method in hindsight on each: met on 0 of 1, not on tox21 (-2.00); 1 of 2 have not run." in text
    assert "Never below the centroid: met on 1 of 1; 1 of 2 have not run." in text
    assert "after calibration on each: met on 1 of 1" in text
    # The whole vote is one query ahead of the refit, the folds alone are one behind.
    assert "the mean over 1 data sets: refit and folds together +2.00, the folds alone -2.00." in text
    (row,) = [line for line in text.splitlines() if line.startswith("| tox21")]
    assert "0.200 → 0.030" in row


def test_other_lambdas_of_a_refit_are_compared_with_their_mean(root: Path) -> None:
    rows = """
preset = "tox21"
set = { "auto.ensemble" = "refit" }
[[rows]]
title = "λ of the folds, averaged"
method = "auto"
[[rows]]
title = "λ random"
method = "auto"
voters = "refit-random"
"""
    one = declare(root, "tox21/frozen", "ablation", rows, 2)
    for seed in range(2):
        made = auto_record(cell_settings(one.tables[0].cells[0], seed), seed)
        made["test"] = made["voters"]["refit"]
        made["voters"]["refit-random"] = made["voters"]["both"]
        Ledger(one.records).write(made)
    text = nested_table(collect(root))
    assert "- Against a refit with λ averaged over the folds, tox21: λ random +2.00 ± 0.00." in text


def test_the_pages_of_a_data_set_show_votes_calibration_and_the_choice(root: Path) -> None:
    collected = collect(root)
    text = pages(collected)["tox21.md"]
    assert "calibration error, before → after" in text
    lines = {line.split(" | ")[0].strip("|* "): line for line in text.splitlines() if line.startswith("| ")}
    assert "0.200 → 0.030" in lines["auto, refit alone"]
    # The vote of all is a query ahead of the refit alone, on the same episodes.
    assert "+2.00 ± 0.00" in lines["auto, refit alone"]
    assert "- Seed 1: it beats &lt;b&gt;; trained on all tasks for 40 steps." in text
    html = page(collected)
    assert "0.200 → 0.030" in html
    assert "Seed 0: it beats &lt;b&gt;" in html
