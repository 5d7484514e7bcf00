"""Studies of cost: paired differences on meta-validation beside costs of steps, panels by number of tasks, the goal."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from made_records import declare, record

from fewtask.experiments.grid import cell_settings
from fewtask.experiments.ledger import Ledger
from fewtask.files import write_json
from fewtask.report.collect import collect
from fewtask.report.tradeoff import panels, split, tradeoff_picture, tradeoff_table

ROWS = """
preset = "nci"
reference = "ProtoNet, 4 tasks"
test = false
[[rows]]
title = "ProtoNet, 4 tasks"
method = "protonet"
set = { "data.train_tasks" = 4 }
[[rows]]
title = "mean, 4 tasks"
method = "mean-interpolation"
set = { "data.train_tasks" = 4 }
[[rows]]
title = "Set Transformer, width 32, 4 tasks"
method = "meta-interpolation"
set = { "data.train_tasks" = 4 }
[[rows]]
title = "ProtoNet, 16 tasks"
method = "protonet"
[[rows]]
title = "mean, 16 tasks"
method = "mean-interpolation"
"""
# Correct queries of 50 more than ProtoNet has, by seed (two points of accuracy each), and what a step costs.
LEADS = {"ProtoNet": (0, 0, 0), "mean": (1, 2, 3), "Set Transformer, width 32": (-5, -5, -6)}
COSTS = {"ProtoNet": 1.0, "mean": 1.4, "Set Transformer, width 32": 8.0}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    one = declare(tmp_path, "nci/small-phi", "ablation", ROWS, 3)
    for cell in one.tables[0].cells:
        row, tasks = split(cell.row)
        for seed, lead in enumerate(LEADS[row]):
            if (row, tasks) == ("mean", "16 tasks") and seed:
                continue
            correct = np.random.default_rng(seed).integers(18, 24, 60) + lead
            made = record("nci", cell_settings(cell, seed), correct, 1)
            Ledger(one.records).write(made | {"validation": made["test"]})
    write_costs(tmp_path, COSTS)
    return tmp_path


def write_costs(root: Path, costs: dict[str, float]) -> None:
    rows = {f"{row}, 16 tasks": {"cost": cost} for row, cost in costs.items()}
    write_json(root / "nci" / "small-phi" / "costs.json", {"rows": rows})


def test_the_number_of_tasks_is_not_part_of_a_row() -> None:
    assert split("gate, half of the steps, 16 tasks") == ("gate, half of the steps", "16 tasks")
    assert split("Neumann, q = 5, 1,000 updates") == ("Neumann, q = 5, 1,000 updates", "")


def test_rows_are_compared_with_the_reference_of_their_own_panel(root: Path) -> None:
    few, all_tasks = panels(collect(root), "small-phi")
    assert (few.title, all_tasks.title) == ("nci, 4 tasks", "nci, 16 tasks")
    assert few.reference == "ProtoNet"
    assert few.leads["mean"].value == pytest.approx(0.04)
    # Of 0.02, 0.04 and 0.06 the half-width by Student's t.
    assert few.leads["mean"].interval == pytest.approx(4.3027 * 0.02 / np.sqrt(3), rel=1e-3)
    assert few.costs == pytest.approx({"mean": 1.4, "Set Transformer, width 32": 8.0})
    # Only the seeds that both have count.
    assert all_tasks.leads["mean"].value == pytest.approx(0.02)
    assert all_tasks.costs["mean"] == pytest.approx(1.40)


def test_the_table_says_what_is_clear_what_is_missing_and_whether_the_goal_is_met(root: Path) -> None:
    table = tradeoff_table(collect(root), "small-phi")
    lines = table.splitlines()
    assert lines[0] == "|  |  | nci, 4 tasks | nci, 16 tasks |"
    assert lines[2].startswith("| 1 | mean | +4.00 ± 4.97 (1.40) | +2.00 ± ")
    assert lines[2].endswith("\\* (1.40) |")
    assert lines[3].startswith("| 2 | Set Transformer, width 32 | __-10.67 ± 2.87__ (8.00) | not run |")
    assert "at no loss beyond the interval, in 2 panels that have run: mean." in lines[-1]
    assert tradeoff_table(collect(root), "second-order") == "Not run yet."
    assert tradeoff_picture(collect(root), "second-order") == ""


def test_a_dear_or_worse_choice_does_not_meet_the_goal(root: Path) -> None:
    write_costs(root, COSTS | {"mean": 1.51})
    assert tradeoff_table(collect(root), "small-phi").endswith("have run: none.")


def test_what_was_not_measured_has_no_cost_and_meets_no_goal(root: Path) -> None:
    (root / "nci" / "small-phi" / "costs.json").unlink()
    table = tradeoff_table(collect(root), "small-phi")
    assert "| 1 | mean | +4.00 ± 4.97 | +2.00 ± " in table
    assert table.endswith("have run: none.")
    assert "<circle" not in tradeoff_picture(collect(root), "small-phi")


def test_the_picture_has_a_dot_for_each_row_of_each_panel_where_its_numbers_say(root: Path) -> None:
    picture = tradeoff_picture(collect(root), "small-phi")
    assert picture.count("<circle") == 3
    titles = re.findall(r"<title>(.*?)</title>", picture)
    assert titles[0] == "mean: +4.00 ± 4.97 at 1.4"
    few = picture.split("translate(300 0)")[0]
    dots = [tuple(map(float, xy)) for xy in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', few)]
    # Dearer is further to the right, worse further down.
    assert dots[0][0] < dots[1][0]
    assert dots[0][1] < dots[1][1]
    rules = re.findall(r'<path d="M40 ([\d.]+)H', few)
    assert dots[0][1] < max(map(float, rules))
