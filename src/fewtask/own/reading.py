"""From a file or folder to labelled rows: the one way in of every command that takes a user's own data."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fewtask.bounds import listed, read_npz
from fewtask.errors import DataError
from fewtask.features.reading import is_table, read_table
from fewtask.features.table import Table, as_number
from fewtask.own.columns import MOST_CLASSES, MOST_LABELS, Columns, as_label, look
from fewtask.own.data import OwnData
from fewtask.own.folders import read_folder

FEATURE_ARRAYS = ("X", "x", "features", "data")
LABEL_ARRAYS = ("y", "labels", "label", "Y")
TASK_ARRAYS = ("groups", "group", "tasks", "task")


def read_own(path: str | Path, columns: Columns | None = None) -> OwnData:
    """A table (CSV, TSV, Parquet), an .npz file, or a folder of pictures or sounds."""
    path, columns = Path(path), columns or Columns()
    if path.is_dir():
        return read_folder(path, columns)
    if not path.exists():
        raise DataError(f"{path} is not there: name a table, an .npz file or a folder")
    if path.suffix.lower() == ".npz":
        return read_arrays(path, columns)
    if not is_table(path):
        raise DataError(f"{path} is no kind of file that is read here: use .csv, .tsv, .parquet, .npz or a folder")
    return from_table(read_table(path), columns, path.stem)


def from_table(table: Table, columns: Columns, name: str) -> OwnData:
    """A long table (a column of tasks and one of labels) or a wide one (a column a task)."""
    looked = look(table, columns)
    columns, featuriser = looked.columns, looked.columns.featuriser()
    notes = looked.notes()
    if looked.wide:
        return OwnData(name, table, *_wide(table, columns.tasks), featuriser, tuple(notes))
    assert columns.label is not None
    texts = [as_label(cell) for cell in table.texts(columns.label)]
    _check_classes(table, columns.label, texts)
    of = table.texts(columns.task) if columns.task is not None else None
    kept = np.array([bool(text) and (of is None or bool(of[row])) for row, text in enumerate(texts)])
    if not kept.all():
        notes.append(f"{(~kept).sum():,} rows have no label or no task and are left out")
    index = np.flatnonzero(kept)
    if of is None:
        notes.append("no task column: the classes are a pool, of which each episode takes some (--task-column)")
    tasks = None if of is None else np.array(of, dtype=str)[index]
    labels = np.array(texts, dtype=str)[index]
    return OwnData(name, table, index, labels, tasks, featuriser, tuple(notes)).keep(columns.tasks)


def _wide(table: Table, assays: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows [M], labels [M] and tasks [M] of all filled cells of the assays' columns."""
    rows, labels, tasks = [], [], []
    for assay in assays:
        texts = [as_label(cell) for cell in table.texts(assay)]
        _check_classes(table, assay, texts)
        filled = np.flatnonzero([bool(text) for text in texts])
        rows.append(filled)
        labels.append(np.array(texts, dtype=str)[filled])
        tasks.append(np.full(len(filled), assay))
    return np.concatenate(rows), np.concatenate(labels), np.concatenate(tasks)


def _check_classes(table: Table, column: str, texts: list[str]) -> None:
    """Refuses a column of measurements, which would make a class of every number."""
    different = set(texts) - {""}
    broken = [text for text in different if (number := as_number(text)) is not None and number % 1 != 0]
    if len(broken) > MOST_CLASSES:
        raise DataError(
            f"column '{column}' of {table.source} holds {len(different):,} different numbers: labels are classes, so "
            "divide the numbers into a few (low, high) first"
        )
    if len(different) > MOST_LABELS:
        raise DataError(
            f"column '{column}' of {table.source} holds {len(different):,} different labels, and at most "
            f"{MOST_LABELS:,} classes are read: is it the column of labels?"
        )


def read_arrays(path: Path, columns: Columns) -> OwnData:
    """X [R, ...], y [R] and, where there are fixed tasks, groups [R] of an .npz file."""
    if columns.inputs or columns.label or columns.task:
        raise DataError(f"{path} has arrays and no columns: call them X, y and groups, and leave the flags out")
    columns.check_options("array")
    arrays = read_npz(path)
    chosen = {}
    for what, names in (("X", FEATURE_ARRAYS), ("y", LABEL_ARRAYS), ("groups", TASK_ARRAYS)):
        there = [name for name in names if name in arrays]
        if not there and what != "groups":
            raise DataError(f"{path} has no array {what}: it has {listed(arrays)}")
        chosen[what] = arrays[there[0]] if there else None
    return OwnData.from_arrays(chosen["X"], chosen["y"], chosen["groups"], path.stem).keep(columns.tasks)
