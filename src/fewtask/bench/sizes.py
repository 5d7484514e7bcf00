"""The sizes of the paper's data sets: random rows of their shapes, with the settings of their presets."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fewtask.errors import unknown
from fewtask.pool import TaskPool
from fewtask.presets import load_preset
from fewtask.settings import RunSettings, update


@dataclass(frozen=True)
class Size:
    """A data set's shape: its preset, the shape of a row, and how many tasks, classes and rows a split has.

    tasks is 1 for a class pool. changes replaces settings of the preset.
    """

    preset: str
    title: str
    input_shape: tuple[int, ...]
    tasks: int
    classes: int
    rows: int
    test_tasks: int
    test_classes: int
    changes: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def settings(self, method: str = "meta-interpolation", **changes: Mapping[str, Any]) -> RunSettings:
        """The preset's settings for a method, with this size's changes and the caller's groups on top."""
        return update(update(load_preset(self.preset, method), self.changes), changes)

    def pool(self, split: str = "train", seed: int = 0) -> TaskPool:
        """Random bytes with the split's shape, for the molecules random bits."""
        tasks, classes = (self.tasks, self.classes) if split == "train" else (self.test_tasks, self.test_classes)
        rng = np.random.default_rng(seed)
        high = 2 if len(self.input_shape) == 1 else 256
        rows = rng.integers(0, high, (tasks * classes * self.rows, *self.input_shape), dtype=np.uint8)
        index = np.arange(len(rows)).reshape(tasks, classes, self.rows)
        names = {f"task {t}": {f"class {k}": index[t, k] for k in range(classes)} for t in range(tasks)}
        scale = (0.0, 1.0 if high == 2 else 1.0 / 255)
        if tasks == 1:
            return TaskPool.class_pool(torch.from_numpy(rows), names["task 0"], scale)
        return TaskPool.fixed(torch.from_numpy(rows), names, scale)

    def changed(self, **changes: Mapping[str, Any]) -> Size:
        """The same size with some settings replaced: changed(episode={"shot": 10})."""
        merged = {group: dict(values) for group, values in self.changes.items()}
        for group, values in changes.items():
            merged.setdefault(group, {}).update(values)
        return dataclasses.replace(self, changes=merged)

    def small(self) -> Size:
        """The same structure at a size for tests: narrow layers, small images, few episodes."""
        shape = (math.prod(self.input_shape) // 40,) if len(self.input_shape) == 1 else (3, 16, 16)
        episode = self.settings().episode
        narrow = {
            "encoder": {"width": 12 if len(shape) == 1 else 4},
            "set_function": {"hidden": 16},
            "episode": {"batch": 2, "shot": min(episode.shot, 3), "query": min(episode.query, 2)},
        }
        smaller = dataclasses.replace(self, input_shape=shape, rows=20)
        return smaller.changed(**narrow)


SIZES: dict[str, Size] = {
    size.preset.removesuffix("-5shot"): size
    for size in (
        Size("tox21", "Tox21", (1024,), tasks=6, classes=2, rows=400, test_tasks=4, test_classes=2),
        Size("nci", "NCI", (1024,), tasks=4, classes=2, rows=500, test_tasks=3, test_classes=2),
        Size("metabolism", "Metabolism", (1024,), tasks=3, classes=2, rows=500, test_tasks=3, test_classes=2),
        Size("esc50", "ESC-50", (640,), tasks=1, classes=20, rows=40, test_tasks=1, test_classes=15),
        Size("glue-scitail", "GLUE-SciTail", (1536,), tasks=2, classes=2, rows=500, test_tasks=1, test_classes=2),
        Size("rmnist", "RMNIST", (3, 28, 28), tasks=16, classes=10, rows=100, test_tasks=10, test_classes=10),
        *(
            Size(f"{preset}-{shot}shot", title + " 1-shot" * (shot == 1), shape, 1, 12, 600, 1, 20)
            for preset, title, shape in (
                ("cifar100-fs", "CIFAR-100-FS", (3, 32, 32)),
                ("mini-imagenet-s", "Mini-ImageNet-S", (3, 84, 84)),
            )
            for shot in (1, 5)
        ),
    )
}


def get_size(name: str) -> Size:
    if name not in SIZES:
        raise unknown("size", name, SIZES)
    return SIZES[name]
