"""The table of what each ingredient is worth: differences of rows, and what is missing said as such."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from made_records import declare, record

from fewtask.experiments.grid import cell_settings
from fewtask.experiments.ledger import Ledger
from fewtask.report.collect import collect
from fewtask.report.ingredients import INGREDIENTS, ingredients_table

DECLARED = Path(__file__).resolve().parents[2] / "experiments"
ROWS = """
preset = "nci"
reference = "bare"
[[rows]]
title = "bare"
method = "protonet"
[[rows]]
title = "bare + decay"
method = "protonet"
set = { "optimizer.weight_decay" = 0.1 }
[[rows]]
title = "bare + scale"
method = "protonet"
set = { "model.scale" = 1.0 }
[[rows]]
title = "bare + averages"
method = "protonet"
set = { "train.average" = 0.9 }
[[rows]]
title = "bare + mean"
method = "mean-interpolation"
[[rows]]
title = "whole"
method = "mean-interpolation"
set = { "data.train_on_validation" = true }
[[rows]]
title = "whole without all tasks"
method = "mean-interpolation"
"""
# Correct queries of 50 more than the bare start has, by seed; two points of accuracy each.
LEADS = {"bare": (0, 0, 0), "bare + decay": (3, 3, 3), "bare + averages": (4, 0, -4), "whole": (5, 5, 5)}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    one = declare(tmp_path, "nci/ingredients", "ablation", ROWS, 3)
    for cell in one.tables[0].cells:
        for seed, lead in enumerate(LEADS.get(cell.row, ())):
            correct = np.random.default_rng(seed).integers(18, 24, 60) + lead
            Ledger(one.records).write(record("nci", cell_settings(cell, seed), correct, 1))
    return tmp_path


def cells(table: str, ingredient: str, place: int = 0) -> list[str]:
    """What the data sets have in the line of an ingredient, or so many lines below it."""
    lines = table.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {ingredient} |"))
    return [cell.strip() for cell in lines[start + place].strip("|").split("|")][2:]


def test_an_ingredient_is_worth_the_difference_of_its_rows(root: Path) -> None:
    table = ingredients_table(collect(root))
    assert cells(table, "weight decay") == ["__+6.00 ± 0.00__"]
    assert cells(table, "averaged weights") == ["+0.00 ± 19.87"], "an interval that holds zero is not bold"
    assert cells(table, "scale of distances") == ["not chosen"], "the two rows are one run"
    assert cells(table, "interpolation by the mean") == ["not run"]
    assert cells(table, "encoder that starts from its input") == ["—"], "no such row is declared"
    assert cells(table, "all together") == ["__+10.00 ± 0.00__"]
    assert cells(table, "validation tasks in training", 1) == ["not run"]
    assert len(cells(table, "bare ProtoNet, test %")) == 1


def test_a_data_set_whose_settings_are_not_chosen_yet_is_a_column_that_says_so(root: Path) -> None:
    shutil.copytree(
        DECLARED / "esc50" / "ingredients", root / "esc50" / "ingredients", ignore=shutil.ignore_patterns("records")
    )
    table = ingredients_table(collect(root))
    assert "| ingredient |  | esc50 | nci |" in table
    assert cells(table, "weight decay") == ["not run", "__+6.00 ± 0.00__"]
    assert all(cells(table, one.title)[0] == cells(table, one.title, 1)[0] == "not run" for one in INGREDIENTS)
