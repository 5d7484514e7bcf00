"""CIFAR-100-FS: fine classes of CIFAR-100, 0 to 11 for meta-training, 64 to 79 and 80 to 99 for the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fewtask.datasets.base import Prepared, Progress, RawFile, Source
from fewtask.datasets.class_pools import UINT8_SCALE, class_pools
from fewtask.datasets.pickled import read_pickle
from fewtask.errors import DataError
from fewtask.pool import SPLITS, Dataset
from fewtask.settings import DataSettings

CLASSES = {"train": range(12), "validation": range(64, 80), "test": range(80, 100)}
FINE = 100
SIDE = 32
ARCHIVE = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
MD5 = "md5:eb9058c3a382ffc7106e4002c42a8d85"
FOLDER = "cifar-100-python"


def prepare(raw: Path, settings: DataSettings, progress: Progress) -> Prepared:
    names = _names(raw / FOLDER / "meta")
    images, labels = [], []
    for part in progress(("train", "test"), "reading CIFAR-100", 2):
        path = raw / FOLDER / part
        data, fine = _read(path, b"data", b"fine_labels")
        if not isinstance(fine, list) or not all(isinstance(label, int) and 0 <= label < FINE for label in fine):
            raise DataError(f"{path} has fine labels that are no numbers below {FINE}: fetch it again")
        if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape != (len(fine), 3 * SIDE * SIDE):
            raise DataError(f"{path} does not hold {len(fine)} images of 3x{SIDE}x{SIDE} bytes: fetch it again")
        images.append(data.reshape(-1, 3, SIDE, SIDE))
        labels.append(np.array(fine, dtype=np.int64))
    rows, fine_labels = np.concatenate(images), np.concatenate(labels)
    arrays: dict[str, np.ndarray] = {}
    info: dict[str, Any] = {"classes": {}}
    for split in SPLITS:
        kept = np.flatnonzero(np.isin(fine_labels, CLASSES[split]))
        arrays[split] = rows[kept]
        arrays[f"{split}_labels"] = (fine_labels[kept] - CLASSES[split][0]).astype(np.int16)
        info["classes"][split] = [names[label] for label in CLASSES[split]]
    return Prepared(arrays, info)


def _names(path: Path) -> list[str]:
    names = _read(path, b"fine_label_names")[0]
    if not isinstance(names, list) or len(names) != FINE or not all(isinstance(name, bytes) for name in names):
        raise DataError(f"{path} does not name {FINE} fine classes: fetch it again")
    return [name.decode("latin1") for name in names]


def _read(path: Path, *keys: bytes) -> list[Any]:
    if not path.is_file():
        raise DataError(f"{path} is missing: 'cifar100-fs' needs the folder {FOLDER} of the publisher's archive")
    content = read_pickle(path)
    if not isinstance(content, dict) or any(key not in content for key in keys):
        wanted = " and ".join(key.decode() for key in keys)
        raise DataError(f"{path} has no {wanted}: use the publisher's file")
    return [content[key] for key in keys]


def build(prepared: Prepared, settings: DataSettings) -> Dataset:
    pools = class_pools("cifar100-fs", prepared, prepared.info["classes"], settings, UINT8_SCALE)
    features = {"kind": "image", "size": SIDE, "channels": 3}
    return Dataset("cifar100-fs", pools["train"], pools["validation"], pools["test"], features)


SOURCE = Source(
    name="cifar100-fs",
    title="CIFAR-100-FS with 12 meta-training classes",
    domain="image",
    licence="no licence stated; free for research (Krizhevsky, 2009)",
    splits="12 / 16 / 20 classes of 600 images",
    build=build,
    prepare=prepare,
    folder="cifar100",
    files=tuple(RawFile(f"{FOLDER}/{part}", ARCHIVE, MD5, "tar") for part in ("train", "test", "meta")),
)
