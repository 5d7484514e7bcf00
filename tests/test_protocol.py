"""Which tasks serve what, and the episodes that weights are chosen and tested on: the same wherever they are asked."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from fewtask.errors import SettingsError, TaskError
from fewtask.pool import Dataset, TaskPool
from fewtask.protocol import check_episodes, draw_episodes, meta_test_episodes, selection_episodes
from fewtask.run import execute
from fewtask.settings import DataSettings, RunSettings, update

ROWS = torch.randn(400, 6, generator=torch.Generator().manual_seed(0))
SMALL: dict[str, Any] = {
    "dataset": "toy",
    "episode": {"way": 2, "shot": 2, "query": 3, "batch": 2},
    "encoder": {"name": "mlp", "width": 6},
    "train": {"steps": 12, "validate_every": 2, "validation_episodes": 30, "log_every": 4},
    "evaluation": {"episodes": 20, "query": 4},
}


def fixed(names: str, first: int) -> TaskPool:
    """A task of two classes with 20 rows each for every letter."""
    return TaskPool.fixed(
        ROWS,
        {
            name: {"no": np.arange(20) + first + 40 * i, "yes": np.arange(20, 40) + first + 40 * i}
            for i, name in enumerate(names)
        },
    )


def classes(count: int) -> TaskPool:
    return TaskPool.class_pool(ROWS, {f"c{i}": np.arange(8) + 8 * i for i in range(count)})


WHOLE = Dataset("toy", fixed("abcde", 0), fixed("fg", 200), fixed("h", 280))


def small(method: str, **changes: Any) -> RunSettings:
    return update(update(RunSettings(method=method), SMALL), changes)


def test_without_further_settings_validation_serves_both_purposes() -> None:
    pools = WHOLE.pools(DataSettings())
    assert pools.outer is pools.selection is WHOLE.validation
    assert (pools.train, pools.test, pools.selects, pools.notes) == (WHOLE.train, WHOLE.test, True, ())


def test_halved_validation_gives_the_set_function_other_rows_than_the_selection() -> None:
    pools = WHOLE.pools(DataSettings(halve_validation=True, seed=4))
    for outer, selection, whole in zip(
        pools.outer.class_rows, pools.selection.class_rows, pools.split("validation").class_rows
    ):
        assert not set(outer) & set(selection)
        assert set(outer) | set(selection) == set(whole)


def test_rows_that_pools_share_are_moved_once() -> None:
    pools = WHOLE.pools(DataSettings(halve_validation=True))
    assert pools.to("cpu").train is pools.train
    moved = pools.to("meta")
    assert moved.train.rows.device.type == "meta"
    assert len({id(pool.rows) for pool in (moved.train, moved.outer, moved.selection, moved.split("test"))}) == 1


def test_the_fingerprint_is_of_the_splits_and_not_of_who_gets_which_half() -> None:
    prints = [WHOLE.pools(data).fingerprint for data in (DataSettings(), DataSettings(halve_validation=True))]
    assert prints[0] == prints[1]
    assert prints[0] != WHOLE.pools(DataSettings(train_on_validation=True)).fingerprint
    assert Dataset("toy", WHOLE.train, WHOLE.validation).pools(DataSettings()).fingerprint not in prints


def test_missing_validation_tasks_are_set_aside_from_the_training_tasks_and_said() -> None:
    pools = Dataset("toy", fixed("abcdefghij", 0)).pools(DataSettings(seed=1))
    aside, rest = ([task.name for task in pool.tasks] for pool in (pools.selection, pools.train))
    assert len(aside) == 2
    assert sorted(aside + rest) == list("abcdefghij")
    assert f"{aside[0]}, {aside[1]} of the training data were set aside" in pools.notes[0]
    for task in pools.selection.tasks:
        whole = fixed("abcdefghij", 0)
        own = whole.tasks[whole.task_index(task.name)]
        for mine, theirs in zip(task.classes, own.classes):
            assert pools.selection.class_names[mine] == whole.class_names[theirs]
            np.testing.assert_array_equal(pools.selection.class_rows[mine], whole.class_rows[theirs])
    again = Dataset("toy", fixed("abcdefghij", 0)).pools(DataSettings(seed=1))
    assert [task.name for task in again.selection.tasks] == aside
    with pytest.raises(TaskError, match="none of 1 tasks can be set aside for validation"):
        Dataset("toy", fixed("a", 0)).pools(DataSettings())


def test_a_class_pool_without_validation_sets_as_many_classes_aside_as_an_episode_needs() -> None:
    pools = Dataset("toy", classes(12)).pools(DataSettings(), way=5)
    assert pools.selection.is_class_pool
    assert len(pools.selection.class_names) == 5
    assert set(pools.selection.class_names) | set(pools.train.class_names) == {f"c{i}" for i in range(12)}
    assert len(Dataset("toy", classes(40)).pools(DataSettings(), way=5).selection.class_names) == 10
    with pytest.raises(TaskError, match="at least 10 classes"):
        Dataset("toy", classes(9)).pools(DataSettings(), way=5)


def test_settings_that_leave_nothing_to_select_on_are_refused() -> None:
    with pytest.raises(SettingsError, match="exclude each other"):
        WHOLE.pools(DataSettings(halve_validation=True, train_on_validation=True))


def test_the_lists_come_from_the_pools_of_the_settings() -> None:
    settings = small("protonet", data={"halve_validation": True})
    pools = WHOLE.pools(settings.data)
    chosen = selection_episodes(settings, pools)
    np.testing.assert_array_equal(chosen.rows, draw_episodes(pools.selection, 30, 2, 2, 4, 0).rows)
    np.testing.assert_array_equal(
        meta_test_episodes(settings, pools).rows, draw_episodes(fixed("h", 280), 20, 2, 2, 4, 0).rows
    )


def test_episodes_that_the_data_cannot_give_are_refused_only_where_they_are_wanted() -> None:
    settings = small("protonet")
    poor = Dataset("toy", fixed("ab", 0), fixed("c", 80), TaskPool.fixed(ROWS, {"d": {"no": [0, 1], "yes": [2, 3]}}))
    pools = poor.pools(settings.data)
    check_episodes(settings, pools, test=False)
    with pytest.raises(TaskError, match="class 'no' of task 'd' has 2 rows"):
        check_episodes(settings, pools, test=True)


@pytest.mark.parametrize("method", ["centroid", "protonet"])
def test_a_run_on_halved_validation_is_scored_on_the_selections_half(method: str) -> None:
    """A method that needs no training is chosen and scored on the same episodes as one that does."""
    settings = small(method, data={"halve_validation": True})
    result = execute(settings, WHOLE, show_progress=False)
    pools = WHOLE.pools(settings.data)
    from fewtask.evaluation import evaluate

    score = evaluate(result.method, pools.selection, selection_episodes(settings, pools))
    assert result.record["validation"]["accuracy"] == pytest.approx(score.accuracy, abs=1e-6)
    whole = evaluate(result.method, WHOLE.split("validation"), draw_episodes(WHOLE.split("validation"), 30, 2, 2, 4, 0))
    assert score.accuracy != whole.accuracy


@pytest.mark.parametrize("average", [0.0, 0.5])
def test_weights_trained_on_the_validation_tasks_are_those_of_the_last_step(average: float) -> None:
    restless = {"train": {"average": average, "validate_every": 1}, "optimizer": {"lr": 0.1}}
    joined = small("protonet", data={"train_on_validation": True}, **restless)
    result = execute(joined, WHOLE, show_progress=False)
    accuracies = [row["validation_accuracy"] for row in result.history if "validation_accuracy" in row]
    assert max(accuracies[:-1]) > accuracies[-1], "the last step must not be the best one, or this test says nothing"
    assert result.record["selected_step"] == 12
    selected = execute(small("protonet", **restless), WHOLE, show_progress=False)
    assert selected.record["selected_step"] < 12


def test_a_run_without_test_tasks_or_validation_tasks_works_and_says_so(tmp_path: Any) -> None:
    result = execute(small("protonet"), Dataset("toy", fixed("abcde", 0)), tmp_path / "run", show_progress=False)
    assert "test" not in result.record
    assert result.record["validation"]["accuracy"] > 0
    assert "set aside for validation" in (tmp_path / "run" / "README.md").read_text()


@pytest.mark.parametrize(("name", "value"), [("max_per_class", 5), ("features", "morgan"), ("strict", True)])
def test_settings_that_only_the_maker_of_a_data_set_can_apply_are_refused(name: str, value: Any) -> None:
    data = dataclasses.replace(DataSettings(), **{name: value})
    with pytest.raises(SettingsError, match=f"data.{name} is for the data sets that fewtask prepares"):
        WHOLE.pools(data)
    made = dataclasses.replace(WHOLE, made_with=data)
    assert made.pools(data).fingerprint == WHOLE.pools(DataSettings()).fingerprint
    with pytest.raises(SettingsError, match=f"was loaded with data.{name} {value}, not"):
        made.pools(DataSettings())
