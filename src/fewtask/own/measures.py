"""How good predictions are: accuracy, area under the ROC curve and calibration error.

Log-probabilities are [E, M, K]: E episodes, M = K * Q queries of each, class by class, K classes.
"""

from __future__ import annotations

import numpy as np

BINS = 15


def query_classes(log_probabilities: np.ndarray) -> np.ndarray:
    """[M] class of each query."""
    queries, K = log_probabilities.shape[-2:]
    return np.arange(K).repeat(queries // K)


def accuracies(log_probabilities: np.ndarray) -> np.ndarray:
    """[E] share of the queries of each episode whose most likely class is their own."""
    return (log_probabilities.argmax(-1) == query_classes(log_probabilities)).mean(axis=1)


def areas(log_probabilities: np.ndarray) -> np.ndarray:
    """[E] area under the ROC curve of each class against the rest, mean over classes; ties count half.

    By ranks: the area is the chance that a query of the class has a higher score than one of another class.
    """
    from scipy.stats import rankdata

    labels, K = query_classes(log_probabilities), log_probabilities.shape[-1]
    found = []
    for c in range(K):
        own = labels == c
        inside, outside = int(own.sum()), int((~own).sum())
        ranks = rankdata(log_probabilities[:, :, c], axis=1)[:, own].sum(axis=1)
        found.append((ranks - inside * (inside + 1) / 2) / (inside * outside))
    return np.mean(found, axis=0)


def calibration_error(log_probabilities: np.ndarray, bins: int = BINS) -> float:
    """Expected calibration error: how far sureness is from accuracy, over bins of equal width, weighted by queries."""
    sure = np.exp(log_probabilities.max(-1)).reshape(-1)
    right = (log_probabilities.argmax(-1) == query_classes(log_probabilities)).reshape(-1)
    place = np.minimum((sure * bins).astype(np.int64), bins - 1)
    gaps = np.bincount(place, sure, bins) - np.bincount(place, right, bins)
    return float(np.abs(gaps).sum() / len(sure))


def log_loss(log_probabilities: np.ndarray) -> float:
    """Mean of minus the log-probability of each query's own class."""
    return float(-of_own_class(log_probabilities).mean())


def log_losses(log_probabilities: np.ndarray) -> np.ndarray:
    """[E] the same of each episode."""
    found: np.ndarray = -of_own_class(log_probabilities).mean(axis=1)
    return found


def of_own_class(log_probabilities: np.ndarray) -> np.ndarray:
    """[E, M] log-probability of each query's own class."""
    labels = query_classes(log_probabilities)
    return log_probabilities[:, np.arange(len(labels)), labels]
