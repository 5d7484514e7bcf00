"""fewtask predict: from a support and a query, in whatever files, to a file of predictions."""

from __future__ import annotations

import csv
import re
import shutil
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from synthetic import QUICK, many_tasks, one_task, pictures

from fewtask import Dataset, MetaLearner, RunSettings, TaskPool, execute, update
from fewtask.cli import main
from fewtask.errors import InputError
from fewtask.features.reading import read_table
from fewtask.learner import sources
from fewtask.learner.model import Model
from fewtask.learner.predict import predict_files
from fewtask.own.reading import read_own

NAMES = [f"n{i}" for i in range(9)]


def write_rows(path: Path, X: np.ndarray, **columns: Any) -> None:
    """A table with an id before and further columns behind the numbers."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", *NAMES, *columns])
        for row, values in enumerate(X):
            writer.writerow([f"row {row}", *values.tolist(), *(column[row] for column in columns.values())])


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of numbers, trained from a table as `fewtask train` does it."""
    folder = tmp_path_factory.mktemp("numbers")
    X, y, tasks = many_tasks(6, 30)
    write_rows(folder / "train.csv", X, task=tasks, label=y)
    own = read_own(folder / "train.csv")
    own.featuriser.columns = tuple(name for name in own.featuriser.columns if name != "id")
    MetaLearner(steps=40, episodes=20, settings=QUICK).fit_data(own, folder / "run")
    return folder / "run"


@pytest.fixture
def new(tmp_path: Path) -> tuple[Path, Path, np.ndarray, np.ndarray]:
    X, y = one_task(100, 40)
    write_rows(tmp_path / "support.csv", X[:13], label=y[:13])
    write_rows(tmp_path / "query.csv", X[13:], note=["a, b"] * 27)
    return tmp_path / "support.csv", tmp_path / "query.csv", X, y


def test_predictions_are_those_of_the_adapted_model(run: Path, new: Any, tmp_path: Path) -> None:
    support, query, X, y = new
    out = tmp_path / "out.csv"
    assert main(["predict", str(run), "--support", str(support), "--query", str(query), "--out", str(out)]) == 0
    rows = read(out)
    added = ["predicted", "probability_no", "probability_yes", "distance", "unlike_support"]
    assert list(rows[0]) == ["id", *NAMES, "note", *added]
    assert [row["id"] for row in rows] == [f"row {i}" for i in range(27)]
    assert rows[0]["note"] == "a, b"
    frame = {name: X[:, i] for i, name in enumerate(NAMES)}
    classifier = MetaLearner.load(run).adapt({k: v[:13] for k, v in frame.items()}, y[:13])
    rest = {k: v[13:] for k, v in frame.items()}
    assert [row["predicted"] for row in rows] == classifier.predict(rest).tolist()
    found = np.array([[float(row["probability_no"]), float(row["probability_yes"])] for row in rows])
    np.testing.assert_allclose(found, classifier.predict_proba(rest), rtol=1e-5)
    np.testing.assert_allclose([float(row["distance"]) for row in rows], classifier.distances(rest), rtol=1e-5)
    assert [row["unlike_support"] == "true" for row in rows] == classifier.unlike_support(rest).tolist()


