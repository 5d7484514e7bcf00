"""What a user would have without meta-learning: logistic regression on the same few labelled rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from fewtask.datasets.base import Progress, quiet
from fewtask.pool import TaskPool
from fewtask.protocol import EpisodeList

LEAST = 1e-12


def logistic_probabilities(support: np.ndarray, labels: np.ndarray, query: np.ndarray) -> np.ndarray:
    """Log-probabilities [M, K] by scikit-learn's logistic regression as it comes.

    The weights are a sum of support rows, so nothing is lost where all rows are turned into the space that the
    support spans first: as many numbers as there are rows, whatever the width of the features.
    """
    from sklearn.linear_model import LogisticRegression

    _, _, axes = np.linalg.svd(support, full_matrices=False)
    model = LogisticRegression(max_iter=1000).fit(support @ axes.T, labels)
    return np.log(np.maximum(model.predict_proba(query @ axes.T), LEAST))


def logistic_episodes(pool: TaskPool, episodes: EpisodeList, progress: Progress = quiet) -> np.ndarray:
    """Log-probabilities [E, K * Q, K] of a list of episodes on the pool's own features."""
    K, shot = episodes.rows.shape[1], episodes.shot
    labels = np.arange(K).repeat(shot)
    found = []
    each: Iterable[Any] = progress(episodes.rows, "logistic regression", total=len(episodes.rows))
    for rows in each:
        values = pool.gather(rows).flatten(2).cpu().numpy().astype(np.float64)
        support, query = values[:, :shot].reshape(K * shot, -1), values[:, shot:].reshape(-1, values.shape[-1])
        found.append(logistic_probabilities(support, labels, query))
    return np.stack(found)
