"""What users hand over in Python, as tables and arrays: NumPy, pandas, polars, torch, lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fewtask.errors import InputError, unknown
from fewtask.features import FEATURISERS, BadRow, Featuriser, Table
from fewtask.features.numbers import Numbers
from fewtask.features.table import as_text
from fewtask.own import OwnData


def as_array(values: Any) -> np.ndarray:
    """Anything that is numbers or text in a row, as an array; a tensor is taken off its graph and device."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    if hasattr(values, "to_numpy"):
        values = values.to_numpy()
    return np.asarray(values)


def is_frame(values: Any) -> bool:
    """Named columns: a pandas or polars frame, or a mapping."""
    return isinstance(values, Mapping) or (hasattr(values, "columns") and hasattr(values, "to_numpy"))


def frame_table(frame: Any, source: str = "X") -> Table:
    """A table of a frame's columns."""
    return Table({str(name): as_array(frame[name]) for name in getattr(frame, "columns", frame)}, source=source)


def as_table(X: Any, featuriser: Featuriser) -> Table:
    """X as the table that a featuriser reads: by column names where it has them, else by their order."""
    if isinstance(X, Table):
        return X
    names = featuriser.columns
    if is_frame(X):
        if featuriser.kind != "array":
            return frame_table(X)
        X = frame_table(X).columns
        X = np.column_stack([np.asarray(column) for column in X.values()])
    values = as_array(X)
    if featuriser.kind == "array" or (len(names) == 1 and values.ndim != 2):
        return Table({names[0]: values}, source="X")
    if values.ndim == 2 and values.shape[1] == len(names):
        return Table({name: values[:, place] for place, name in enumerate(names)}, source="X")
    raise InputError(
        f"the model reads {len(names)} columns ({', '.join(names[:5])}), and X has shape {values.shape}: give a frame "
        "with these columns"
    )


def own_data(X: Any, y: Any, groups: Any = None, features: str | Featuriser | None = None) -> OwnData:
    """Rows, labels and tasks as own data.

    features: what X holds, where it is not numbers: "molecules", "text", "images", "sound", or a featuriser.
    """
    if features is None and not is_frame(X):
        return OwnData.from_arrays(as_array(X), as_array(y), None if groups is None else as_array(groups))
    if features is None:
        table = frame_table(X)
        featuriser: Featuriser = Numbers(table.names)
    else:
        featuriser = features if isinstance(features, Featuriser) else _featuriser(features)
        table = as_table(X, featuriser)
    labels = np.array([as_text(label) for label in as_labels(y, len(table))])
    tasks = None if groups is None else np.array([as_text(task) for task in as_labels(groups, len(table))])
    return OwnData("arrays", table, np.arange(len(table)), labels, tasks, featuriser)


def _featuriser(kind: str) -> Featuriser:
    if kind not in FEATURISERS:
        raise unknown("kind of input", kind, FEATURISERS)
    made: Featuriser = FEATURISERS[kind]("x") if kind != "text" else FEATURISERS[kind](["x"])  # type: ignore[call-arg]
    return made


def feature_rows(X: Any, featuriser: Featuriser) -> np.ndarray:
    """Features [M, ...] of all rows of X; a row that cannot be used is refused by its number."""
    table = as_table(X, featuriser)
    if not len(table):
        raise InputError("X has no rows")
    features, good, bad = featuriser.transform(table)
    refuse_bad(bad)
    assert len(good) == len(features)
    return features


def refuse_bad(bad: list[BadRow]) -> None:
    if bad:
        raise InputError(f"{len({row.row for row in bad})} rows of X cannot be used: {bad[0]}")


def as_labels(y: Any, rows: int) -> np.ndarray:
    """[rows] labels, numbers or text."""
    labels = as_array(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise InputError(f"y has shape {labels.shape}: one label a row is needed")
    if len(labels) != rows:
        raise InputError(f"X has {rows} rows and y {len(labels)}: give one label for each row")
    return labels
