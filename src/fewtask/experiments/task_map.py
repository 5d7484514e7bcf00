"""The map of tasks: three original tasks and 300 interpolated ones, each a set of class prototypes, in the plane.

PCA to 50 components, then t-SNE. All methods see the same rows, pairs of tasks and class pairings; what differs is
how a method interpolates and what it has learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fewtask.methods import Method
from fewtask.methods.metric import class_mean
from fewtask.pool import TaskPool
from fewtask.sampler import EpisodeSampler

ORIGINAL = 3
INTERPOLATED = 300
COMPONENTS = 50
PERPLEXITY = 30.0
SEED = 0x3A9


@dataclass(frozen=True)
class TaskPrototypes:
    """Prototypes [K, D] of a task; parents: one original task, or the two that were interpolated."""

    name: str
    prototypes: Tensor
    parents: tuple[int, ...]
    classes: tuple[str, ...]


@torch.no_grad()
def task_prototypes(method: Method, pool: TaskPool, interpolated: int = INTERPOLATED) -> list[TaskPrototypes]:
    """The original tasks first, then the interpolated ones, embedded by a trained method."""
    method.eval()
    e = method.settings.episode
    rng = np.random.default_rng(SEED)
    size = ORIGINAL if pool.is_class_pool else min(ORIGINAL, len(pool.tasks))
    groups = EpisodeSampler(pool, SEED).sample_groups(1, e.way, e.shot, 0, size)
    classes = [group.classes[0].numpy() for group in groups]
    # A draw from a class pool has no name of its own.
    names = [f"task {i + 1}" if pool.is_class_pool else pool.tasks[int(g.tasks[0])].name for i, g in enumerate(groups)]
    tasks = []
    for index, own in enumerate(classes):
        rows = method.embed(pool.gather(_draw(pool, own, e.shot, rng)).flatten(0, 1))
        prototypes = class_mean(rows.view(1, e.way, e.shot, -1))[0]
        tasks.append(TaskPrototypes(names[index], prototypes, (index,), _names(pool, [own])))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        for _ in range(interpolated):
            first, second = (int(i) for i in rng.permutation(size)[:2])
            pair = [classes[first], rng.permutation(classes[second])]
            supports = [pool.gather(_draw(pool, own, e.shot, rng)) for own in pair]
            prototypes = method.interpolated_prototypes(supports)
            name = f"{names[first]} + {names[second]}"
            tasks.append(TaskPrototypes(name, prototypes, (first, second), _names(pool, pair)))
    return tasks


def task_map(method: Method, pool: TaskPool, interpolated: int = INTERPOLATED) -> dict[str, Any]:
    """Points in the plane with what they are, ready for JSON; `points` holds [x, y, task, class]."""
    tasks = task_prototypes(method, pool, interpolated)
    plane = project(torch.cat([task.prototypes for task in tasks]).double().numpy())
    way = len(tasks[0].prototypes)
    points = [[round(float(x), 3), round(float(y), 3), i // way, i % way] for i, (x, y) in enumerate(plane)]
    originals = [task for task in tasks if len(task.parents) == 1]
    return {
        "dataset": method.settings.dataset,
        "method": method.settings.method,
        "seed": method.settings.seed,
        "originals": [{"name": task.name, "classes": list(task.classes)} for task in originals],
        "parents": [list(task.parents) for task in tasks],
        "points": points,
    }


def project(prototypes: np.ndarray) -> np.ndarray:
    """[P, D] -> [P, 2] by PCA to 50 components and t-SNE."""
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    components = min(COMPONENTS, *prototypes.shape)
    reduced = PCA(components, random_state=0).fit_transform(prototypes)
    perplexity = min(PERPLEXITY, (len(prototypes) - 1) / 3)
    flat: np.ndarray = TSNE(2, perplexity=perplexity, init="pca", random_state=0).fit_transform(reduced)
    return flat


def _draw(pool: TaskPool, classes: np.ndarray, shot: int, rng: np.random.Generator) -> np.ndarray:
    """[K, N] rows of the given classes."""
    return np.stack([rng.choice(pool.class_rows[int(c)], shot, replace=False) for c in classes])


def _names(pool: TaskPool, members: Sequence[np.ndarray]) -> tuple[str, ...]:
    return tuple(" + ".join(pool.class_names[int(c)] for c in pair) for pair in zip(*members))
