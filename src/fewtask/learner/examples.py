"""A few rows of a held-out task in the run's folder, so that its card can show a prediction that works as pasted."""

from __future__ import annotations

import csv
import io
import shutil
from pathlib import Path

import numpy as np

from fewtask.files import write_atomically, write_text
from fewtask.own import OwnData
from fewtask.pool import Dataset

FOLDER = "example"
SHOWN, ASKED, MOST_CLASSES = 5, 5, 5
FILES = ("images", "sound")


def write_example(own: OwnData, dataset: Dataset, folder: Path) -> list[str]:
    """Writes support and query of one held-out task; lines of Markdown that use them, run in the folder."""
    support, query, labels = _choose(own, dataset)
    if own.featuriser.kind == "array":
        column = np.asarray(own.table.column(own.featuriser.columns[0]))
        arrays = {"support": column[support], "labels": labels, "query": column[query]}
        write_atomically(folder / FOLDER / "example.npz", lambda path: _write_arrays(path, arrays))
        return [
            "In this folder, with a few rows of a held-out task:",
            "",
            "```python",
            "import numpy as np",
            "from fewtask import MetaLearner",
            "",
            f'example = np.load("{FOLDER}/example.npz")',
            'classifier = MetaLearner.load(".").adapt(example["support"], example["labels"])',
            'print(classifier.predict(example["query"]))',
            'print(classifier.predict_proba(example["query"]))',
            "```",
            "",
        ]
    _write_table(own, support, folder / FOLDER / "support.csv", labels)
    _write_table(own, query, folder / FOLDER / "query.csv", None)
    return [
        "In this folder, with a few rows of a held-out task:",
        "",
        "```",
        f"fewtask predict . --support {FOLDER}/support.csv --query {FOLDER}/query.csv --out predictions.csv",
        "```",
        "",
    ]


def _choose(own: OwnData, dataset: Dataset) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of the table to show and to ask about, and the labels of the first, of one validation task."""
    pool = dataset.validation if dataset.validation is not None else dataset.train
    task = pool.tasks[0]
    classes = [pool.class_names[c] for c in task.classes][:MOST_CLASSES]
    here = np.ones(len(own.labels), dtype=bool) if own.tasks is None else own.tasks == task.name
    support, query, labels = [], [], []
    for name in classes:
        rows = own.index[here & (own.labels == name)]
        shown = min(SHOWN, max(1, len(rows) - 1))
        support.append(rows[:shown])
        query.append(rows[shown : shown + ASKED])
        labels += [name] * shown
    return np.concatenate(support), np.concatenate(query), np.array(labels)


def _write_table(own: OwnData, rows: np.ndarray, path: Path, labels: np.ndarray | None) -> None:
    part = own.table.take(rows)
    columns = {name: part.texts(name) for name in own.featuriser.columns}
    if own.featuriser.kind in FILES:
        (name,) = columns
        columns[name] = [_copied(own.table.folder / cell, path.parent / "files") for cell in columns[name]]
    if labels is not None:
        columns["label"] = labels.tolist()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values()))
    write_text(path, text.getvalue())


def _copied(source: Path, folder: Path) -> str:
    """A copy beside the table, whose name no other picture has; its path relative to the table."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{source.parent.name}-{source.name}"
    if source.is_file():
        shutil.copyfile(source, target)
    return f"{folder.name}/{target.name}"


def _write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    with path.open("wb") as stream:
        np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
