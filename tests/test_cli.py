"""The command line as a person meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fewtask.cli import COMMANDS, main
from fewtask.cli.train import choose

TINY = [
    "--data.max-per-class=12",
    "--encoder.width=4",
    "--set-function.hidden=8",
    "--train.steps=6",
    "--train.validate-every=3",
    "--train.validation-episodes=10",
    "--hyper.period=2",
    "--evaluation.episodes=20",
    "--evaluation.query=2",
    "--threads=1",
]


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in COMMANDS)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["trian"], "did you mean 'train'"),
        (["train", "rainbow-digit"], "did you mean 'rainbow-digits'"),
        (["train", "rainbow-digits", "--method", "protonett"], "did you mean 'protonet'"),
        (["train", "cifar100-fs"], "cifar100-fs-1shot, cifar100-fs-5shot"),
        (["train", "rainbow-digits", "--device", "nonsense", "--train.steps=1"], "try --device auto"),
        (["train", "rainbow-digits", "--interpolation.layer", "9", "--out", "x"], "layer 9 does not exist"),
        (["train", "rainbow-digits", "--episode.way", "11", "--out", "x"], "11-way episodes need 11 classes"),
        (["train"], "say what to train on"),
        (["evaluate", "nowhere"], "is not a run folder"),
    ],
)
def test_mistakes_are_one_sentence(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 1
    err = capsys.readouterr().err
    assert words in err
    assert err.startswith("fewtask: ")
    assert err.count("\n") == 1


def test_an_unknown_flag_exits_with_two(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["train", "rainbow-digits", "--no-such-flag", "3"])
    assert stop.value.code == 2
    assert "no-such-flag" in capsys.readouterr().err


def test_train_then_evaluate(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "run"
    argv = ["train", "rainbow-digits", "--method", "meta-interpolation", "--seed", "5", "--out", str(out), *TINY]
    assert main(argv) == 0
    printed = capsys.readouterr().out
    assert "test, all" in printed
    assert "blue half 270°" in printed
    files = {"model.safetensors", "config.json", "history.jsonl", "result.json", "README.md"}
    assert {p.name for p in out.iterdir()} == files
    config, result = (json.loads((out / name).read_text()) for name in ("config.json", "result.json"))
    assert config["settings"]["seed"] == 5
    assert config["classes"]["test"]["red full 0°"] == [str(d) for d in range(10)]
    assert config["input_shape"] == [3, 16, 16]
    assert main(["evaluate", str(out)]) == 0
    assert f"{100 * result['test']['accuracy']:.2f} ± {100 * result['test']['interval']:.2f}" in capsys.readouterr().out
    assert main(argv) == 0, "a finished run is not trained again"
    assert json.loads((out / "result.json").read_text()) == result


def test_choosing_settings_leaves_meta_test_alone(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert main(["train", "rainbow-digits", "--method", "protonet", "--no-test", "--out", str(out), *TINY]) == 0
    assert "test" not in json.loads((out / "result.json").read_text())


def test_a_folder_that_is_no_run_is_left_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    assert main(["train", "rainbow-digits", "--method", "protonet", "--out", str(tmp_path), *TINY]) == 1
    assert "not empty and not a run folder" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["precious.txt"]


def test_tensorboard_gets_the_numbers_of_the_history(tmp_path: Path) -> None:
    event = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    out = tmp_path / "run"
    argv = ["train", "rainbow-digits", "--method", "protonet", "--tensorboard", "--out", str(out), *TINY]
    assert main(argv) == 0
    logged = event.EventAccumulator(str(out / "tensorboard")).Reload()
    rows = [json.loads(line) for line in (out / "history.jsonl").read_text().splitlines()]
    expected = [row["validation_accuracy"] for row in rows if "validation_accuracy" in row]
    assert [e.value for e in logged.Scalars("validation/accuracy")] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("argv", "preset", "method", "rest"),
    [
        (["tox21"], "tox21", "meta-interpolation", []),
        (["--method", "mlti", "tox21", "--seed", "1"], "tox21", "mlti", ["--seed", "1"]),
        (["--seed", "1", "tox21", "--method=mlti"], "tox21", "mlti", ["--seed", "1"]),
        (["tox21", "--out", "somewhere"], "tox21", "meta-interpolation", ["--out", "somewhere"]),
        (["--no-test", "nci"], "nci", "meta-interpolation", ["--no-test"]),
    ],
)
def test_the_preset_and_the_method_are_found_among_the_flags(
    argv: list[str], preset: str, method: str, rest: list[str]
) -> None:
    choice = choose(argv)
    assert (choice.preset, choice.method, choice.rest) == (preset, method, rest)


def test_no_run_shows_the_ledger_and_runs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Away from the checkout, whose declared experiments have these runs.
    monkeypatch.chdir(tmp_path)
    ledger = tmp_path / "ledger"
    argv = ["compare", "rainbow-digits", "--methods", "protonet", "--seeds", "2", "--no-run", "--ledger", str(ledger)]
    assert main(argv) == 0
    out = capsys.readouterr().out
    assert "2 to do" in out
    assert "ProtoNet" in out
    assert not ledger.exists()
