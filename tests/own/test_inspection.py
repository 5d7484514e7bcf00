"""What `fewtask check` finds in data whose faults are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestCentroid

from fewtask.cli import main
from fewtask.features import Table
from fewtask.own import OwnData
from fewtask.own.baselines import logistic_episodes
from fewtask.own.cautions import cautions
from fewtask.own.columns import Columns
from fewtask.own.inspection import centroid_episodes, inspect
from fewtask.own.measures import accuracies
from fewtask.own.reading import from_table
from fewtask.protocol import draw_episodes


def table_with_faults() -> Table:
    rng = np.random.default_rng(0)
    rows = [
        (f"t{t}", str(label), float(value)) for t in range(3) for label in (0, 1) for value in rng.normal(label, 1, 8)
    ]
    rows += [rows[0]]
    rows += [("t1", "1", rows[16][2])]
    rows += [("t2", "0", rows[0][2])]
    columns = {"task": [r[0] for r in rows], "label": [r[1] for r in rows], "x": [str(r[2]) for r in rows]}
    columns["flat"] = ["7"] * len(rows)
    columns["x"][40] = "oops"
    return Table(columns, lines=np.arange(2, len(rows) + 2), source="faults.csv")


def test_faults_are_counted_where_they_are() -> None:
    found = inspect(from_table(table_with_faults(), Columns(), "faults"))
    assert [(line.name, line.classes) for line in found.tasks] == [
        ("t0", {"0": 9, "1": 8}),
        ("t1", {"0": 8, "1": 9}),
        ("t2", {"0": 9, "1": 7}),
    ]
    assert [line.repeated for line in found.tasks] == [1, 0, 0]
    assert [line.contradicting for line in found.tasks] == [0, 1, 0]
    assert [line.shared for line in found.tasks] == [1, 0, 1]
    assert found.constant == ("flat",)
    assert [str(row) for row in found.bad] == ["line 42, column 'x': 'oops' is no number"]
    assert found.bad_by_column == {"x": 1}
    assert [line.shot for line in found.baselines] == [1, 5]


def test_baselines_are_those_of_scikit_learn_on_the_same_episodes() -> None:
    rng = np.random.default_rng(1)
    y = np.tile(np.repeat([0, 1, 2], 10), 2)
    own = OwnData.from_arrays(rng.normal(size=(60, 4)) + y[:, None], y, np.repeat(["a", "b"], 30))
    pool = own.dataset(validation=["b"]).train
    episodes = draw_episodes(pool, 12, 3, 2, 4, seed=0)
    labels, asked = np.repeat([0, 1, 2], 2), np.repeat([0, 1, 2], 4)
    for rows, centroid, logistic in zip(
        episodes.rows, accuracies(centroid_episodes(pool, episodes)), accuracies(logistic_episodes(pool, episodes))
    ):
        values = pool.gather(rows).numpy()
        support, query = values[:, :2].reshape(6, -1), values[:, 2:].reshape(12, -1)
        assert centroid == pytest.approx(NearestCentroid().fit(support, labels).score(query, asked))
        assert logistic == pytest.approx(LogisticRegression(max_iter=1000).fit(support, labels).score(query, asked))


def test_baselines_learn_what_can_be_learned() -> None:
    rng = np.random.default_rng(0)
    y = np.tile(np.repeat([0, 1], 20), 3)
    X = rng.normal(size=(120, 3)) + 6.0 * y[:, None]
    (one, *_) = inspect(OwnData.from_arrays(X, y, np.repeat(["a", "b", "c"], 40))).baselines
    assert one.centroid > 0.95
    (chance, *_) = inspect(OwnData.from_arrays(rng.normal(size=(120, 3)), y, np.repeat(["a", "b", "c"], 40))).baselines
    assert 0.35 < chance.centroid < 0.65


@pytest.mark.parametrize(
    ("labels", "tasks", "rows", "words"),
    [
        ("aabb", "tttt", [0, 1, 2, 3], "there is one task"),
        ("aabbcc", None, [0, 1, 2, 3, 4, 5], "3 classes are too few for a pool"),
        ("aaabb" * 2, "s" * 5 + "t" * 5, list(range(10)), "2 classes have two rows ('b' of task 's')"),
        ("aaabbb" * 2, "s" * 6 + "t" * 6, [*range(6)] * 2, "all tasks share all rows"),
    ],
)
def test_what_cannot_work_is_said(labels: str, tasks: str | None, rows: list[int], words: str) -> None:
    said = cautions(np.array(list(labels)), None if tasks is None else np.array(list(tasks)), np.array(rows))
    assert any(words in sentence for sentence in said)


def test_nothing_is_said_of_what_can_work() -> None:
    rows = np.array([*range(6), *range(1, 7)])
    assert cautions(np.array(list("aaabbb" * 2)), np.array(list("s" * 6 + "t" * 6)), rows) == []


def test_the_command_prints_what_was_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = table_with_faults()
    lines = [",".join(table.names), *(",".join(cells) for cells in zip(*table.columns.values()))]
    path = tmp_path / "faults.csv"
    path.write_text("\n".join(lines))
    assert main(["check", str(path), "--threads", "1"]) == 0
    printed = capsys.readouterr().out
    for words in ("0: 9, 1: 8", "line 42, column 'x'", "the same in every row: flat", "--label-column", "(chance 50)"):
        assert words in printed
    assert main(["check", str(tmp_path / "gone.csv")]) == 1
    assert "is not there" in capsys.readouterr().err
