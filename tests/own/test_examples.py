"""The ready-made problems are what they say: several tasks to learn from, and a new one with its truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from fewtask.cli import main
from fewtask.features.reading import read_table
from fewtask.own.reading import read_own

KINDS = {"table": ("tasks.csv", 10), "folder": ("pictures", 8), "molecules": ("assays.csv", 8)}


@pytest.mark.parametrize("kind", KINDS)
def test_an_example_is_a_problem_with_several_tasks(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "made"
    assert main(["example", kind, "--out", str(out)]) == 0
    data, tasks = KINDS[kind]
    printed = capsys.readouterr().out
    assert f"fewtask train {out / data}" in printed
    own = read_own(out / data)
    assert len(own.task_names) == tasks
    dataset = own.dataset()
    assert dataset.train.sizes.min() >= 10
    assert not any("left out" in note for note in dataset.notes)
    support, query = read_table(out / "support.csv"), read_table(out / "query.csv")
    inputs = own.featuriser.columns
    assert [*inputs, "label"] == support.names
    assert [*inputs, "truth"] == query.names
    assert set(support.texts("label")) == set(query.texts("truth"))
    for table in (support, query):
        features, good, bad = own.featuriser.transform(table)
        assert len(good) == len(table) == len(features)
        assert not bad
    learned = {tuple(row) for row in zip(*(own.table.texts(name) for name in inputs))}
    shown = {tuple(row) for row in zip(*(support.texts(name) for name in inputs))}
    asked = {tuple(row) for row in zip(*(query.texts(name) for name in inputs))}
    assert not learned & (shown | asked), "the new task has rows of its own"
    assert not shown & asked


def test_an_example_is_the_same_every_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert main(["example", "molecules", "--out", str(tmp_path / name)]) == 0
    for file in ("assays.csv", "support.csv", "query.csv"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    assert main(["example", "table", "--out", str(tmp_path)]) == 1
    assert "is not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
