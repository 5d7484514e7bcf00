"""Measures and baselines against scikit-learn and loops."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss as sklearn_log_loss
from sklearn.metrics import roc_auc_score

from fewtask.own.baselines import logistic_episodes
from fewtask.own.measures import accuracies, areas, calibration_error, log_loss, query_classes
from fewtask.pool import TaskPool
from fewtask.protocol import draw_episodes


def predictions(K: int, seed: int = 0) -> np.ndarray:
    """Log-probabilities [4, K * 6, K], coarse enough to have ties."""
    scores = np.random.default_rng(seed).integers(1, 5, (4, 6 * K, K)).astype(np.float64)
    return np.log(scores / scores.sum(-1, keepdims=True))


@pytest.mark.parametrize("K", [2, 3])
def test_measures_are_scikit_learns(K: int) -> None:
    found = predictions(K)
    labels = query_classes(found)
    for episode, accuracy, area in zip(found, accuracies(found), areas(found)):
        assert accuracy == pytest.approx((episode.argmax(1) == labels).mean())
        wanted = np.mean([roc_auc_score(labels == c, episode[:, c]) for c in range(K)])
        assert area == pytest.approx(wanted)
    flat = np.exp(found).reshape(-1, K)
    assert log_loss(found) == pytest.approx(sklearn_log_loss(np.tile(labels, 4), flat))


def test_calibration_error_is_that_of_a_loop_over_bins() -> None:
    found = predictions(3)
    sure, right = np.exp(found.max(-1)).ravel(), (found.argmax(-1) == query_classes(found)).ravel()
    wanted = 0.0
    for low in np.arange(15) / 15:
        inside = (sure >= low) & ((sure < low + 1 / 15) | (low + 1 / 15 > 1 - 1e-9))
        if inside.any():
            wanted += inside.mean() * abs(sure[inside].mean() - right[inside].mean())
    assert calibration_error(found) == pytest.approx(wanted)
    certain = np.log(np.tile(np.array([1.0 - 1e-9, 1e-9]), (1, 4, 1)))
    assert calibration_error(certain) == pytest.approx(0.5)  # sure of all, right of half


def test_logistic_regression_sees_the_episodes_own_rows() -> None:
    """Rows far apart by class: all queries are right, unless support and queries were mixed up."""
    rows = np.concatenate([np.random.default_rng(c).normal(10 * c, 1, (8, 3)) for c in range(3)]).astype(np.float32)
    pool = TaskPool.fixed(rows, {"t": {f"{c}": np.arange(8 * c, 8 * c + 8) for c in range(3)}})
    found = logistic_episodes(pool, draw_episodes(pool, 5, 3, 3, 4, seed=0))
    assert found.shape == (5, 12, 3)
    assert accuracies(found).tolist() == [1.0] * 5