def test_chunks_change_nothing(run: Path, new: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    support, query, _, _ = new
    words = ["predict", str(run), "--support", str(support), "--query", str(query), "--out"]
    main([*words, str(tmp_path / "whole.csv")])
    monkeypatch.setattr(sources, "ROWS", 4)
    assert sources.chunk_count(query) == 7
    main([*words, str(tmp_path / "chunks.tsv")])
    whole, parts = read_table(tmp_path / "whole.csv"), read_table(tmp_path / "chunks.tsv")
    assert whole.names == parts.names
    for name in ("id", "predicted", "unlike_support"):
        assert whole.texts(name) == parts.texts(name)
    np.testing.assert_allclose(whole.numbers("distance")[0], parts.numbers("distance")[0], rtol=1e-4)


def test_several_tasks_at_once_have_their_own_classes(run: Path, tmp_path: Path) -> None:
    (X, y), (X2, y2) = one_task(100, 30), one_task(101, 30)
    both, names = np.concatenate([X, X2]), np.array(["p53"] * 30 + ["ahr"] * 30)
    labels = np.concatenate([y, np.where(y2 == "yes", "toxic", "safe")])
    shown = np.r_[0:10, 30:40]
    asked = np.r_[40:50, 10:20, 50:52]
    write_rows(tmp_path / "s.csv", both[shown], assay=names[shown], outcome=labels[shown])
    write_rows(tmp_path / "q.csv", both[asked], assay=[*names[asked][:-1], "other"])
    words = ["--support", str(tmp_path / "s.csv"), "--query", str(tmp_path / "q.csv"), "--out", str(tmp_path / "o.csv")]
    columns = ["--label-column", "outcome", "--task-column", "assay"]
    assert main(["predict", str(run), *words, *columns]) == 0
    rows = read(tmp_path / "o.csv")
    assert [row["assay"] for row in rows] == ["ahr"] * 10 + ["p53"] * 10 + ["ahr"]
    for row in rows:
        own = {"ahr": ["safe", "toxic"], "p53": ["no", "yes"]}[row["assay"]]
        assert row["predicted"] in own
        filled = [name for name in ("no", "safe", "toxic", "yes") if row[f"probability_{name}"]]
        assert filled == own
    frame = {name: X2[:, i] for i, name in enumerate(NAMES)}
    alone = MetaLearner.load(run).adapt({k: v[:10] for k, v in frame.items()}, labels[30:40])
    expected = alone.predict({k: v[10:20] for k, v in frame.items()}).tolist()
    assert [row["predicted"] for row in rows[:10]] == expected


def test_bad_rows_are_listed_and_skipped_or_refused(
    run: Path, new: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    support, query, _, _ = new
    lines = query.read_text().splitlines()
    lines[3] = lines[3].replace("row 2,", "row 2,abc", 1)
    query.write_text("\n".join(lines) + "\n")
    words = ["predict", str(run), "--support", str(support), "--query", str(query), "--out"]
    assert main([*words, str(tmp_path / "out.csv")]) == 0
    said = capsys.readouterr().out
    assert "1 rows cannot be used and were left out" in said
    assert "query.csv, line 4, column 'n0'" in said
    assert "row 2" not in [row["id"] for row in read(tmp_path / "out.csv")]
    assert len(read(tmp_path / "out.csv")) == 26
    assert main([*words, str(tmp_path / "strict.csv"), "--strict"]) == 1
    assert "query.csv, line 4, column 'n0'" in capsys.readouterr().err
    assert not (tmp_path / "strict.csv").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label_column": "class"}, "has no column 'class'"),
        ({"out": "predictions.xlsx"}, "predictions are written as .csv or .tsv"),
        ({"support": "one"}, "rows of one class: at least two classes are needed"),
        ({"support": "blank"}, "column 'label' of .* is empty"),
        ({"query": "missing column"}, "has no column 'n8'"),
        ({"query": "taken"}, "has a column 'predicted' already"),
        ({"query": "nowhere"}, "is not there"),
        ({"query": "folder"}, "is a folder, and the model reads"),
    ],
)
def test_what_cannot_work_is_said_in_one_sentence(
    run: Path, new: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, str], message: str
) -> None:
    support, query, X, _ = new
    words = {"support": support, "query": query, "out": tmp_path / change.get("out", "out.csv")}
    if change.get("support") == "one":
        write_rows(support, X[:3], label=["a"] * 3)
    if change.get("support") == "blank":
        write_rows(support, X[:3], label=[""] * 3)
    if change.get("query") == "missing column":
        query.write_text("\n".join(",".join(line.split(",")[:9]) for line in query.read_text().splitlines()))
    if change.get("query") == "taken":
        write_rows(query, X, predicted=["x"] * len(X))
    if change.get("query") in ("nowhere", "folder"):
        words["query"] = tmp_path if change["query"] == "folder" else tmp_path / "nowhere.csv"
    flags = [flag for name, value in words.items() for flag in (f"--{name}", str(value))]
    if "label_column" in change:
        flags += ["--label-column", change["label_column"]]
    assert main(["predict", str(run), *flags]) == 1
    said = capsys.readouterr().err
    assert said.startswith("fewtask: ")
    assert "Traceback" not in said
    assert re.search(message, said)


def test_folders_of_pictures_in_and_out(tmp_path: Path) -> None:
    """A pool of classes to learn from, class/file as support, files as query."""
    image = pytest.importorskip("PIL.Image")
    X, y = pictures(classes=6, rows=10, side=16)
    for number, (picture, label) in enumerate(zip(X, y)):
        shown = {4: "support/four", 5: "support/five"}.get(int(label), f"train/{label}")
        folder = tmp_path / (shown if label < 4 or number % 10 < 5 else "query")
        folder.mkdir(parents=True, exist_ok=True)
        image.fromarray(picture).save(folder / f"{label}-{number}.png")
    run = tmp_path / "run"
    MetaLearner(steps=30, episodes=10, settings=QUICK).fit_data(read_own(tmp_path / "train"), run)
    words = ["--support", str(tmp_path / "support"), "--query", str(tmp_path / "query")]
    assert main(["predict", str(run), *words, "--out", str(tmp_path / "out.csv")]) == 0
    rows = read(tmp_path / "out.csv")
    assert len(rows) == 10
    right = [row["predicted"] == {"4": "four", "5": "five"}[row["file"][0]] for row in rows]
    assert sum(right) >= 8


