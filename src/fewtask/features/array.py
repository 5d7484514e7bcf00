"""Arrays that are features already: vectors and images, standardised by the rows of the training tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fewtask.datasets.base import Progress, quiet
from fewtask.datasets.class_pools import UINT8_SCALE
from fewtask.errors import DataError
from fewtask.features.base import Featuriser, Transformed, good_rows
from fewtask.features.numbers import FURTHEST, LARGEST
from fewtask.features.table import Table

CHANNELS = (1, 3, 4)
SMALLEST_SIDE = 8


class Array(Featuriser):
    """A column that is an array [R, ...].

    Rows of three dimensions, and square ones of two, are images [channels, height, width]; channels that come last
    are moved to the front. Bytes stay bytes. Vectors are standardised number by number, images channel by channel.
    """

    kind = "array"

    def __init__(self, column: str = "x") -> None:
        self.columns = (column,)
        self.shape: tuple[int, ...] = ()
        self.bytes = False
        self.mean: np.ndarray = np.zeros(1)
        self.deviation: np.ndarray = np.ones(1)

    @property
    def scale(self) -> tuple[float, float]:  # type: ignore[override]
        return UINT8_SCALE if self.bytes else (0.0, 1.0)

    def fit(self, table: Table, rows: np.ndarray) -> None:
        values = self._values(table)
        self.shape = values.shape[1:]
        as_image = image_shape(self.shape) is not None
        self.bytes = values.dtype == np.uint8 and as_image
        if self.bytes:
            return
        part = arranged(values[rows]).astype(np.float64)
        axes = (0, 2, 3) if as_image else (0,)
        usable = np.where(np.abs(part) <= LARGEST, part, np.nan)
        seen = np.isfinite(usable).any(axis=axes)
        usable = np.where(seen.reshape(seen.shape + (1,) * (len(axes) - 1)), usable, 0.0)
        self.mean, deviation = np.nanmean(usable, axis=axes), np.nanstd(usable, axis=axes)
        self.deviation = np.where(deviation > 1e-12 * np.maximum(1.0, np.abs(self.mean)), deviation, 1.0)

    def transform(self, table: Table, progress: Progress = quiet) -> Transformed:
        values = self._values(table)
        if values.shape[1:] != self.shape:
            raise DataError(f"rows of shape {self.shape} are needed, as in training, and these are {values.shape[1:]}")
        if self.bytes:
            return self._bytes(table, values)
        rows = arranged(values).astype(np.float64)
        flat = rows.reshape(len(rows), -1)
        wrong = ~(np.abs(flat) <= LARGEST)
        bad = []
        for row in np.flatnonzero(wrong.any(axis=1)).tolist():
            place = int(wrong[row].argmax())
            bad.append(table.bad(row, f"{self.columns[0]}[{place}]", f"{flat[row, place]} is not a finite number"))
        good = good_rows(table, bad)
        trailing = (1,) * (rows.ndim - 1 - self.mean.ndim)
        mean, deviation = (a.reshape(*a.shape, *trailing) for a in (self.mean, self.deviation))
        standard = np.clip((rows[good] - mean) / deviation, -FURTHEST, FURTHEST)
        return standard.astype(np.float32), good, bad

    def _bytes(self, table: Table, values: np.ndarray) -> Transformed:
        if values.dtype != np.uint8:
            whole = values.astype(np.uint8, copy=False) if np.isfinite(values).all() else None
            if whole is None or not np.array_equal(whole, values):
                raise DataError("images of bytes from 0 to 255 are needed, as in training, and these are other numbers")
            values = whole
        return np.ascontiguousarray(arranged(values)), np.arange(len(values)), []

    def _values(self, table: Table) -> np.ndarray:
        values = np.asarray(table.column(self.columns[0]))
        if values.dtype.kind not in "fiub":
            raise DataError(f"'{self.columns[0]}' holds {values.dtype}, and an array of numbers is needed")
        if values.ndim < 2:
            raise DataError(f"'{self.columns[0]}' has shape {values.shape}, and [rows, features] is needed")
        return values

    def settings(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "column": self.columns[0],
            "shape": list(self.shape),
            "bytes": self.bytes,
            "mean": self.mean.tolist(),
            "deviation": self.deviation.tolist(),
        }

    @classmethod
    def from_settings(cls, values: Mapping[str, Any]) -> Array:
        made = cls(values["column"])
        made.shape, made.bytes = tuple(values["shape"]), bool(values["bytes"])
        made.mean, made.deviation = np.array(values["mean"]), np.array(values["deviation"])
        return made

    def describe(self) -> str:
        return f"arrays of shape {self.shape}" if self.shape else "arrays"


def image_shape(shape: tuple[int, ...]) -> tuple[int, int, int] | None:
    """[channels, height, width] of rows that are images, None of others."""
    if len(shape) == 2 and shape[0] == shape[1] and shape[0] >= SMALLEST_SIDE:
        return (1, *shape)
    if len(shape) != 3:
        return None
    if shape[0] not in CHANNELS and shape[2] in CHANNELS:
        shape = (shape[2], shape[0], shape[1])
    return shape if min(shape[1:]) >= SMALLEST_SIDE else None


def arranged(values: np.ndarray) -> np.ndarray:
    """[R, channels, height, width] of images, whichever way round; other rows as vectors [R, width]."""
    shape = image_shape(values.shape[1:])
    if shape is None:
        return values.reshape(len(values), -1)
    if values.ndim == 4 and values.shape[1:] != shape:
        return values.transpose(0, 3, 1, 2)
    return values.reshape(len(values), *shape)
