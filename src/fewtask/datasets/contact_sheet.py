"""A contact sheet of an image data set: one image of every task and class, or some of every class of a pool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fewtask import plotting
from fewtask.errors import DataError
from fewtask.pool import Dataset, TaskPool

PER_CLASS = 8
"""Images of each class of a class pool."""
GAP = 2
"""White pixels between images."""


def draw(dataset: Dataset, out: Path) -> None:
    """Write a PNG (or what `out` ends in): a column a split; a row a task, or a row a class of a class pool."""
    if dataset.features.get("kind") != "image":
        raise DataError(f"'{dataset.name}' holds no images: a contact sheet can only be drawn of image data")
    sheets = {split: _mosaic(pool) for split, pool in dataset.splits.items()}
    side = dataset.input_shape[-1] + GAP
    tallest = max(len(names) for _, names in sheets.values())
    # White below the shorter sheets shows all three at one scale.
    height, width = (max(mosaic.shape[axis] for mosaic, _ in sheets.values()) for axis in (0, 1))

    def paint(plt: Any) -> Any:
        size = (3 * (1.3 + 0.32 * (width // side)), 0.8 + 0.32 * tallest)
        figure, columns = plt.subplots(1, len(sheets), figsize=size, layout="constrained", squeeze=False)
        figure.suptitle(dataset.name)
        for axes, (split, (mosaic, names)) in zip(columns[0], sheets.items()):
            pool = dataset.split(split)
            kind = f"{len(pool.class_names)} classes" if pool.is_class_pool else f"{len(pool.tasks)} tasks"
            room = ((0, height - mosaic.shape[0]), (0, width - mosaic.shape[1]), (0, 0))
            axes.imshow(np.pad(mosaic, room, constant_values=255))
            axes.set_title(f"meta-{split.replace('train', 'training')}: {kind}", fontsize=10)
            axes.set_yticks([GAP / 2 + side * (row + 0.5) for row in range(len(names))], names, fontsize=7)
            axes.set_xticks([])
            axes.tick_params(length=0)
            axes.set_anchor("N")
            axes.spines[:].set_visible(False)
        return figure

    plotting.draw(paint, out)


def _mosaic(pool: TaskPool) -> tuple[np.ndarray, list[str]]:
    """The images of a split as one [height, width, 3] of uint8, and a name for each of its rows."""
    if pool.is_class_pool:
        names = [name.replace("_", " ") for name in pool.class_names]
        lines = [list(rows[:PER_CLASS]) for rows in pool.class_rows]
    else:
        names = [task.name for task in pool.tasks]
        lines = [[pool.class_rows[label][0] for label in task.classes] for task in pool.tasks]
    _, height, width = pool.input_shape
    columns = max(len(line) for line in lines)
    shape = (len(lines) * (height + GAP) + GAP, columns * (width + GAP) + GAP, 3)
    mosaic = np.full(shape, 255, dtype=np.uint8)
    for row, line in enumerate(lines):
        for column, image in enumerate(_images(pool, line)):
            top, left = GAP + row * (height + GAP), GAP + column * (width + GAP)
            mosaic[top : top + height, left : left + width] = image
    return mosaic, names


def _images(pool: TaskPool, rows: list[int]) -> np.ndarray:
    """[n, height, width, 3] of uint8; images that are not stored as bytes are stretched to their range."""
    images = pool.rows[np.asarray(rows)].cpu().numpy()
    if images.dtype != np.uint8:
        low, high = images.min(), images.max()
        images = ((images - low) / max(high - low, 1e-12) * 255.0).round().astype(np.uint8)
    images = images.transpose(0, 2, 3, 1)
    return images if images.shape[3] == 3 else images[..., :1].repeat(3, axis=3)
