"""2. Your own table: a CSV with a column of tasks and one of labels, to labels of a new task with probabilities."""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path

import numpy as np

from fewtask import MetaLearner
from fewtask.own.examples import write_example


def read(path: Path) -> tuple[list[str], list[list[str]]]:
    with path.open(encoding="utf-8", newline="") as handle:
        head, *rows = csv.reader(handle)
    return head, rows


with tempfile.TemporaryDirectory() as folder:
    # Ten tasks, each "which of two digits is it?", told by the ink in rows and columns of a picture.
    write_example("table", Path(folder) / "digits")
    head, rows = read(Path(folder) / "digits" / "tasks.csv")
    numbers = [i for i, name in enumerate(head) if name.startswith(("row", "column"))]
    X = np.array([[float(row[i]) for i in numbers] for row in rows])
    y = [row[head.index("label")] for row in rows]
    tasks = [row[head.index("task")] for row in rows]

    # Some tasks are set aside to choose weights on, and to learn how sure predictions may be.
    learner = MetaLearner("protonet", steps=150, episodes=40).fit(X, y, groups=tasks)
    print(*learner.notes_, sep="\n")

    # The new task: five examples of 8 and five of 9, neither of which it has been trained on.
    new_head, few = read(Path(folder) / "digits" / "support.csv")
    _, asked = read(Path(folder) / "digits" / "query.csv")
    cells = [new_head.index(head[i]) for i in numbers]
    classifier = learner.adapt([[float(row[i]) for i in cells] for row in few], [row[-1] for row in few])
    queries = np.array([[float(row[i]) for i in cells] for row in asked])
    for label, chances in zip(classifier.predict(queries[:5]), classifier.predict_proba(queries[:5])):
        print(label, dict(zip(classifier.classes_.tolist(), chances.round(2).tolist())))

    # A saved learner is a folder with a card; anyone can load it and adapt it to their own task.
    learner.save(Path(folder) / "learner")
    loaded = MetaLearner.load(Path(folder) / "learner")
    assert (loaded.adapt(queries[:2], ["a", "b"]).predict(queries[:2]) == ["a", "b"]).all()
