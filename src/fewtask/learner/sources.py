"""Where predictions read from: tables, .npz files and folders, as labelled supports and as chunks of queries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fewtask.bounds import listed, read_npz
from fewtask.errors import DataError
from fewtask.features import BadRow, Featuriser, Table
from fewtask.features.reading import PARQUET, is_table, read_chunks, read_table
from fewtask.learner.model import Model
from fewtask.own.columns import as_label
from fewtask.own.folders import files_below
from fewtask.own.reading import FEATURE_ARRAYS, LABEL_ARRAYS, TASK_ARRAYS

ROWS = 4096
"""Queries that are held at once, whatever the length of their file."""
LABEL = "label"
ONE_TASK = ""


@dataclass(frozen=True)
class Labelled:
    """Labelled rows: a table with the model's columns, labels [S], tasks [S] ("" where there is only one)."""

    table: Table
    labels: np.ndarray
    tasks: np.ndarray


def read_labelled(path: Path, model: Model, label_column: str, task_column: str | None) -> Labelled:
    """The support: a table with a column of labels, an .npz file of X and y, or a folder class/file."""
    if path.is_dir():
        return _labelled_folder(path, _file_column(path, model), task_column)
    if path.suffix.lower() == ".npz":
        arrays = read_npz(path)
        X, y = _array(arrays, FEATURE_ARRAYS, path), _array(arrays, LABEL_ARRAYS, path)
        tasks = _array(arrays, TASK_ARRAYS, path) if task_column is not None else np.full(len(y), ONE_TASK)
        table = Table({array_column(model, path): X, LABEL: y, "task": tasks}, source=path.name)
        label_column, task_column = LABEL, "task"
    else:
        table = read_table(_checked(path))
    labels = np.array([as_label(cell) for cell in table.texts(label_column)])
    names = np.array(table.texts(task_column)) if task_column is not None else np.full(len(table), ONE_TASK)
    kept = np.flatnonzero(labels != "")
    if not kept.size:
        raise DataError(f"column '{label_column}' of {path} is empty: the support needs a label in some rows")
    return Labelled(table.take(kept), labels[kept], names[kept])


def _labelled_folder(folder: Path, column: str, task_column: str | None) -> Labelled:
    depth = 2 if task_column is None else 3
    files = list(files_below(folder))
    odd = next((path for path in files if len(path.parts) != depth), None)
    if odd is not None or not files:
        wanted = "class/file" if depth == 2 else "task/class/file"
        raise DataError(f"{folder} must hold {wanted} throughout, and it holds {odd or 'nothing'}")
    table = Table({column: [path.as_posix() for path in files]}, folder=folder, source=str(folder))
    tasks = [ONE_TASK if depth == 2 else path.parts[0] for path in files]
    return Labelled(table, np.array([path.parts[-2] for path in files]), np.array(tasks))


def query_chunks(path: Path, model: Model) -> Iterator[Table]:
    """The queries, some thousands at a time, with all their own columns."""
    if path.is_dir():
        files = [file.as_posix() for file in files_below(path)]
        if not files:
            raise DataError(f"{path} holds no files")
        whole = Table({_file_column(path, model): files}, folder=path, source=str(path))
        return _parts(whole)
    if path.suffix.lower() == ".npz":
        X = _array(read_npz(path), FEATURE_ARRAYS, path)
        return _parts(Table({array_column(model, path): X}, source=path.name))
    return read_chunks(_checked(path), rows=ROWS)


def chunk_count(path: Path) -> int | None:
    """How many chunks a file has, for the progress bar; None where counting would mean reading it all."""
    if path.is_dir() or path.suffix.lower() in (*PARQUET, ".npz"):
        return None
    with path.open("rb") as stream:
        lines = sum(block.count(b"\n") for block in iter(lambda: stream.read(1 << 16), b""))
    return max(1, -(-(lines - 1) // ROWS))


def transformed(table: Table, model: Model) -> tuple[np.ndarray, np.ndarray, list[BadRow]]:
    """Features of the good rows, their positions, and the bad rows."""
    if model.featuriser is None:
        return model.features(table.column(COLUMN_OF_FEATURES)), np.arange(len(table)), []
    return model.featuriser.transform(table)


COLUMN_OF_FEATURES = "x"


def array_column(model: Model, path: Path) -> str:
    if model.featuriser is None:
        return COLUMN_OF_FEATURES
    if model.featuriser.kind != "array":
        raise DataError(f"{path} holds arrays, and the model reads {model.featuriser.describe()}")
    return model.featuriser.columns[0]


def _file_column(path: Path, model: Model) -> str:
    featuriser: Featuriser | None = model.featuriser
    if featuriser is None or featuriser.kind not in ("images", "sound"):
        what = "features" if featuriser is None else featuriser.describe()
        raise DataError(f"{path} is a folder, and the model reads {what}: give a table")
    return featuriser.columns[0]


def _checked(path: Path) -> Path:
    if path.exists() and not is_table(path):
        raise DataError(f"{path} is no kind of file that is read here: use .csv, .tsv, .parquet, .npz or a folder")
    return path


def _array(arrays: dict[str, np.ndarray], names: tuple[str, ...], path: Path) -> np.ndarray:
    for name in names:
        if name in arrays:
            return arrays[name]
    raise DataError(f"{path} has no array {names[0]}: it has {listed(arrays)}")


def _parts(table: Table) -> Iterator[Table]:
    for start in range(0, len(table), ROWS):
        yield table.take(np.arange(start, min(start + ROWS, len(table))))
