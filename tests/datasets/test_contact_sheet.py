"""Contact sheets: every task and class is on them, and only image data have one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fewtask.datasets.contact_sheet import draw
from fewtask.datasets.rainbow import COLOURS, TRANSFORMS
from fewtask.datasets.rainbow_digits import SOURCE, Prepared
from fewtask.errors import DataError, RunError
from fewtask.pool import SPLITS, Dataset, TaskPool
from fewtask.settings import DataSettings


def colours_on(path: Path) -> set[tuple[int, ...]]:
    image_module = pytest.importorskip("PIL.Image")
    with image_module.open(path) as image:
        pixels = np.asarray(image.convert("RGB")).reshape(-1, 3)
    return {tuple(pixel) for pixel in np.unique(pixels, axis=0).tolist()}


def grey_pool(greys: range) -> TaskPool:
    """A class pool of three images a class, uniform in the grey that is the class's name."""
    rows = np.repeat(np.array(greys, dtype=np.uint8), 3)[:, None, None, None]
    classes = {str(grey): np.arange(3 * number, 3 * number + 3) for number, grey in enumerate(greys)}
    return TaskPool.class_pool(np.broadcast_to(rows, (len(rows), 3, 16, 16)).copy(), classes)


def test_a_contact_sheet_shows_each_task_of_fixed_tasks(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "sheets" / "digits.png"
    draw(SOURCE.build(Prepared({}), DataSettings()), out)
    used = {transform[0] for split in SPLITS for transform in TRANSFORMS[split]}
    assert {COLOURS[colour] for colour in used} <= colours_on(out)


def test_a_contact_sheet_shows_every_class_of_a_pool(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    dataset = Dataset(
        "greys", grey_pool(range(10, 22)), grey_pool(range(100, 116)), grey_pool(range(150, 170)), {"kind": "image"}
    )
    draw(dataset, tmp_path / "sheet.png")
    shown = colours_on(tmp_path / "sheet.png")
    assert {(grey, grey, grey) for grey in (*range(10, 22), *range(100, 116), *range(150, 170))} <= shown


def test_a_format_that_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pool = grey_pool(range(10, 12))
    with pytest.raises(RunError, match=r"name a file that ends in \.png"):
        draw(Dataset("greys", pool, pool, pool, {"kind": "image"}), tmp_path / "sheet.wav")


def test_data_that_are_no_images_have_no_contact_sheet(tmp_path: Path) -> None:
    pool = TaskPool.class_pool(np.zeros((4, 8), np.float32), {"a": [0, 1], "b": [2, 3]})
    with pytest.raises(DataError, match="'vectors' holds no images"):
        draw(Dataset("vectors", pool, pool, pool, {"kind": "vector"}), tmp_path / "sheet.png")
