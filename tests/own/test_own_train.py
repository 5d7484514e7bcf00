"""`fewtask train` on a user's own file, from the flags to the saved model."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from fewtask.cli import main
from fewtask.cli.own import is_own, split_names
from fewtask.cli.own_train import settings_among
from fewtask.methods import METHODS

TINY = [
    "--method",
    "protonet",
    "--steps",
    "4",
    "--threads",
    "1",
    "--encoder.width=8",
    "--train.validation-episodes",
    "10",
]
TINY += ["--evaluation.episodes=10", "--shot", "1"]


def written(folder: Path, header: str = "task,label,a,b", tasks: int = 4) -> Path:
    rng = np.random.default_rng(0)
    lines = [header]
    for task in range(tasks):
        for row in range(8):
            lines.append(f"t{task},{'yes' if row % 2 else 'no'},{rng.normal(row % 2):.3f},{rng.normal():.3f}")
    path = folder / "mine.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_table_becomes_a_model_that_carries_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = written(tmp_path), tmp_path / "run"
    argv = ["train", str(path), "--out", str(out), "--validation-tasks", "t1", "--test-tasks", "t2", *TINY]
    assert main(argv) == 0
    printed = capsys.readouterr().out
    for words in (
        "the column of the task: 'task'",
        "2-way",
        "memory",
        "held-out tasks, 2 classes: t2",
        f"saved in {out}",
    ):
        assert words in printed
    with (out / "held-out.csv").open(newline="") as stream:
        centroid = next(line for line in csv.DictReader(stream) if line["method"] == "centroid")
    assert f"{100 * float(centroid['accuracy']):.1f} ± " in printed
    config, result = (json.loads((out / name).read_text()) for name in ("config.json", "result.json"))
    assert list(config["classes"]["train"]) == ["t0", "t3"]
    assert list(config["classes"]["validation"]) == ["t1"]
    assert list(config["classes"]["test"]) == ["t2"]
    assert config["settings"]["encoder"]["width"] == 8
    assert config["settings"]["train"]["steps"] == 4
    assert config["features"]["kind"] == "numbers"
    assert [column["name"] for column in config["features"]["columns"]] == ["a", "b"]
    assert result["test"]["tasks"][0]["task"] == "t2"
    before = (out / "model.safetensors").read_bytes()
    assert main(argv) == 0, "a finished run is not trained again"
    assert (out / "model.safetensors").read_bytes() == before


def test_a_folder_of_pictures_becomes_a_model(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for label in "abcdef":
        (tmp_path / "pictures" / label).mkdir(parents=True)
        for number in range(4):
            picture = image.fromarray(rng.integers(0, 255, (16, 16, 3), dtype=np.uint8))
            picture.save(tmp_path / "pictures" / label / f"{number}.png")
    out = tmp_path / "run"
    flags = ["--features", "pixels", "--seed", "3", *TINY]
    assert main(["train", str(tmp_path / "pictures"), "--out", str(out), *flags]) == 0
    config = json.loads((out / "config.json").read_text())
    assert config["input_shape"] == [3, 16, 16]
    assert config["settings"]["encoder"]["name"] == "conv4"
    assert config["settings"]["seed"] == 3
    assert config["features"] == {"kind": "images", "column": "file", "features": "pixels", "size": 16}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--label-column", "lable"], "has no column 'lable'"),
        (["--validation-tasks", "t9"], "unknown task 't9'"),
        (["--method", "protonett"], "did you mean 'protonet'"),
        (["--encoder.widht=3"], "unknown setting 'encoder.widht'"),
        (["--train.steps=many"], "train.steps takes a value of type int"),
        (["--set", "train.steps"], "not of the form key=value"),
        (["--smiles-column", "a", "--text-column", "b"], "one kind of input is needed"),
        (["--episode.way=3"], "3-way episodes need 3 classes"),
    ],
)
def test_mistakes_are_one_sentence(
    flags: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", str(written(tmp_path)), "--out", str(tmp_path / "run"), "--threads", "1", *flags]) == 1
    said = capsys.readouterr().err
    assert words in said
    assert said.startswith("fewtask: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ("t0,no,1.0,2.0,3.0", "line 34 has 5 cells where the header has 4"),
        ("t0,no,inf,2.0", "line 34, column 'a': inf is not a finite number"),
        ("t0,no,nan,2.0", "line 34, column 'a': there is no number"),
        ("t0,no,1.0,two", "line 34, column 'b': 'two' is no number"),
        ('t0,no,"1,5",2.0', "line 34, column 'a': '1,5' is no number (a decimal comma?)"),
        ("t0,maybe,1.0,2.0", "class 'maybe' of task 't0' is left out: it has 1 row"),
        ('"t,0",no,1.0,2.0', "task 't,0' is left out: it has 0 usable class"),
    ],
)
def test_a_bad_row_is_named_by_line_and_column(
    cells: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text() + cells + "\n")
    code = main(["check", str(path), "--threads", "1"])
    said = capsys.readouterr()
    assert words in said.out + said.err
    assert code == (1 if "where the header" in words else 0)


def test_what_is_data_and_what_is_a_preset(tmp_path: Path) -> None:
    assert is_own("mine.csv")
    assert is_own(str(tmp_path))
    assert is_own("folder/that/is/not/there")
    assert not is_own("tox21")
    assert not is_own("mine/preset.toml")
    assert not is_own("--method")


def test_names_and_settings_among_the_words() -> None:
    assert split_names('a, b ,"c,d",') == ("a", "b", "c,d")
    assert split_names(None) == ()
    words = ["x.csv", "--encoder.width", "8", "--out", "a.b", "--train.validate-every=5", "--seed", "1"]
    left, settings = settings_among(words)
    assert left == ["x.csv", "--out", "a.b", "--seed", "1"]
    assert settings == ["encoder.width=8", "train.validate_every=5"]


def test_a_method_of_a_plugin_trains_on_own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEWTASK_PLUGINS", "")
    script = tmp_path / "plain.py"
    script.write_text(
        "from fewtask.methods import METHODS\nfrom fewtask.methods.protonet import ProtoNet\n\n\n"
        "class Plain(ProtoNet):\n    name = 'plain-of-a-plugin'\n\n\nMETHODS.register(Plain)\n"
    )
    out = tmp_path / "run"
    argv = [
        "train",
        str(written(tmp_path)),
        "--out",
        str(out),
        "--plugin",
        str(script),
        "--method",
        "plain-of-a-plugin",
    ]
    try:
        assert main([*argv[:2], *TINY, *argv[2:]]) == 0
    finally:
        METHODS.pop("plain-of-a-plugin", None)
    assert json.loads((out / "config.json").read_text())["settings"]["method"] == "plain-of-a-plugin"
