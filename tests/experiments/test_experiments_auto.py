"""`auto` as a row of an experiment, and rows that are trained for the steps that another row selected."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grid_helpers import job, made_up

from fewtask.auto.recorded import run_auto
from fewtask.auto_settings import AutoSettings
from fewtask.cli import main
from fewtask.datasets.cache import load_dataset
from fewtask.errors import SettingsError
from fewtask.experiments.declared import read_experiment
from fewtask.experiments.grid import Cell, PlannedRun, counted_steps, gather, gather_cells, plan, plan_followers
from fewtask.experiments.ledger import Ledger, run_digest
from fewtask.experiments.summary import summarise
from fewtask.experiments.worker import Job
from fewtask.presets import load_preset
from fewtask.record import episode_accuracies, record_problem
from fewtask.settings import RunSettings, from_dict, update
from fewtask.training import loop

HEAD = 'asks = "Is it worth it?"\nrole = "exploration"\nlooked_at = "Nothing."\n'
ROWS = """
reference = "auto"
seeds = 1
[[rows]]
method = "auto"
[[rows]]
title = "the refit alone"
method = "auto"
voters = "refit"
[[rows]]
method = "protonet"
refit = true
"""
TINY = """
extends = "rainbow-digits"
[encoder]
width = 4
[train]
steps = 4
validate_every = 1
validation_episodes = 8
[evaluation]
episodes = 20
[auto]
minutes = 0
folds = 2
episodes = 2
first_steps = 2
most_steps = 4
margin = -100.0
candidates = "protonet; metamix"
"""


def declare(folder: Path, rows: str = ROWS) -> Path:
    folder.mkdir(parents=True)
    (folder / "experiment.toml").write_text(HEAD + rows)
    (folder / "preset.toml").write_text(TINY)
    return folder


def tiny(folder: Path, seed: int = 0) -> RunSettings:
    (folder / "tiny.toml").write_text(TINY)
    return update(load_preset(str(folder / "tiny.toml"), "auto"), {"seed": seed})


def untimed(record: dict[str, Any]) -> dict[str, Any]:
    """What two runs with the same settings must agree on."""
    lines = [{k: v for k, v in line.items() if k != "milliseconds_a_step"} for line in record["auto"]["leaderboard"]]
    kept = {key: value for key, value in record.items() if key not in ("seconds", "notes")}
    return kept | {"auto": record["auto"] | {"leaderboard": lines}}


def test_reproduce_runs_auto_and_refits_and_shows_them_on_the_same_episodes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = declare(tmp_path / "all" / "digits" / "auto")
    flags = ["--experiments", str(tmp_path / "all"), "--work-dir", str(tmp_path / "work"), "--out", str(tmp_path)]
    # The two rows of auto are one run.
    assert main(["reproduce", "digits/auto", *flags, "--methods", "auto", "--workers=1"]) == 0
    assert "1 runs, 0 in the ledger, 1 to do" in capsys.readouterr().out
    assert main(["reproduce", "digits/auto", *flags, "--workers=1"]) == 0
    out = capsys.readouterr().out
    assert "2 runs, 1 in the ledger, 1 to do" in out
    assert "then 1 runs that take their steps from these" in out
    experiment = read_experiment(folder)
    (table,) = experiment.tables
    ledger = Ledger(experiment.records)
    gathered = gather_cells(table.cells, ledger, 1)
    records = {cell.row: gathered.of(cell)[0] for cell in table.cells}
    assert len(ledger.all()) == 3
    assert list(records) == ["auto", "the refit alone", "ProtoNet", "ProtoNet, refit"]
    assert len({record["test"]["episode_list"] for record in records.values()}) == 1
    usual, refit = records["ProtoNet"], records["ProtoNet, refit"]
    assert refit["settings"]["train"]["steps"] == refit["selected_step"] == usual["selected_step"]
    assert refit["settings"]["data"]["train_on_validation"]
    assert not usual["settings"]["data"]["train_on_validation"]
    auto = records["auto"]
    assert auto["data_fingerprint"] == usual["data_fingerprint"]
    assert auto["test"] == auto["voters"]["both"]
    assert records["the refit alone"]["test"] == auto["voters"]["refit"] != auto["test"]
    # Nothing here learned λ, so there is no refit with another.
    assert gathered.of(dataclasses.replace(table.cells[0], voters="refit-random")) == {}
    shown = summarise(table, gathered)
    assert shown.at("the refit alone", "digits/auto").accuracy.value == auto["voters"]["refit"]["accuracy"]  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], list[int]]:
    """The record of a run that nothing happened to, and the steps that it told of."""
    folder, heard = tmp_path_factory.mktemp("undisturbed"), []  # type: ignore[var-annotated]
    settings = tiny(folder)
    dataset = load_dataset(settings.dataset, settings.data)
    return run_auto(settings, dataset, folder / "run", preset="rainbow-digits", on_step=heard.append), heard


def test_the_record_of_auto_says_what_was_chosen_and_how_sure_it_may_be(
    tmp_path: Path, undisturbed: tuple[dict[str, Any], list[int]]
) -> None:
    record, heard = undisturbed
    settings = tiny(tmp_path)
    assert record_problem(record) is None
    assert run_digest(from_dict(record["settings"])) == run_digest(settings)
    assert heard == sorted(heard)
    assert 0 < heard[-1] <= counted_steps(settings)[0]
    about = record["auto"]
    chosen = [line for line in about["leaderboard"] if line["remark"] == "chosen"]
    assert [line["candidate"] for line in chosen] == [about["winner"]]
    assert about["winner"] in ("protonet", "metamix")
    assert len(about["leaderboard"]) == 6
    assert record["selected_step"] == about["steps"]
    for name, score in record["voters"].items():
        right = episode_accuracies({**record, "test": score})
        assert right.mean() == pytest.approx(score["accuracy"], abs=1e-6), name
        assert 0 <= score["calibrated_error"] < score["calibration_error"] <= 1
    held_out = record["validation"]
    assert [row["task"] for row in held_out["tasks"]] == ["fold 1", "fold 2"]
    assert episode_accuracies(record, "validation").mean() == pytest.approx(held_out["accuracy"], abs=1e-6)


def test_nothing_of_the_choice_depends_on_meta_test(
    tmp_path: Path, undisturbed: tuple[dict[str, Any], list[int]]
) -> None:
    first, settings = undisturbed[0], tiny(tmp_path)
    dataset = load_dataset(settings.dataset, settings.data)
    assert dataset.test is not None
    other = dataclasses.replace(dataset, test=dataset.test.subset([0, 1]))
    second = run_auto(settings, other, tmp_path / "second", preset="rainbow-digits")
    assert untimed(first)["auto"] == untimed(second)["auto"]
    assert first["validation"] == second["validation"]
    assert first["test"]["episode_list"] != second["test"]["episode_list"]


@pytest.mark.parametrize("moment", [3, 10, 13])
def test_killed_in_a_fold_between_rungs_or_in_the_refit_the_record_is_the_same(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    moment: int,
    undisturbed: tuple[dict[str, Any], list[int]],
) -> None:
    """Two candidates, two folds: steps 1 to 8 are of the first rung, 9 to 12 of the second, the others of the refit."""
    step, count = loop.training_step, [0]

    def fatal(*args: Any, **kwargs: Any) -> Any:
        count[0] += 1
        if count[0] == moment:
            raise KeyboardInterrupt
        return step(*args, **kwargs)

    monkeypatch.setattr(loop, "training_step", fatal)
    killed = job(tiny(tmp_path), tmp_path)
    with pytest.raises(KeyboardInterrupt):
        killed.work()
    assert untimed(killed.work()["record"]) == untimed(undisturbed[0])
    # A run of four steps at most was lost, and what the record is made of is gone.
    assert count[0] <= 8 + 4 + undisturbed[0]["selected_step"] + 4
    assert not list(killed.work_dir.iterdir())


def test_a_winner_that_learned_lambda_is_refitted_with_the_others_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fewtask.auto.candidates.PERIOD", 5)
    # The average of λ moves every ten steps.
    changes = {"folds": 3, "candidates": "meta-interpolation", "first_steps": 10, "most_steps": 10}
    settings = update(tiny(tmp_path), {"auto": changes, "encoder": {"width": 8}, "hyper": {"lr": 0.1, "terms": 1}})
    dataset = load_dataset(settings.dataset, settings.data)
    record = run_auto(settings, dataset, tmp_path / "run", preset="tiny")
    assert list(record["voters"]) == ["refit", "folds", "both", "refit-average", "refit-random"]
    assert len({record["voters"][name]["loss"] for name in ("refit", "refit-average", "refit-random")}) == 3
    # Each is an ordinary run in the folder, so that none is made again after a crash.
    assert all((tmp_path / "run" / name / "result.json").exists() for name in ("refit-average", "refit-random"))


def test_a_run_killed_before_its_search_was_written_starts_again(tmp_path: Path) -> None:
    settings = tiny(tmp_path)
    one: Job = job(settings, tmp_path)
    folder = one.work_dir / one.run.folder
    folder.mkdir(parents=True)
    (folder / "tasks.safetensors").write_bytes(b"half")
    assert one.work()["record"]["method"] == "auto"


def test_a_row_that_follows_another_is_planned_when_that_has_run(tmp_path: Path) -> None:
    usual = Cell("ProtoNet", "nci", "nci", "protonet")
    refit = Cell("refit", "nci", "nci", "protonet", {"data": {"train_on_validation": True}}, steps_of=usual)
    untrained = Cell("centroid", "nci", "nci", "centroid")
    cells = [usual, refit, untrained, dataclasses.replace(untrained, row="again", steps_of=untrained)]
    runs = plan(cells, seeds=2)
    assert [run.settings.method for run in runs] == ["protonet", "centroid"] * 2
    ledger = Ledger(tmp_path)
    gathered = gather(runs, ledger, 2)
    assert plan_followers(cells, gathered) == []
    ledger.write(made_up(runs[2].settings, np.arange(40)) | {"selected_step": 750})
    ledger.write(made_up(runs[1].settings, np.arange(40)) | {"selected_step": 0})
    gathered.add(runs, ledger)
    centroid, protonet = plan_followers(cells, gathered)
    assert (protonet.settings.seed, protonet.settings.train.steps) == (1, 750)
    assert protonet.settings.data.train_on_validation
    assert (centroid.settings.seed, centroid.settings.train.steps) == (0, 1)


def test_what_auto_counts_and_costs_follows_the_rungs() -> None:
    options = AutoSettings(minutes=0, folds=3, first_steps=10, most_steps=40, candidates="protonet; metamix")
    settings = update(RunSettings(method="auto"), {"auto": dataclasses.asdict(options)})
    counted, cost = counted_steps(settings)
    # Four untrained and two trained for 10 steps, one for 20, one for 40; ProtoNet costs 1 a step, MetaMix 1.2.
    assert counted == 3 * (6 * 10 + 20 + 40)
    assert cost == pytest.approx(1.1 * (3 * (2 * 10 + 10 + 20) + 40))
    assert PlannedRun("x", settings).stem.startswith("x-auto-0-")


@pytest.mark.parametrize("row", ['method = "auto"\nvoters = "all"', 'method = "protonet"\nvoters = "refit"'])
def test_ways_to_vote_are_auto_s_and_known(tmp_path: Path, row: str) -> None:
    with pytest.raises(SettingsError, match="rows of the method auto, and one of refit, folds, both, refit-average"):
        read_experiment(declare(tmp_path / "digits" / "wrong", f"[[rows]]\n{row}\n"))
