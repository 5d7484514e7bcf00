"""Mini-ImageNet-S: 12 of Mini-ImageNet's meta-training classes, and all of its validation and test classes.

The images are ImageNet's, whose terms allow no public copy: users bring the folder, with the csv files of Ravi
and Larochelle beside `images`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from fewtask.bounds import check_pixels, regular_file
from fewtask.datasets.base import Prepared, Progress, RawFile, Source
from fewtask.datasets.class_pools import UINT8_SCALE, class_pools
from fewtask.datasets.tables import read_table
from fewtask.errors import DataError
from fewtask.pool import Dataset
from fewtask.settings import DataSettings
from fewtask.threads import usable_cores

TRAIN_CLASSES = (
    "n03017168", "n07697537", "n02108915", "n02113712", "n02120079", "n04509417",
    "n02089867", "n03888605", "n04258138", "n03347037", "n02606052", "n06794110",
)  # fmt: skip
TABLES = {"train": "train.csv", "validation": "val.csv", "test": "test.csv"}
SIDE = 84


def read_list(path: Path) -> list[tuple[str, str]]:
    """File name and class of each line of a csv file."""
    needed = {"filename": ("filename",), "label": ("label",)}
    rows = read_table(path, needed, "'mini-imagenet-s' needs the three csv files of Ravi and Larochelle")
    return [(line["filename"], line["label"]) for _, line in rows]


def read_image(path: Path) -> np.ndarray:
    """A JPEG as [3, 84, 84] of uint8; one of another size is resized."""
    try:
        from PIL import Image
    except ImportError as error:
        raise DataError('reading JPEG files needs Pillow: pip install "fewtask[images]"') from error
    try:
        regular_file(path)
        with Image.open(path, formats=["JPEG"]) as opened:
            check_pixels(path, *opened.size)
            image = opened.convert("RGB")
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing, although a csv file lists it") from error
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} is not a readable JPEG ({type(error).__name__}): replace the file") from error
    if image.size != (SIDE, SIDE):
        image = image.resize((SIDE, SIDE), Image.Resampling.LANCZOS)
    return np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1))


def prepare(raw: Path, settings: DataSettings, progress: Progress) -> Prepared:
    tables = {split: read_list(raw / name) for split, name in TABLES.items()}
    classes: dict[str, list[str]] = {"train": list(TRAIN_CLASSES)}
    for split in ("validation", "test"):
        classes[split] = sorted({label for _, label in tables[split]})
    tables["train"] = [line for line in tables["train"] if line[1] in TRAIN_CLASSES]
    missing = sorted(set(TRAIN_CLASSES) - {label for _, label in tables["train"]})
    if missing:
        raise DataError(f"{raw / TABLES['train']} lists no image of {', '.join(missing)}, which the paper trains on")
    arrays: dict[str, np.ndarray] = {}
    info: dict[str, Any] = {"classes": classes, "images": {}}
    for split, lines in tables.items():
        arrays[split] = _decode([raw / "images" / name for name, _ in lines], split, progress)
        numbers = {label: number for number, label in enumerate(classes[split])}
        arrays[f"{split}_labels"] = np.array([numbers[label] for _, label in lines], dtype=np.int16)
        info["images"][split] = len(lines)
    return Prepared(arrays, info)


def _decode(paths: list[Path], split: str, progress: Progress) -> np.ndarray:
    """[R, 3, 84, 84] images. Pillow lets other threads run while it decodes, so threads use every core."""
    rows = np.empty((len(paths), 3, SIDE, SIDE), dtype=np.uint8)
    with ThreadPoolExecutor(usable_cores()) as threads:
        try:
            decoded = progress(threads.map(read_image, paths), f"decoding {split} images", len(paths))
            for row, image in zip(rows, decoded):
                row[:] = image
        except BaseException:
            # Otherwise leaving the block would first decode all that is still waiting.
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    return rows


def build(prepared: Prepared, settings: DataSettings) -> Dataset:
    pools = class_pools("mini-imagenet-s", prepared, prepared.info["classes"], settings, UINT8_SCALE)
    features = {"kind": "image", "size": SIDE, "channels": 3}
    return Dataset("mini-imagenet-s", pools["train"], pools["validation"], pools["test"], features)


SOURCE = Source(
    name="mini-imagenet-s",
    title="Mini-ImageNet with 12 meta-training classes",
    domain="image",
    licence="ImageNet's terms: non-commercial research, no redistribution",
    splits="12 / 16 / 20 classes",
    build=build,
    prepare=prepare,
    folder="mini_imagenet",
    files=(*(RawFile(name) for name in TABLES.values()), RawFile("images")),
    needs="images",
)
