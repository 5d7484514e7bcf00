"""Every task is held out once, and nothing that is held out reaches what is learned."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tasks import dataset, pool_of_classes, pool_of_tasks

from fewtask.auto.folds import available, deal, units
from fewtask.auto.stored import read_dataset, write_dataset
from fewtask.errors import TaskError
from fewtask.pool import Dataset, TaskPool
from fewtask.settings import DataSettings


def rows_of(pool: TaskPool) -> set[tuple[float, ...]]:
    used = np.unique(np.concatenate(pool.class_rows))
    return {tuple(row) for row in pool.gather(used).tolist()}


@pytest.mark.parametrize("wanted", [2, 3, 5, 50])
@pytest.mark.parametrize("pool", [pool_of_tasks(7), pool_of_classes(11)], ids=["tasks", "classes"])
def test_every_unit_is_held_out_once_and_never_learned_from_there(pool: TaskPool, wanted: int) -> None:
    folds = deal(pool, wanted, way=2, seed=3)
    assert len(folds) == min(wanted, 5 if pool.is_class_pool else 7)
    held_out = [name for fold in folds for name in units(fold.held_out)]
    assert sorted(held_out) == sorted(units(pool))
    for fold in folds:
        assert len(units(fold.held_out)) >= (2 if pool.is_class_pool else 1)
        assert sorted(units(fold.held_out) + units(fold.train)) == sorted(units(pool))
        assert not rows_of(fold.held_out) & rows_of(fold.train)
        plain = fold.pools(learns_lambda=False)
        assert plain.train is fold.train
        assert plain.selection is fold.held_out
        assert not plain.selects
        bilevel = fold.pools(learns_lambda=True)
        parts = [units(p) for p in (bilevel.train, bilevel.outer, fold.held_out)]
        assert sorted(name for part in parts for name in part) == sorted(units(pool))
        assert all(parts)


def test_folds_depend_on_the_seed_alone() -> None:
    pool = pool_of_tasks(8)
    first, again, other = ([units(f.held_out) for f in deal(pool, 4, 2, seed)] for seed in (0, 0, 1))
    assert first == again != other


def test_too_few_tasks_are_refused_and_two_leave_nothing_for_lambda() -> None:
    with pytest.raises(TaskError, match="at least 2 tasks, and there are 1"):
        deal(pool_of_tasks(1), 5, 2, 0)
    with pytest.raises(TaskError, match="at least 6 classes, and there are 5"):
        deal(pool_of_classes(5), 5, 3, 0)
    two = deal(pool_of_tasks(2), 5, 2, 0)
    assert [len(units(fold.train)) for fold in two] == [1, 1]
    with pytest.raises(TaskError, match="too few tasks to learn lambda"):
        two[0].pools(learns_lambda=True)


def test_training_and_validation_tasks_are_all_available_and_test_tasks_are_not() -> None:
    pool = pool_of_tasks(6)
    whole = Dataset("toy", pool.subset([0, 1]), pool.subset([2, 3]), pool.subset([4, 5]))
    assert units(available(whole, DataSettings(), 2)) == ["task 0", "task 1", "task 2", "task 3"]
    # Without validation tasks a quarter would be set aside: it is available too.
    assert sorted(units(available(Dataset("toy", pool), DataSettings(), 2))) == units(pool)


@pytest.mark.parametrize("kind", ["tasks", "classes", "pictures"])
def test_a_stored_data_set_comes_back_row_by_row(kind: str, tmp_path: Path) -> None:
    if kind == "pictures":
        rows = torch.randint(0, 256, (24, 3, 4, 4), dtype=torch.uint8)
        index = np.arange(24).reshape(4, 2, 3)
        named = {f"t{t}": {"a": index[t, 0], "b": index[t, 1]} for t in range(4)}
        pool = TaskPool.fixed(rows, named, (127.5, 1 / 127.5), groups=np.array(list("xyz") * 8))
    else:
        pool = pool_of_tasks() if kind == "tasks" else pool_of_classes()
    before = dataset(pool)
    write_dataset(tmp_path / "tasks.safetensors", before)
    after = read_dataset(tmp_path / "tasks.safetensors")
    assert (after.name, after.test) == ("toy", None)
    for name, one in before.splits.items():
        two = after.split(name)
        assert two.rows.dtype == one.rows.dtype
        assert two.scale == one.scale
        assert two.is_class_pool == one.is_class_pool
        assert two.tasks == one.tasks
        assert two.class_names == one.class_names
        assert all(np.array_equal(a, b) for a, b in zip(one.class_rows, two.class_rows))
        if one.groups is not None:
            assert two.groups is not None
            same = one.groups[:, None] == one.groups[None, :]
            assert np.array_equal(two.groups[:, None] == two.groups[None, :], same)
        torch.testing.assert_close(two.rows, one.rows, rtol=0, atol=0)
    # Rows that were shared are shared again, so that joining does not double them.
    assert after.validation is not None
    assert after.train.rows is after.validation.rows
