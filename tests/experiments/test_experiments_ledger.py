"""The ledger and its records."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from grid_helpers import made_up, small

from fewtask.datasets.cache import load_dataset
from fewtask.errors import RunError
from fewtask.evaluation import evaluate
from fewtask.experiments.ledger import Ledger, run_digest
from fewtask.methods import make_method
from fewtask.protocol import meta_test_episodes
from fewtask.record import episode_accuracies, make_record, pack, thin, unpack
from fewtask.settings import update


def test_a_record_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    ledger, settings = Ledger(tmp_path / "new"), small(seed=3)
    record = made_up(settings, np.arange(40))
    assert not ledger.has(settings)
    path = ledger.write(record)
    assert path == ledger.path_for("rainbow-digits", settings)
    assert path.name == f"rainbow-digits-protonet-3-{run_digest(settings)}.json"
    assert ledger.has(settings)
    assert Ledger(tmp_path / "new").read(settings) == record
    assert ledger.all() == [record]


def test_the_name_changes_with_every_setting_of_the_run_and_not_with_logging() -> None:
    base = small("meta-interpolation")
    same = [{"train": {"log_every": 7}}, {"train": {"checkpoint_every": 9}}, {"mixup": {"alpha": 3.0}}]
    other = [{"seed": 1}, {"train": {"steps": 61}}, {"interpolation": {"layer": 1}}, {"data": {"seed": 1}}]
    assert {run_digest(update(base, change)) for change in same} == {run_digest(base)}
    assert len({run_digest(update(base, change)) for change in other} | {run_digest(base)}) == 5


def test_a_record_from_before_a_setting_existed_counts_as_having_its_default(tmp_path: Path) -> None:
    ledger, settings = Ledger(tmp_path), small()
    path = ledger.write(made_up(settings, np.arange(40)))
    old = json.loads(path.read_text())
    del old["settings"]["train"]["average"]
    path.unlink()
    (tmp_path / "rainbow-digits-protonet-0-0123456789abcdef.json").write_text(json.dumps(old))
    assert Ledger(tmp_path).has(settings)
    assert not Ledger(tmp_path).has(update(settings, {"train": {"average": 0.9}}))


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    ledger, settings = Ledger(tmp_path), small()
    path = ledger.write(made_up(settings, np.arange(40)))
    path.write_text(path.read_text()[:100])
    with pytest.raises(RunError, match=path.name):
        Ledger(tmp_path).read(settings)


def test_a_record_of_3000_episodes_is_small_and_agrees_with_the_evaluation(tmp_path: Path) -> None:
    settings = small(changes={"evaluation": {"episodes": 3000}, "train": {"validation_episodes": 1000}})
    dataset = load_dataset(settings.dataset, settings.data)
    method = make_method(settings, dataset.input_shape).eval()
    history = [
        {"step": step, **row}
        for step in range(250, 50_001, 250)
        for row in ({"loss": 1.23456789}, {"validation_loss": 1.23456789, "validation_accuracy": 0.123456789})
    ]
    pools = dataset.pools(settings.data)
    record = make_record("rainbow-digits", method, pools, history, selected_step=5, seconds=1.0)
    path = Ledger(tmp_path).write(record)
    assert path.stat().st_size < 20_000
    score = evaluate(method, pools.split("test"), meta_test_episodes(settings, pools))
    assert record["test"]["accuracy"] == pytest.approx(score.accuracy, abs=1e-6)
    stored = episode_accuracies(Ledger(tmp_path).read(settings))
    assert len(stored) == 3000
    assert stored.mean() == pytest.approx(score.accuracy, abs=1e-6)
    assert len(record["history"]) <= 60


def test_packed_counts_come_back_exactly() -> None:
    counts = np.random.default_rng(0).integers(0, 700, 3000)
    assert np.array_equal(unpack(pack(counts)), counts)


def test_a_thinned_history_keeps_the_last_validation_and_averages_the_losses_between() -> None:
    history = []
    for step in range(1, 201):
        history.append({"step": step, "loss": float(step)})
        if step % 2 == 0:
            history.append({"step": step, "validation_loss": 1.0, "validation_accuracy": step / 200})
    points = thin(history, points=30)
    assert len(points) <= 30
    assert points[-1]["step"] == 200
    assert points[-1]["validation_accuracy"] == 1.0
    # 100 validations in groups of 4: every point stands for 8 steps.
    assert points[-1]["loss"] == pytest.approx(np.mean(range(193, 201)))
    assert sum(p["step"] - q["step"] for p, q in zip(points[1:], points)) == 200 - points[0]["step"]


def test_losses_that_are_not_finite_become_null(tmp_path: Path) -> None:
    points = thin([{"step": 1, "validation_loss": float("nan"), "validation_accuracy": 0.5}])
    assert points == [{"step": 1, "loss": None, "validation_loss": None, "validation_accuracy": 0.5}]


@pytest.mark.parametrize("missing", ["preset", "seed", "seconds", "history", "validation.queries", "test.tasks"])
def test_a_record_that_lacks_an_entry_is_named_with_it(tmp_path: Path, missing: str) -> None:
    from fewtask.record import record_problem

    score = {"accuracy": 0.5, "interval": 0.1, "loss": 1.0, "episodes": 2, "tasks": [], "episode_list": "x"}
    score |= {"queries": 4, "correct": ""}
    record: dict = {"preset": "toy", "dataset": "toy", "method": "m", "seed": 0, "settings": {}}
    record |= {"seconds": 1.0, "history": [], "validation": dict(score), "test": dict(score)}
    assert record_problem(record) is None
    group, _, key = missing.rpartition(".")
    del (record[group] if group else record)[key]
    (tmp_path / "toy.json").write_text(json.dumps(record))
    with pytest.raises(RunError, match=rf"toy\.json is not a record of a run .*'{missing}'"):
        Ledger(tmp_path).all()
