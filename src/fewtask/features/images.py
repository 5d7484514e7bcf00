"""Pictures, named by their paths: pixels for a convolutional encoder, or a classic feature for the others.

The classic feature needs no pretrained file: histograms of oriented gradients, which see outlines, and of colours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from fewtask.bounds import check_pixels
from fewtask.datasets.base import Progress, quiet
from fewtask.datasets.class_pools import UINT8_SCALE
from fewtask.errors import DataError, unknown
from fewtask.features.base import Featuriser, Transformed
from fewtask.features.files import read_files
from fewtask.features.gradients import SIDE, classic_features
from fewtask.features.table import Table

FEATURES = ("classic", "pixels")
ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
SMALLEST, LARGEST = 16, 84
LOOKED_AT = 50
"""Pictures whose sizes choose the side of the square."""


class Images(Featuriser):
    """A column of paths to pictures.

    features: `classic` [R, 1860] or `pixels` [R, 3, size, size] of bytes.
    size:     side of the square that pictures are cut and scaled to; unset: that of the training pictures, 16 to 84.
    """

    kind = "images"
    extra = "images"

    def __init__(self, column: str, features: str | None = None, size: int | None = None) -> None:
        if (features or FEATURES[0]) not in FEATURES:
            raise unknown("feature of pictures", str(features), FEATURES)
        self.columns = (column,)
        self.features = features or FEATURES[0]
        if size is not None and not 8 <= size <= 512:
            raise DataError(f"pictures can be scaled to squares of 8 to 512 pixels, not {size}")
        self.size = SIDE if self.features == "classic" else size

    @property
    def scale(self) -> tuple[float, float]:  # type: ignore[override]
        return UINT8_SCALE if self.features == "pixels" else (0.0, 1.0)

    def fit(self, table: Table, rows: np.ndarray) -> None:
        if self.size is not None:
            return
        pillow()
        few = table.take(rows[np.linspace(0, len(rows) - 1, min(LOOKED_AT, len(rows))).astype(int)])
        sides, _, _ = read_files(few, self.columns[0], _shorter_side, quiet, "looking at pictures")
        typical = int(np.median(sides)) if len(sides) else LARGEST
        self.size = min(max(typical, SMALLEST), LARGEST)

    def transform(self, table: Table, progress: Progress = quiet) -> Transformed:
        assert self.size is not None, "fit comes first"
        # Here, because a missing library is no fault of any row.
        pillow()
        read: Callable[[Path], np.ndarray] = partial(read_picture, size=self.size)
        if self.features == "pixels":
            rows, good, bad = read_files(table, self.columns[0], read, progress, "reading pictures")
            return np.stack(rows) if rows else np.zeros((0, 3, self.size, self.size), np.uint8), good, bad
        rows, good, bad = read_files(
            table, self.columns[0], lambda path: classic_features(read(path)), progress, "reading pictures"
        )
        return np.stack(rows) if rows else np.zeros((0, 0), np.float32), good, bad

    def settings(self) -> dict[str, Any]:
        return {"kind": self.kind, "column": self.columns[0], "features": self.features, "size": self.size}

    @classmethod
    def from_settings(cls, values: Mapping[str, Any]) -> Images:
        return cls(values["column"], values["features"], values["size"])

    def describe(self) -> str:
        what = f"pixels, {self.size or 'as large as they are'}" if self.features == "pixels" else "classic features"
        return f"pictures named in column '{self.columns[0]}' ({what})"


def read_picture(path: Path, size: int) -> np.ndarray:
    """[3, size, size] bytes: the middle square of the picture, upright, scaled."""
    image_module, operations = pillow()
    with _opened(path) as opened:
        picture = operations.exif_transpose(opened)
        if picture.mode.startswith("I"):
            # 16 bits of grey: Pillow would cut them off at 255.
            picture = picture.point(lambda value: value / 256).convert("L")
        fitted = operations.fit(picture.convert("RGB"), (size, size), image_module.Resampling.LANCZOS)
    return np.ascontiguousarray(np.asarray(fitted).transpose(2, 0, 1))


def _shorter_side(path: Path) -> int:
    with _opened(path) as opened:
        return int(min(opened.size))


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """A loaded Pillow image, or a DataError with the reason alone: who asked knows the place."""
    image_module, _ = pillow()
    try:
        with image_module.open(path, formats=FORMATS) as opened:
            check_pixels(path, opened.width, opened.height)
            opened.load()
            yield opened
    except (OSError, ValueError, SyntaxError, EOFError, image_module.DecompressionBombError) as error:
        raise DataError(f"{path} is no picture that can be read") from error


def pillow() -> tuple[Any, Any]:
    try:
        from PIL import Image, ImageOps
    except ImportError as error:
        raise DataError('pictures are read with Pillow: pip install "fewtask[images]"') from error
    return Image, ImageOps