def test_arrays_in_npz_files(learner: MetaLearner, tmp_path: Path) -> None:
    learner.save(tmp_path / "run")
    X, y = one_task(100, 30)
    np.savez(tmp_path / "s.npz", X=X[:10], y=y[:10])
    np.savez(tmp_path / "q.npz", X=X[10:])
    words = ["--support", str(tmp_path / "s.npz"), "--query", str(tmp_path / "q.npz"), "--out", str(tmp_path / "o.csv")]
    assert main(["predict", str(tmp_path / "run"), *words]) == 0
    rows = read(tmp_path / "o.csv")
    assert [row["row"] for row in rows] == [str(i) for i in range(1, 21)]
    assert [row["predicted"] for row in rows] == learner.adapt(X[:10], y[:10]).predict(X[10:]).tolist()


def test_the_card_s_command_works_as_pasted(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(run, moved)
    monkeypatch.chdir(moved)
    card = Path("README.md").read_text(encoding="utf-8")
    command = card[card.rindex("```\nfewtask") + 4 : card.rindex("\n```")]
    program, *words = command.split()
    assert program == "fewtask"
    assert main(words) == 0
    assert {row["predicted"] for row in read(Path("predictions.csv"))} <= {"no", "yes"}


def test_memory_does_not_grow_with_the_length_of_the_query(
    run: Path, new: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    support, query, _, _ = new
    monkeypatch.setattr(sources, "ROWS", 100)
    model = Model.load(run)
    header, *lines = query.read_text().splitlines()
    peaks = []
    for times in (10, 10, 200):
        (tmp_path / "long.csv").write_text("\n".join([header, *(lines * times)]) + "\n")
        tracemalloc.start()
        predict_files(model, support, tmp_path / "long.csv", tmp_path / "o.csv")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(read(tmp_path / "o.csv")) == 27 * times
    # The first call also imports; twenty times as many rows take as much as these.
    assert peaks[2] < 1.5 * peaks[1]


@pytest.mark.parametrize("kind", ["float32", "uint8"])
def test_the_card_of_a_run_on_arrays_works_as_pasted(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run of `execute`, as on the data sets that fewtask prepares; the scale is the run's, not the user's to know."""
    rows = torch.from_numpy(np.random.default_rng(0).integers(0, 255, (60, 5))).to(getattr(torch, kind))
    members = {
        f"t{t}": {"a": np.arange(20 * t, 20 * t + 10), "b": np.arange(20 * t + 10, 20 * t + 20)} for t in range(3)
    }
    pools = [TaskPool.fixed(rows, {name: members[name]}, scale=(100.0, 0.01)) for name in members]
    settings = update(
        RunSettings(dataset="mine", method="protonet"),
        {
            "episode": {"way": 2, "shot": 2, "query": 3},
            "evaluation": {"episodes": 5, "query": 3},
            "encoder": {"width": 4},
        }
        | {"train": {"steps": 2, "validation_episodes": 5}},
    )
    method = execute(settings, Dataset("mine", *pools), tmp_path / "run", show_progress=False).method
    monkeypatch.chdir(tmp_path / "run")
    card = Path("README.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(card[card.rindex("```python\n") + len("```python\n") : card.rindex("```")], names)
    assert "[[" in capsys.readouterr().out
    with torch.no_grad():
        wanted = method.embed((torch.as_tensor(names["rows"]).float() - 100) * 0.01)
    np.testing.assert_allclose(MetaLearner.load(".").embed(names["rows"]), wanted.numpy(), rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def molecules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of SMILES: does a chain hold nitrogen, oxygen, ...?"""
    pytest.importorskip("rdkit")
    chains = ["C" * n + atom + "C" * m for atom in ("O", "N", "S", "") for n in range(1, 5) for m in range(1, 5)]
    tasks = {atom: [("yes" if atom in chain else "no") for chain in chains] for atom in ("O", "N", "S")}
    smiles, labels = chains * 3, [label for own in tasks.values() for label in own]
    names = np.repeat(list(tasks), len(chains))
    folder = tmp_path_factory.mktemp("molecules")
    MetaLearner(features="molecules", steps=10, episodes=10, settings=QUICK).fit(smiles, labels, names).save(folder)
    return folder


def test_a_model_of_molecules_takes_smiles(molecules: Path) -> None:
    learner = MetaLearner.load(molecules)
    classifier = learner.adapt(["CCO", "CCCO", "CCC", "CCCC"], ["alcohol", "alcohol", "alkane", "alkane"])
    assert classifier.predict(["CCCCO", "CCCCC"]).tolist() == ["alcohol", "alkane"]
    with pytest.raises(InputError, match="line 2, column 'x': RDKit cannot read 'C1C'"):
        classifier.predict(["CC", "C1C"])


def test_a_missing_extra_is_named_with_the_command_that_installs_it(
    molecules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.csv").write_text("x,label\nCCO,a\nCCC,b\n")
    for name in [name for name in sys.modules if name.split(".")[0] == "rdkit"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rdkit", None)
    words = ["--support", str(tmp_path / "s.csv"), "--query", str(tmp_path / "s.csv"), "--out", str(tmp_path / "o.csv")]
    assert main(["predict", str(molecules), *words]) == 1
    assert 'pip install "fewtask[chem]"' in capsys.readouterr().err
