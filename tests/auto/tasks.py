"""Small tasks for the tests of auto: those that one direction divides, and those whose labels are chance."""

from __future__ import annotations

from typing import Any

import numpy as np

from fewtask.pool import Dataset, TaskPool
from fewtask.settings import RunSettings, update

WIDTH = 12


def pool_of_tasks(tasks: int = 6, rows: int = 24, seed: int = 0, chance: bool = False) -> TaskPool:
    """Two classes a task, apart in two of the twelve numbers that all tasks share; the others are louder noise."""
    rng = np.random.default_rng(seed)
    labels = np.arange(tasks * rows) % 2
    x = rng.normal(size=(tasks * rows, WIDTH)) * 3.0
    task = np.repeat(np.arange(tasks), rows)
    angle = rng.uniform(0, 2 * np.pi, tasks)[task]
    x[:, 0] = np.cos(angle) * (2 * labels - 1) + rng.normal(size=len(x)) * 0.3
    x[:, 1] = np.sin(angle) * (2 * labels - 1) + rng.normal(size=len(x)) * 0.3
    if chance:
        x = rng.normal(size=x.shape)
    named = {
        f"task {t}": {name: np.flatnonzero((task == t) & (labels == c)) for c, name in enumerate(("no", "yes"))}
        for t in range(tasks)
    }
    return TaskPool.fixed(x.astype(np.float32), named)


def pool_of_classes(classes: int = 11, rows: int = 8, seed: int = 0) -> TaskPool:
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(classes, WIDTH))
    x = np.repeat(means, rows, axis=0) + rng.normal(size=(classes * rows, WIDTH)) * 0.5
    index = np.arange(classes * rows).reshape(classes, rows)
    return TaskPool.class_pool(x.astype(np.float32), {f"class {c}": index[c] for c in range(classes)})


def dataset(pool: TaskPool, validation: int = 2) -> Dataset:
    """The last tasks, or classes, as validation."""
    count = len(pool.class_names) if pool.is_class_pool else len(pool.tasks)
    cut = count - validation
    return Dataset("toy", pool.subset(range(cut)), pool.subset(range(cut, count)))


def base(**changes: Any) -> RunSettings:
    settings = update(
        RunSettings(dataset="toy"),
        {
            "episode": {"way": 2, "shot": 2, "query": 3, "batch": 2},
            "encoder": {"name": "mlp", "width": 8},
            "evaluation": {"query": 3},
            "optimizer": {"lr": 0.01},
        },
    )
    return update(settings, changes)
