"""A run says the same wherever it is asked: in Python, in its folder, in a ledger, by hand or in a grid."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from grid_helpers import SMALL, job, small, without_times

from fewtask import evaluation
from fewtask.changes import flat
from fewtask.cli import main
from fewtask.datasets.cache import load_dataset
from fewtask.errors import RunError
from fewtask.evaluation import evaluate
from fewtask.experiments.ledger import Ledger
from fewtask.experiments.worker import run_one
from fewtask.protocol import meta_test_episodes, selection_episodes
from fewtask.record import episode_accuracies
from fewtask.run import execute, load_run

FLAGS = [word for key, value in flat(SMALL).items() for word in (f"--{key.replace('_', '-')}", str(value))]


@pytest.mark.parametrize("method", ["centroid", "meta-interpolation"])
def test_trained_by_hand_or_in_a_grid_the_record_is_the_same(method: str, tmp_path: Path) -> None:
    settings, run = small(method), tmp_path / "run"
    argv = ["train", "rainbow-digits", "--method", method, "--out", str(run), "--ledger", str(tmp_path / "mine")]
    assert main([*argv, "--threads", "1", "--device", "cpu", *FLAGS]) == 0
    grids = run_one(job(settings, tmp_path))
    saved = json.loads((run / "result.json").read_text())
    assert without_times(saved) == without_times(grids)
    assert Ledger(str(tmp_path / "mine")).read(settings) == saved
    result = execute(settings, load_dataset(settings.dataset, settings.data), str(run), show_progress=False)
    assert result.record == saved
    assert len(result.history) >= len(saved["history"])


@pytest.mark.parametrize("method", ["centroid", "protonet"])
def test_the_record_holds_every_episode_of_the_saved_weights(method: str, tmp_path: Path) -> None:
    settings = small(method, changes={"data": {"halve_validation": True}})
    dataset = load_dataset(settings.dataset, settings.data)
    record = execute(settings, dataset, tmp_path / "run", show_progress=False).record
    saved, pools = load_run(str(tmp_path / "run")), dataset.pools(settings.data)
    lists = {
        "validation": (pools.selection, selection_episodes(settings, pools)),
        "test": (pools.split("test"), meta_test_episodes(settings, pools)),
    }
    for split, (pool, episodes) in lists.items():
        score = evaluate(saved, pool, episodes)
        assert record[split]["accuracy"] == pytest.approx(score.accuracy, abs=1e-6)
        assert np.mean(episode_accuracies(record, split)) == pytest.approx(score.accuracy, abs=1e-6)
        assert record[split]["loss"] == pytest.approx(score.loss, abs=1e-5)


def test_an_untrained_method_is_scored_once_on_each_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    scores = evaluation.episode_scores
    monkeypatch.setattr("fewtask.record.episode_scores", lambda *args: seen.append(args[1]) or scores(*args))
    settings = small("centroid")
    dataset = load_dataset(settings.dataset, settings.data)
    execute(settings, dataset, tmp_path / "run", show_progress=False)
    assert seen == [dataset.validation, dataset.test]
    execute(settings, dataset, tmp_path / "run", show_progress=False)
    assert len(seen) == 2, "what is done is not scored again"


def test_meta_test_is_made_up_for_and_the_card_says_it(tmp_path: Path) -> None:
    settings = small(changes={"train": {"steps": 20}})
    dataset = load_dataset(settings.dataset, settings.data)
    first = execute(settings, dataset, tmp_path / "run", test=False, show_progress=False).record
    assert "test accuracy" not in (tmp_path / "run" / "README.md").read_text()
    second = execute(settings, dataset, tmp_path / "run", show_progress=False).record
    assert {key: value for key, value in second.items() if key != "test"} == first
    assert f"{100 * second['test']['accuracy']:.2f} ±" in (tmp_path / "run" / "README.md").read_text()


def test_a_result_of_another_version_is_refused_in_a_sentence(tmp_path: Path) -> None:
    settings = small(changes={"train": {"steps": 5}})
    dataset = load_dataset(settings.dataset, settings.data)
    execute(settings, dataset, tmp_path / "run", show_progress=False)
    (tmp_path / "run" / "result.json").write_text('{"selected_step": 5}')
    with pytest.raises(RunError, match="of another version of fewtask"):
        execute(settings, dataset, tmp_path / "run", show_progress=False)
