"""MetaLearner: fit on tasks, adapt to a new one, save and load, in whatever form the rows come."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from synthetic import QUICK, many_tasks, one_task, pictures
from torch import nn

from fewtask import MetaLearner
from fewtask.errors import InputError, RunError, SettingsError, TaskError


def test_it_adapts_to_any_number_of_rows_and_classes_with_any_labels(learner: MetaLearner) -> None:
    X, y = one_task(100, 60)
    classifier = learner.adapt(X[:17], y[:17])
    assert classifier.classes_.tolist() == ["no", "yes"]
    found = classifier.predict_proba(X[17:])
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert set(classifier.predict(X[17:])) <= {"no", "yes"}
    assert classifier.score(X[17:], y[17:]) == np.mean(classifier.predict(X[17:]) == y[17:])
    # Three classes, which no training task had, numbered as the user numbers them.
    three = learner.adapt(X[:9], np.array([7, 7, 7, 3, 3, 11, 11, 11, 11]))
    assert three.classes_.tolist() == [3, 7, 11]
    assert three.predict_proba(X[9:12]).shape == (3, 3)
    assert three.predict(X[:2]).dtype.kind == "i"


def test_what_it_learned_from_other_tasks_helps_on_a_new_one(learner: MetaLearner) -> None:
    """Its tasks differ in three quiet numbers among six loud ones, which untrained centroids cannot know."""
    held_out = {(line.shot, line.method): line.accuracy for line in learner.held_out_.lines}
    assert held_out[5, "protonet"] > held_out[5, "centroid"] - 0.02
    assert {shot for shot, _ in held_out} == {1, 2, 5, 10}
    assert {method for _, method in held_out} == {"protonet", "centroid", "logistic regression"}


def test_a_row_s_label_does_not_depend_on_the_rows_beside_it(learner: MetaLearner) -> None:
    X, y = one_task(100, 40)
    classifier = learner.adapt(X[:10], y[:10])
    np.testing.assert_allclose(classifier.predict_proba(X[20:21]), classifier.predict_proba(X)[20:21], rtol=1e-5)


def test_a_saved_model_says_the_same_after_its_folder_is_moved(learner: MetaLearner, tmp_path: Path) -> None:
    X, y = one_task(100, 40)
    learner.save(tmp_path / "run")
    shutil.move(tmp_path / "run", tmp_path / "elsewhere")
    loaded = MetaLearner.load(tmp_path / "elsewhere")
    before, after = learner.adapt(X[:10], y[:10]), loaded.adapt(X[:10], y[:10])
    assert np.array_equal(before.predict_proba(X), after.predict_proba(X))
    assert np.array_equal(before.unlike_support(X), after.unlike_support(X))
    assert loaded.fitted_model().about["tasks"] == learner.fitted_model().about["tasks"]
    assert loaded.score(X, y, np.zeros(len(y))) == learner.score(X, y, np.zeros(len(y)))
    assert {"held-out.csv", "held-out.png", "README.md", "predictor.json"} <= {
        p.name for p in (tmp_path / "elsewhere").iterdir()
    }


def test_the_card_s_prediction_works_as_pasted(
    learner: MetaLearner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    learner.save(tmp_path / "run")
    monkeypatch.chdir(tmp_path / "run")
    card = Path("README.md").read_text(encoding="utf-8")
    code = card[card.rindex("```python\n") + len("```python\n") : card.rindex("```")]
    exec(code, {})
    said = capsys.readouterr().out
    assert "'no'" in said
    assert "'yes'" in said


@pytest.mark.parametrize("form", ["float64", "float32", "integers", "torch", "list"])
def test_arrays_of_every_kind_say_the_same(learner: MetaLearner, form: str) -> None:
    X, y = one_task(100, 30)
    X = np.round(X)
    forms: dict[str, Any] = {
        "float64": X,
        "float32": X.astype(np.float32),
        "integers": X.astype(np.int16),
        "torch": torch.from_numpy(X).requires_grad_(),
        "list": X.tolist(),
    }
    classifier = learner.adapt(forms[form][:10], y[:10].tolist())
    wanted = learner.adapt(X[:10], y[:10]).predict_proba(X[10:])
    np.testing.assert_allclose(classifier.predict_proba(forms[form][10:]), wanted, atol=1e-5)


@pytest.mark.parametrize("frame", [pandas.DataFrame, polars.DataFrame])
def test_frames_are_read_by_the_names_of_their_columns(frame: Any) -> None:
    X, y, tasks = many_tasks(4, 24)
    names = [f"n{i}" for i in range(9)]
    table = {name: X[:, i] for i, name in enumerate(names)} | {"colour": np.where(X[:, 0] > 100, "red", "blue")}
    learner = MetaLearner(steps=20, episodes=20, settings=QUICK).fit(
        frame(table), frame({"y": y})["y"], groups=frame({"t": tasks})["t"]
    )
    classifier = learner.adapt(frame(table)[:12], y[:12])
    turned = {name: table[name][12:20] for name in reversed(list(table))}
    np.testing.assert_allclose(classifier.predict_proba(frame(turned)), classifier.predict_proba(frame(table)[12:20]))
    with pytest.raises(InputError, match=r"the model reads 10 columns \(n0, n1"):
        classifier.predict(X)


def test_pictures_with_channels_last_in_bytes_are_scaled_as_in_training(tmp_path: Path) -> None:
    """The scale is saved: a model that forgot it would see numbers up to 255 and be sure of everything."""
    X, y = pictures()
    learner = MetaLearner(steps=20, episodes=20, settings=QUICK | {"encoder": {"width": 4}}).fit(X, y)
    assert learner.settings_.encoder.name == "conv4"
    learner.save(tmp_path)
    model = MetaLearner.load(tmp_path).fitted_model()
    (found,) = model.embed(model.features(X[:3]))
    shift, factor = model.scale or (0.0, 0.0)
    assert factor < 0.1
    decoded = (torch.from_numpy(X[:3]).permute(0, 3, 1, 2).float() - shift) * factor
    with torch.no_grad():
        wanted = model.members[0].encoder(decoded)
    torch.testing.assert_close(found, wanted)


def test_a_network_of_one_s_own_can_be_cut_where_the_setting_says(tmp_path: Path) -> None:
    X, y, tasks = many_tasks(4, 24)
    network = nn.Sequential(nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, 5), nn.ReLU(), nn.Linear(5, 4))
    settings = QUICK | {"interpolation": {"layer": 3}, "set_function": {"hidden": 8}}
    learner = MetaLearner("meta-interpolation", encoder=network, steps=4, episodes=10, settings=settings).fit(
        X, y, tasks
    )
    method: Any = learner.fitted_model().members[0]
    assert method.phi.output.out_features == 5
    assert learner.embed(X[:3]).shape == (3, 4)
    learner.save(tmp_path)
    with pytest.raises(SettingsError, match=r"a network of the user's own: give it again"):
        MetaLearner.load(tmp_path)
    loaded = MetaLearner.load(tmp_path, encoder=network)
    assert np.array_equal(loaded.embed(X[:3]), learner.embed(X[:3]))
    with pytest.raises(SettingsError, match="can be cut at 0"):
        MetaLearner("meta-interpolation", encoder=network, settings={"interpolation": {"layer": 6}}).fit(X, y, tasks)


def test_it_follows_scikit_learn_s_conventions(learner: MetaLearner) -> None:
    settings = {"train": {"average": 0.5}}
    made = MetaLearner("mlti", shot=3, settings=settings, validation=["a"])
    assert made.get_params()["settings"] is settings
    copied = clone(made)
    assert copied is not made
    assert copied.get_params() == made.get_params()
    assert made.set_params(shot=4).shot == 4
    with pytest.raises(NotFittedError):
        made.adapt([[1.0]], ["a"])
    again = clone(learner).fit(*many_tasks())
    X, y = one_task(100, 30)
    assert np.array_equal(again.adapt(X[:10], y[:10]).predict_proba(X), learner.adapt(X[:10], y[:10]).predict_proba(X))
    assert learner.get_params()["settings"] is QUICK


def test_named_validation_tasks_and_shots_are_used() -> None:
    X, y, tasks = many_tasks(5, 24)
    learner = MetaLearner("fomaml", steps=4, episodes=10, shot=2, settings=QUICK, validation=["task 3"]).fit(
        X, y, tasks
    )
    assert list(learner.fitted_model().about["tasks"]["validation"]) == ["task 3"]
    assert learner.settings_.episode.shot == 2
    assert 2 in learner.fitted_model().calibration.temperatures
    with pytest.raises(TaskError, match="fomaml was trained to tell 2 classes apart"):
        learner.adapt(X[:6], [0, 1, 2, 0, 1, 2])


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.zeros((4, 9)), ["a", "b", "a"], "X has 4 rows and y 3"),
        (np.zeros((4, 9)), ["a"] * 4, "all rows have one class, 'a'"),
        (np.zeros((2, 9)), [["a", "b"], ["a", "b"]], "one label a row"),
        (np.full((4, 9), np.nan), ["a", "b", "a", "b"], r"4 rows of X cannot be used: line 1"),
        (np.zeros((0, 9)), [], "X has no rows"),
    ],
)
def test_supports_that_cannot_be_used_are_refused(learner: MetaLearner, X: Any, y: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        learner.adapt(X, y)


def test_folders_that_are_no_models_are_refused(learner: MetaLearner, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is not a run folder"):
        MetaLearner.load(tmp_path / "nothing")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="is not empty and holds no model"):
        learner.save(tmp_path)
    learner.save(tmp_path / "run")
    (tmp_path / "run" / "predictor.json").write_text('{"format": 99}')
    with pytest.raises(RunError, match="is not of format 1, which this fewtask reads"):
        MetaLearner.load(tmp_path / "run")
