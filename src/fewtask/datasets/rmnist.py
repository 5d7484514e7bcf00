"""RMNIST: MNIST's digits in 56 disjoint sub-datasets, each with a colour, a size and an angle of its own.

Training and test images are merged and 5,600 a class are drawn and dealt to the 56 sub-datasets, 100 a class
each; the paper's 16 / 6 / 10 of them are the tasks.
"""

from __future__ import annotations

import itertools
import struct
from pathlib import Path

import numpy as np

from fewtask.bounds import gunzip
from fewtask.datasets.base import Prepared, Progress, RawFile, Source
from fewtask.datasets.class_pools import UINT8_SCALE
from fewtask.datasets.rainbow import ANGLES, COLOURS, SIZES, TRANSFORMS, Transform, paint, task_name
from fewtask.errors import DataError
from fewtask.pool import SPLITS, Dataset, TaskPool
from fewtask.settings import DataSettings

SUB_DATASETS: tuple[Transform, ...] = tuple(itertools.product(COLOURS, SIZES, ANGLES))
PER_CLASS = 100
SIDE = 28
ADDRESS = "https://ossci-datasets.s3.amazonaws.com/mnist/"
SHA256 = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}


def read_idx(path: Path) -> np.ndarray:
    """The array of unsigned bytes in a gzipped idx file."""
    try:
        content = gunzip(path)
        zeros, kind, dimensions = struct.unpack(">HBB", content[:4])
        shape = struct.unpack(f">{dimensions}I", content[4 : 4 + 4 * dimensions])
        if zeros != 0 or kind != 8:
            raise ValueError("its header is not that of unsigned bytes")
        return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing: 'rmnist' needs MNIST's four .gz files") from error
    except (struct.error, ValueError) as error:
        raise DataError(f"{path} is damaged or is no gzipped idx file ({error}): fetch it again") from error


def prepare(raw: Path, settings: DataSettings, progress: Progress) -> Prepared:
    images, labels = [], []
    for part in ("train", "t10k"):
        images.append(read_idx(raw / f"{part}-images-idx3-ubyte.gz"))
        labels.append(read_idx(raw / f"{part}-labels-idx1-ubyte.gz"))
        if images[-1].shape != (len(labels[-1]), SIDE, SIDE):
            raise DataError(
                f"{raw / part}-images-idx3-ubyte.gz holds {images[-1].shape} where {len(labels[-1])} images of "
                f"{SIDE}x{SIDE} are needed: fetch MNIST's files again"
            )
    arrays = {"images": np.concatenate(images), "labels": np.concatenate(labels)}
    return Prepared(arrays, {"images": len(arrays["labels"])})


def deal(labels: np.ndarray, seed: int) -> np.ndarray:
    """[56, 10, 100] image indices, no image twice: the seed alone decides which image goes where."""
    rng = np.random.default_rng(seed)
    need = len(SUB_DATASETS) * PER_CLASS
    dealt = np.empty((len(SUB_DATASETS), 10, PER_CLASS), dtype=np.int64)
    for digit in range(10):
        members = np.flatnonzero(labels == digit)
        if len(members) < need:
            raise DataError(f"'rmnist' needs {need} images of each digit, and MNIST here has {len(members)} of {digit}")
        dealt[:, digit] = rng.permutation(members)[:need].reshape(len(SUB_DATASETS), PER_CLASS)
    return dealt


def build(prepared: Prepared, settings: DataSettings) -> Dataset:
    dealt = deal(prepared.arrays["labels"], settings.seed)[:, :, : settings.max_per_class]
    pools = {split: _pool(prepared.arrays["images"], dealt, split) for split in SPLITS}
    features = {"kind": "image", "size": SIDE, "channels": 3}
    return Dataset("rmnist", pools["train"], pools["validation"], pools["test"], features)


def _pool(images: np.ndarray, dealt: np.ndarray, split: str) -> TaskPool:
    per_class = dealt.shape[2]
    rows = np.empty((len(TRANSFORMS[split]) * 10 * per_class, 3, SIDE, SIDE), dtype=np.uint8)
    tasks = {}
    for number, transform in enumerate(TRANSFORMS[split]):
        start = number * 10 * per_class
        chosen = images[dealt[SUB_DATASETS.index(transform)].reshape(-1)]
        rows[start : start + len(chosen)] = paint(chosen, transform)
        tasks[task_name(transform)] = {
            str(digit): np.arange(start + digit * per_class, start + (digit + 1) * per_class) for digit in range(10)
        }
    return TaskPool.fixed(rows, tasks, UINT8_SCALE)


SOURCE = Source(
    name="rmnist",
    title="Rainbow-MNIST: MNIST's digits on coloured backgrounds, at two sizes and four angles",
    domain="image",
    licence="CC BY-SA 3.0 (MNIST, LeCun, Cortes and Burges)",
    splits="16 / 6 / 10 tasks of 10 classes",
    build=build,
    prepare=prepare,
    folder="mnist",
    files=tuple(RawFile(name, ADDRESS + name, f"sha256:{known}") for name, known in SHA256.items()),
)
