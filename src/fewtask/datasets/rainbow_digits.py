"""Rainbow digits: the embedded default, made from scikit-learn's handwritten digits. No download.

There are about 180 images a class, so the tasks of one split share images while the splits share none:
60 / 15 / 25 % of each class. Images are enlarged from 8x8 to 16x16, the smallest size that Conv4 halves four
times.
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from fewtask.datasets.base import Prepared, Source
from fewtask.datasets.rainbow import TRANSFORMS, paint, task_name
from fewtask.pool import SPLITS, Dataset, TaskPool
from fewtask.settings import DataSettings

SIDE = 16
SHARES = {"train": 0.60, "validation": 0.15, "test": 0.25}


def build(prepared: Prepared, settings: DataSettings) -> Dataset:
    from sklearn.datasets import load_digits

    bundle = load_digits()
    small = torch.from_numpy(bundle.images.astype(np.float32))[:, None] * (255.0 / 16.0)
    ink = F.interpolate(small, size=SIDE, mode="bilinear", align_corners=False)[:, 0]
    images = ink.round().clamp(0, 255).to(torch.uint8).numpy()
    rng = np.random.default_rng(settings.seed)
    members: dict[str, dict[int, np.ndarray]] = {split: {} for split in SPLITS}
    for digit in range(10):
        index = rng.permutation(np.flatnonzero(bundle.target == digit))
        first = round(len(index) * SHARES["train"])
        second = first + round(len(index) * SHARES["validation"])
        for split, part in zip(SPLITS, np.split(index, [first, second])):
            members[split][digit] = part[: settings.max_per_class]
    pools = {split: _pool(images, members[split], split) for split in SPLITS}
    features = {"kind": "image", "size": SIDE, "channels": 3}
    return Dataset("rainbow-digits", pools["train"], pools["validation"], pools["test"], features)


def _pool(images: np.ndarray, members: dict[int, np.ndarray], split: str) -> TaskPool:
    rows: list[np.ndarray] = []
    tasks: dict[str, dict[str, np.ndarray]] = {}
    start = 0
    for transform in TRANSFORMS[split]:
        classes = {}
        for digit, index in members.items():
            rows.append(paint(images[index], transform))
            classes[str(digit)] = np.arange(start, start + len(index))
            start += len(index)
        tasks[task_name(transform)] = classes
    return TaskPool.fixed(np.concatenate(rows), tasks, scale=(127.5, 1 / 127.5))


SOURCE = Source(
    name="rainbow-digits",
    title="scikit-learn's digits on coloured backgrounds, in the way of Rainbow-MNIST",
    domain="image",
    licence="CC BY 4.0 (UCI optical recognition of handwritten digits)",
    splits="16 / 6 / 10 tasks of 10 classes",
    build=build,
)
