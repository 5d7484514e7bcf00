"""A data set of a few numbers, for commands that are killed again and again: `--plugin toy.py`."""

from __future__ import annotations

import numpy as np

from fewtask.datasets import SOURCES
from fewtask.datasets.base import Prepared, Source
from fewtask.pool import Dataset, TaskPool
from fewtask.settings import DataSettings


def build(prepared: Prepared, settings: DataSettings) -> Dataset:
    """Ten tasks of two classes, eight rows of four numbers each."""
    rows = np.random.default_rng(0).normal(size=(160, 4)).astype(np.float32)
    index = np.arange(160).reshape(10, 2, 8)
    rows[index[:, 1].reshape(-1)] += 1.0
    tasks = [{f"t{task}": {"no": index[task, 0], "yes": index[task, 1]}} for task in range(10)]
    parts = [{name: classes for one in tasks[cut] for name, classes in one.items()} for cut in CUTS]
    return Dataset("toy", *(TaskPool.fixed(rows, part) for part in parts))


CUTS = (slice(0, 6), slice(6, 8), slice(8, 10))
SOURCES.register(Source("toy", "toy", "numbers", "none", "6 / 2 / 2 tasks of 2 classes", build))
