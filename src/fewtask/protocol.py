"""Fixed lists of episodes for the choice of weights and for meta-test.

They depend on data and settings alone, never on the method or the seed of a run, so that comparisons are paired.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fewtask.errors import TaskError
from fewtask.pool import Pools, TaskPool
from fewtask.sampler import EpisodeSampler
from fewtask.settings import RunSettings


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


def selection_episodes(settings: RunSettings, pools: Pools) -> EpisodeList:
    """The validation episodes that choose weights."""
    return _by_settings(settings, pools.selection, settings.train.validation_episodes)


def meta_test_episodes(settings: RunSettings, pools: Pools) -> EpisodeList:
    """The episodes of meta-test."""
    if pools.test is None:
        raise TaskError(f"'{settings.dataset}' has no test tasks")
    return _by_settings(settings, pools.test, settings.evaluation.episodes)


def check_episodes(settings: RunSettings, pools: Pools, test: bool) -> None:
    """Refuses episodes that the data cannot give, before hours of training: one of each task is tried."""
    for pool in (pools.selection, pools.test) if test else (pools.selection,):
        if pool is not None:
            _by_settings(settings, pool, len(pool.tasks))


def _by_settings(settings: RunSettings, pool: TaskPool, episodes: int) -> EpisodeList:
    e, v = settings.episode, settings.evaluation
    return draw_episodes(pool, episodes, e.way, e.shot, v.query, v.seed)
