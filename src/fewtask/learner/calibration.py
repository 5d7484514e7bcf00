"""How sure predictions may be, and how far from the support a row may lie: learned from held-out tasks.

A temperature for each number of support rows divides log-probabilities, so that of the predictions that are 80 % sure
80 % are right. Prototypes of one row are noisier than those of twenty, so each number of rows has its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fewtask.learner.voting import tempered
from fewtask.own.measures import log_loss

SHOTS = (1, 2, 5, 10, 20)
HOTTEST = 1e3
UNLIKE = 0.99
"""A row that is further from all prototypes than 99 of 100 queries of the held-out tasks is unlike the support."""


@dataclass(frozen=True)
class Calibration:
    """By number of support rows a class: the temperature, and the distance beyond which a row is unlike the support.

    Empty where there were no held-out tasks: probabilities are then as the network gives them, and nothing is unlike.
    """

    temperatures: Mapping[int, float] = field(default_factory=dict)
    limits: Mapping[int, float] = field(default_factory=dict)

    def temperature(self, counts: np.ndarray) -> float:
        """For a support with so many rows of each class, counts [K]."""
        return between(self.temperatures, effective_shot(counts), 1.0)

    def limit(self, counts: np.ndarray) -> float:
        return between(self.limits, effective_shot(counts), float("inf"))

    def as_dict(self) -> dict[str, Any]:
        return {
            "temperature": {str(shot): value for shot, value in self.temperatures.items()},
            "distance_limit": {str(shot): value for shot, value in self.limits.items()},
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Calibration:
        temperature, limit = values.get("temperature", {}), values.get("distance_limit", {})
        return cls({int(k): float(v) for k, v in temperature.items()}, {int(k): float(v) for k, v in limit.items()})


def effective_shot(counts: np.ndarray) -> float:
    """One number for unequal supports: the harmonic mean, because the noise of a prototype goes with 1 / rows."""
    return float(len(counts) / (1.0 / np.asarray(counts, dtype=np.float64)).sum())


def between(values: Mapping[int, float], shot: float, otherwise: float) -> float:
    """Logarithms interpolated between the nearest shots; beyond the smallest and largest theirs."""
    if not values:
        return otherwise
    shots = sorted(values)
    logs = [np.log(values[s]) for s in shots]
    return float(np.exp(np.interp(np.log(shot), np.log(shots), logs)))


def fit_temperature(log_probabilities: np.ndarray) -> float:
    """The temperature with the least log-loss on queries [E, K * Q, K]; the loss has one minimum."""
    from scipy.optimize import minimize_scalar

    def loss(log_temperature: float) -> float:
        return log_loss(tempered(log_probabilities, float(np.exp(log_temperature))))

    edge = float(np.log(HOTTEST))
    return float(np.exp(minimize_scalar(loss, bounds=(-edge, edge), method="bounded", options={"xatol": 1e-4}).x))


def cross_fitted(log_probabilities: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """Calibrated log-probabilities of each task's episodes, by the temperature that all other tasks give.

    What is reported must not have been fitted to the very queries it is reported of. With one task its episodes are
    halved instead. tasks: [E].
    """
    parts = tasks if len(np.unique(tasks)) > 1 else np.arange(len(tasks)) % 2
    out = np.empty_like(log_probabilities)
    for own in np.unique(parts):
        here = parts == own
        rest = log_probabilities[~here] if (~here).any() else log_probabilities
        out[here] = tempered(log_probabilities[here], fit_temperature(rest))
    return out


def distance_limit(distances: np.ndarray) -> float:
    return float(np.quantile(distances, UNLIKE))
