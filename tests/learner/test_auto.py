"""MetaLearner(method="auto"): the winner of cross-validation predicts, in Python, from a folder, as a command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from synthetic import many_tasks, one_task

from fewtask import MetaLearner
from fewtask.auto.vote import judge_episodes
from fewtask.cli import main
from fewtask.files import read_json
from fewtask.learner.held_out import held_out_episodes, line_of
from fewtask.own import OwnData

OPTIONS = {"folds": 3, "episodes": 10, "candidates": "protonet; mean-interpolation", "margin": -100.0}


def learner(**more: object) -> MetaLearner:
    options = {**OPTIONS, **more}
    return MetaLearner(
        "auto", settings={"encoder": {"width": 16}}, steps=20, minutes=None, auto={"first_steps": 10, **options}
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[MetaLearner, Path]:
    folder = tmp_path_factory.mktemp("auto") / "run"
    made = learner().fit_data(OwnData.from_arrays(*many_tasks()), folder)
    return made, folder


def test_all_of_the_votes_are_saved_and_come_back(saved: tuple[MetaLearner, Path]) -> None:
    made, folder = saved
    X, y = one_task(100, 40)
    loaded = MetaLearner.load(folder)
    assert len(loaded.fitted_model().members) == 4
    first, second = (one.adapt(X[:10], y[:10]).predict_proba(X[10:]) for one in (made, loaded))
    assert np.array_equal(first, second)
    assert any("beats" in note for note in made.notes_)
    assert "beats" in (folder / "README.md").read_text()


def test_it_says_how_good_it_is_on_tasks_held_out_in_turn(saved: tuple[MetaLearner, Path]) -> None:
    made, folder = saved
    assert sorted(made.held_out_.tasks) == sorted(f"task {t}" for t in range(8))
    methods = {line.method for line in made.held_out_.lines}
    assert methods == {made.settings_.method, "centroid", "logistic regression"}
    assert {line.shot for line in made.held_out_.lines} >= {1, 2, 5}
    told = read_json(folder / "vote.json")
    assert told["members"][0] == "refit/model.safetensors"
    assert len(told["members"]) == 4
    assert made.fitted_model().calibration.as_dict()["temperature"] == told["temperature"]


def test_without_a_folder_it_is_the_same(saved: tuple[MetaLearner, Path]) -> None:
    X, y = one_task(100, 40)
    made = learner().fit(*many_tasks())
    found = made.adapt(X[:10], y[:10]).predict_proba(X[10:])
    assert np.array_equal(found, saved[0].adapt(X[:10], y[:10]).predict_proba(X[10:]))


def test_one_task_cannot_be_cross_validated_and_a_prototypical_network_is_trained(tmp_path: Path) -> None:
    X, y = one_task(3, 40)
    made = learner().fit(X, y, np.full(40, "only"))
    assert made.settings_.method == "protonet"
    assert any("protonet is trained: " in note for note in made.notes_)


def test_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X, y, tasks = many_tasks(3, 20)
    np.savez(tmp_path / "mine.npz", X=X, y=y, groups=tasks)
    words = ["train", str(tmp_path / "mine.npz"), "--minutes=0", "--steps=3", "--workers=1", "--encoder.width=8"]
    assert main([*words, f"--out={tmp_path / 'run'}"]) == 0
    said = capsys.readouterr().out
    assert "needs no training" in said or "nothing is trained" in said
    assert (tmp_path / "run" / "leaderboard.csv").exists()
    assert len(MetaLearner.load(tmp_path / "run").adapt(X[:8], y[:8]).predict(X[8:12])) == 4


def test_named_test_tasks_are_kept_out_and_scored_once_by_all_that_vote(tmp_path: Path) -> None:
    own = OwnData.from_arrays(*many_tasks())
    made = learner().fit_data(own, tmp_path / "run", ["task 6", "task 7"])
    told = read_json(tmp_path / "run" / "vote.json")
    assert sorted(told["tasks"]) == [f"task {t}" for t in range(6)]
    assert sorted(made.held_out_.tasks) == ["task 6", "task 7"]
    classes = read_json(tmp_path / "run" / "refit" / "config.json")["classes"]
    assert sorted(classes["train"]) == [f"task {t}" for t in range(6)]
    assert {line.method for line in made.held_out_.lines} == {made.settings_.method, "centroid", "logistic regression"}
    # What the whole vote says of the test tasks, by its calibration of the folds.
    model = made.fitted_model()
    assert len(model.members) == 4
    pool = own.dataset(None, ["task 6", "task 7"], 0).split("test")
    plan = held_out_episodes(pool, 5, 0, 200)
    found = model.calibration.apply(judge_episodes(model.members, pool, plan), np.array([5]))
    (line,) = [line for line in made.held_out_.lines if line.shot == 5 and line.method == made.settings_.method]
    assert line == line_of(5, made.settings_.method, found)
    assert [row["task"] for row in made.record_["test"]["tasks"]] == ["task 6", "task 7"]
    assert "task 6, task 7" in (tmp_path / "run" / "README.md").read_text()


def test_what_the_user_sets_is_kept_by_every_candidate_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = {"encoder": {"width": 16}, "optimizer": {"weight_decay": 0.03}}
    names = "protonet; protonet, weak decay; protonet, scaled"
    made = learner(candidates=names).set_params(settings=own, verbose=True)
    made.fit_data(OwnData.from_arrays(*many_tasks(4, 20)), tmp_path / "run")
    said = capsys.readouterr().out
    assert "every candidate keeps optimizer.weight_decay=0.03" in said
    assert "protonet, weak decay is then protonet and is left out" in said
    assert made.settings_.optimizer.weight_decay == 0.03
    lines = (tmp_path / "run" / "leaderboard.csv").read_text().splitlines()
    trained = [line for line in lines if line.startswith(("protonet", '"protonet'))]
    assert len(trained) == 2
    assert any("scaled" in line for line in trained)
