"""Fixed lists of episodes, the same for every method, so that comparisons are paired."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fewtask.pool import TaskPool
from fewtask.sampler import EpisodeSampler


@dataclass(frozen=True)
class EpisodeList:
    """A fixed list of episodes by row index: tasks [E], rows [E, K, N + Q] with the support first."""

    tasks: np.ndarray
    rows: np.ndarray
    shot: int


def draw_episodes(pool: TaskPool, episodes: int, way: int, shot: int, query: int, seed: int) -> EpisodeList:
    """The list that a seed stands for, whatever the method: the tasks in turn, so that each has its share."""
    sampler = EpisodeSampler(pool, (seed, 0xE7A1))
    tasks = np.arange(episodes) % len(pool.tasks)
    parts = [
        sampler.sample_index(len(chunk), way, shot, query, chunk)[2]
        for chunk in np.array_split(tasks, max(1, math.ceil(episodes / 500)))
    ]
    return EpisodeList(tasks, np.concatenate(parts), shot)
