"""The definitions of the paper's tables and figures."""

from __future__ import annotations

import hashlib
import json
from importlib import resources
from typing import Any

import numpy as np
import pytest
import torch

from fewtask.errors import FewtaskError
from fewtask.experiments.grid import Cell, cell_settings, plan
from fewtask.experiments.narrowing import narrow, narrow_all
from fewtask.experiments.tables import get_table, paper_numbers, table_names
from fewtask.methods import make_method
from fewtask.pool import TaskPool
from fewtask.sampler import EpisodeSampler

NAMES = [f"table{n}" for n in range(1, 11)] + ["figure-loss", "figure-tasks", "figure-set-size"]
TINY = {"encoder": {"width": 4}, "set_function": {"hidden": 8}}


def tiny_pool(cell: Cell) -> TaskPool:
    """Random rows with the kind of tasks that the cell's data set has."""
    encoder = cell_settings(cell, 0).encoder.name
    shape = (3, 16, 16) if encoder == "conv4" else (6,)
    if cell.preset.startswith(("esc50", "mini", "cifar")):
        return TaskPool.class_pool(
            torch.randn(800, *shape), {f"c{c}": np.arange(40 * c, 40 * c + 40) for c in range(20)}
        )
    way = 10 if cell.preset == "rmnist" else 2
    index = np.arange(4 * way * 40).reshape(4, way, 40)
    tasks = {f"t{t}": {f"c{c}": index[t, c] for c in range(way)} for t in range(4)}
    return TaskPool.fixed(torch.randn(index.size, *shape), tasks)


def test_all_tables_and_figures_are_there() -> None:
    assert table_names() == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_run_of_a_table_passes_its_methods_check(name: str) -> None:
    experiment = get_table(name)
    assert experiment.reference in experiment.rows
    pools: dict[str, TaskPool] = {}
    for cell in experiment.cells:
        pool = pools.setdefault(cell.preset, tiny_pool(cell))
        settings = cell_settings(cell, 1, [TINY])
        assert settings.seed == 1
        train = pool.restrict(settings.data.train_classes) if settings.data.train_classes else pool
        validation = pool.restrict(settings.data.validation_classes) if settings.data.validation_classes else pool
        method = make_method(settings, pool.input_shape)
        method.check(train, validation)
        method.draw(EpisodeSampler(train, 0))


def test_every_number_of_the_paper_is_beside_a_cell() -> None:
    shown = [cell.paper for name in NAMES[:10] for cell in get_table(name).cells if cell.paper]
    assert len(shown) == 30 + 30 + 4 + 3 + 4 + 2 + 8 + 12 + 9 + 4
    printed = {tuple(pair) for pair in _pairs({k: v for k, v in paper_numbers().items() if k.startswith("table")})}
    assert set(shown) <= printed
    # Table 6 prints ProtoNet's number in place of the method's.
    assert printed - set(shown) == {(75.35, 1.63)}


def test_the_numbers_are_as_they_were_copied_from_the_paper() -> None:
    content = resources.files("fewtask.experiments").joinpath("paper_tables.json").read_bytes()
    assert json.loads(content) == paper_numbers()
    # A number that is changed by accident would otherwise look like one of the paper's.
    assert hashlib.sha256(content).hexdigest() == "89c4c841f7ffd7bc10fd9a2bb51e387bc84b28604083e08b40cbbfd0d76c0c06"


def test_known_numbers_stand_in_their_cells() -> None:
    def paper(name: str, row: str, column: str) -> Any:
        return next(c.paper for c in get_table(name).cells if (c.row, c.column) == (row, column))

    assert paper("table1", "Meta-Interpolation", "nci") == (82.86, 0.26)
    assert paper("table1", "Centroid (untrained)", "nci") is None
    assert paper("table2", "ProtoNet+ST", "mini-imagenet-s-5shot") == (48.92, 0.67)
    assert paper("table3", "without bilevel optimisation", "esc50") == (63.01, 2.06)
    assert paper("table5", "query + support", "esc50") == (76.87, 0.94)
    assert paper("table6", "support", "rmnist") == (83.24, 1.39)
    assert paper("table7", "ProtoNet + Meta-Interpolation", "esc50") == (79.22, 0.96)
    assert paper("table8", "MLTI", "esc50, 10 classes") == (61.60, 2.04)
    assert paper("table10", "input", "esc50") == (66.83, 1.31)


def test_ablations_are_settings() -> None:
    def settings(name: str, row: str) -> Any:
        return cell_settings(next(c for c in get_table(name).cells if c.row == row), 0)

    assert settings("table3", "without interpolation").method == "protonet-st"
    assert not settings("table3", "without bilevel optimisation").interpolation.bilevel
    assert not settings("table3", "without the singleton loss").interpolation.singleton_loss
    assert settings("table4", "Deep Sets").set_function.name == "deep-sets"
    assert settings("table5", "support + noise").interpolation.strategy == "support+noise"
    assert settings("table10", "input").interpolation.layer == 0
    assert settings("figure-set-size", "4").interpolation.cardinality == 4


def test_the_full_columns_of_the_ablations_are_runs_of_table_1() -> None:
    first = {run.stem for run in plan(get_table("table1").cells, 1)}
    for name, shared in (("table3", 2), ("table4", 2), ("table5", 1), ("table8", 3), ("table9", 3), ("table10", 1)):
        runs = {run.stem for run in plan(get_table(name).cells, 1)}
        assert len(runs & first) == shared, name
    assert {run.stem for run in plan(get_table("figure-tasks").cells, 1)} <= first


def test_narrowing_keeps_what_was_named() -> None:
    table = narrow(get_table("table1"), ["nci"], ["protonet", "meta-interpolation"])
    assert (table.columns, table.rows) == (["nci"], ["ProtoNet", "Meta-Interpolation"])
    assert narrow(get_table("table2"), ["cifar100-fs"]).columns == ["cifar100-fs-1shot", "cifar100-fs-5shot"]


def test_another_preset_takes_the_place_of_the_papers_without_its_numbers() -> None:
    table = narrow(get_table("table8"), ["rainbow-digits"])
    assert table.columns[0] == "rainbow-digits, 5 classes"
    assert all(cell.paper is None and cell.preset == "rainbow-digits" for cell in table.cells)


def test_narrowing_all_leaves_out_tables_without_the_data_set() -> None:
    assert [e.name for e in narrow_all(["nci"])] == ["table1", "figure-loss", "figure-tasks"]
    assert [e.name for e in narrow_all(["rainbow-digits"])] == NAMES
    assert [e.name for e in narrow_all(methods=["fomaml"])] == ["table7"]


@pytest.mark.parametrize(
    ("datasets", "methods", "message"),
    [(["nco"], [], "did you mean 'nci'"), ([], ["fomaml"], "unknown method of this table 'fomaml'")],
)
def test_unknown_names_are_refused(datasets: list[str], methods: list[str], message: str) -> None:
    with pytest.raises(FewtaskError, match=message):
        narrow(get_table("table1"), datasets, methods)


def _pairs(values: Any) -> list[list[float]]:
    if isinstance(values, dict):
        return [pair for value in values.values() for pair in _pairs(value)]
    if isinstance(values, list) and len(values) == 2 and isinstance(values[0], float):
        return [values]
    return [pair for value in values for pair in _pairs(value)] if isinstance(values, list) else []
