"""What a user would have without meta-learning: logistic regression on the same few labelled rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import torch

from fewtask.datasets.base import Progress, quiet
from fewtask.methods.logistic import regress
from fewtask.pool import TaskPool
from fewtask.protocol import EpisodeList


def logistic_episodes(pool: TaskPool, episodes: EpisodeList, progress: Progress = quiet) -> np.ndarray:
    """Log-probabilities [E, K * Q, K] of a list of episodes on the pool's own features, by the method `logistic`."""
    K, shot = episodes.rows.shape[1], episodes.shot
    labels = torch.arange(K, device=pool.rows.device).repeat_interleave(shot)
    found = []
    each: Iterable[Any] = progress(episodes.rows, "logistic regression", total=len(episodes.rows))
    for rows in each:
        values = pool.gather(rows).flatten(2).double()
        support, query = values[:, :shot].flatten(0, 1), values[:, shot:].flatten(0, 1)
        found.append(regress(support, labels, K, query).cpu().numpy())
    return np.stack(found)
