"""From labelled rows to pools: whole tasks are set aside, and nothing is learned from their rows."""

from __future__ import annotations

import numpy as np
import pytest

from fewtask.errors import DataError
from fewtask.own import OwnData
from fewtask.pool import Dataset


def blobs(tasks: int = 5, classes: int = 2, rows: int = 6, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.tile(np.repeat(np.arange(classes), rows), tasks)
    groups = np.repeat([f"task {t}" for t in range(tasks)], classes * rows)
    return rng.normal(size=(len(y), 3)) + y[:, None], y, groups


def names(dataset: Dataset, split: str) -> set[str]:
    return {task.name for task in dataset.split(split).tasks}


def test_every_task_is_in_one_split_with_all_its_rows() -> None:
    X, y, groups = blobs(tasks=8)
    dataset = OwnData.from_arrays(X, y, groups).dataset(test=["task 3"], seed=1)
    train, validation, test = (names(dataset, split) for split in ("train", "validation", "test"))
    assert test == {"task 3"}
    assert len(validation) == 2
    assert train | validation | test == {f"task {t}" for t in range(8)}
    assert not train & validation
    assert dataset.train.sizes.sum() == 12 * len(train)
    assert any("set aside for validation" in note for note in dataset.notes)


def test_the_rows_of_a_task_are_its_own() -> None:
    X, y, groups = blobs()
    X[:, 0] = [100 * int(task[-1]) + label for task, label in zip(groups, y)]
    own = OwnData.from_arrays(X, y, groups)
    dataset = own.dataset(validation=["task 1"])
    raw = X[groups != "task 1", 0]
    for task in dataset.train.tasks:
        for c in task.classes:
            values = dataset.train.gather(dataset.train.class_rows[c])[:, 0].numpy() * raw.std() + raw.mean()
            expected = 100 * int(task.name[-1]) + int(dataset.train.class_names[c])
            np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-2)


def test_features_know_the_training_tasks_only() -> None:
    X, y, groups = blobs()
    own, other = OwnData.from_arrays(X, y, groups), OwnData.from_arrays(X.copy(), y, groups)
    own.dataset(validation=["task 1"], test=["task 2"])
    other.table.columns["x"][np.isin(groups, ["task 1", "task 2"])] += 50.0  # type: ignore[operator]
    other.dataset(validation=["task 1"], test=["task 2"])
    assert own.featuriser.settings() == other.featuriser.settings()


def test_the_division_depends_on_the_seed_alone() -> None:
    X, y, groups = blobs(tasks=12)
    made = [names(OwnData.from_arrays(X, y, groups).dataset(seed=seed), "validation") for seed in (0, 0, 1, 2)]
    assert made[0] == made[1]
    assert len({frozenset(m) for m in made}) > 1


def test_a_class_pool_divides_its_classes() -> None:
    X, y, _ = blobs(tasks=1, classes=8)
    dataset = OwnData.from_arrays(X, y).dataset(test=["7", "6"])
    pools = [set(dataset.split(split).class_names) for split in ("train", "validation", "test")]
    assert pools[2] == {"6", "7"}
    assert len(pools[1]) == 2
    assert set.union(*pools) == {str(c) for c in range(8)}
    assert sum(map(len, pools)) == 8
    assert dataset.train.is_class_pool


def test_one_task_is_halved_and_the_user_is_told() -> None:
    X, y, groups = blobs(tasks=1, rows=11)
    X[:, 0] = np.arange(len(X))
    dataset = OwnData.from_arrays(X, y, groups).dataset()
    assert any(note.startswith("warning: there is one task") for note in dataset.notes)
    assert any("half of the rows of each class validate" in note for note in dataset.notes)
    assert sorted([*dataset.train.sizes, *dataset.validation.sizes]) == [5, 5, 6, 6]
    mine, yours = (set(pool.rows[:, 0].tolist()) for pool in (dataset.train, dataset.validation))
    assert not mine & yours


def test_short_classes_and_tasks_are_left_out_with_a_note() -> None:
    X, y, groups = blobs(tasks=4, classes=3)
    drop = ((groups == "task 0") & (y == 2)) | ((groups == "task 1") & (y > 0))
    drop[np.flatnonzero(drop & (groups == "task 0"))[0]] = False
    dataset = OwnData.from_arrays(X[~drop], y[~drop], groups[~drop]).dataset(validation=["task 3"])
    assert "class '2' of task 'task 0' is left out: it has 1 row, and 2 are needed" in dataset.notes
    assert "task 'task 1' is left out: it has 1 usable class, and 2 are needed" in dataset.notes
    assert names(dataset, "train") == {"task 0", "task 2"}
    assert len(dataset.train.tasks[0].classes) == 2


def test_rows_that_cannot_be_read_are_left_out_with_a_note() -> None:
    X, y, groups = blobs()
    X[4, 1] = np.nan
    dataset = OwnData.from_arrays(X, y, groups).dataset(validation=["task 1"])
    assert "1 of 60 rows left out: line 5, column 'x[1]': nan is not a finite number" in dataset.notes
    assert dataset.train.sizes.tolist() == [5, 6, 6, 6, 6, 6, 6, 6]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"validation": ["task 9"]}, "unknown task 'task 9'"),
        ({"validation": ["task 1"], "test": ["task 1"]}, "'task 1' is named for validation and for test"),
        ({"validation": [f"task {t}" for t in range(5)]}, "0 tasks left for train"),
        ({"validation": []}, "0 tasks left for validation"),
    ],
)
def test_impossible_divisions_are_one_sentence(options: dict[str, list[str]], words: str) -> None:
    with pytest.raises(DataError, match=words):
        OwnData.from_arrays(*blobs()).dataset(**options)  # type: ignore[arg-type]


def test_an_error_does_not_list_thousands_of_tasks() -> None:
    labels, tasks = np.tile([0, 1], 4000), np.repeat([f"t{n}" for n in range(2000)], 4)
    own = OwnData.from_arrays(np.zeros((8000, 1)), labels, tasks)
    with pytest.raises(DataError, match=r"did you mean .* and 1,960 more") as refused:
        own.keep(["t12345"])
    assert len(str(refused.value)) < 500


def test_wrong_arrays_are_one_sentence() -> None:
    X, y, groups = blobs()
    with pytest.raises(DataError, match="X has 60 rows, y has 59 rows"):
        OwnData.from_arrays(X, y[:-1])
    with pytest.raises(DataError, match="row 1 of y has no label"):
        OwnData.from_arrays(X, [None, *y[1:]], groups)
    with pytest.raises(DataError, match="no task has 2 classes"):
        OwnData.from_arrays(X[:3], ["a", "b", "c"], ["t", "t", "t"]).dataset()
