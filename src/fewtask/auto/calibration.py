"""How sure predictions may be, and how far from the support a row may lie: learned from held-out tasks.

Two numbers for each number of support rows make log-probabilities honest, so that of the predictions that are 80 %
sure 80 % are right. A temperature divides them: prototypes of one row are noisier than those of twenty. And a doubt is
the share of rows whose class the model cannot know, however far from the border they lie (labels of assays are noisy):
probabilities are mixed with chance by so much.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fewtask.own.measures import log_loss

SHOTS = (1, 2, 5, 10, 20)
HOTTEST = 1e3
LEAST_DOUBT, MOST_DOUBT = 1e-4, 0.9
UNLIKE = 0.99
"""A row that is further from all prototypes than 99 of 100 queries of the held-out tasks is unlike the support."""


@dataclass(frozen=True)
class Calibration:
    """By number of support rows a class: temperature, doubt, and the distance beyond which a row is unlike the support.

    Empty where there were no held-out tasks: probabilities are then as the network gives them, and nothing is unlike.
    """

    temperatures: Mapping[int, float] = field(default_factory=dict)
    doubts: Mapping[int, float] = field(default_factory=dict)
    limits: Mapping[int, float] = field(default_factory=dict)

    def apply(self, log_probabilities: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """Honest log-probabilities [..., K] for a support with so many rows of each class, counts [K]."""
        shot = effective_shot(counts)
        return sobered(log_probabilities, between(self.temperatures, shot, 1.0), between(self.doubts, shot, 0.0))

    def limit(self, counts: np.ndarray) -> float:
        return between(self.limits, effective_shot(counts), float("inf"))

    def as_dict(self) -> dict[str, Any]:
        parts = {"temperature": self.temperatures, "doubt": self.doubts, "distance_limit": self.limits}
        return {name: {str(shot): value for shot, value in values.items()} for name, values in parts.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Calibration:
        parts = (values.get(name, {}) for name in ("temperature", "doubt", "distance_limit"))
        return cls(*({int(shot): float(value) for shot, value in part.items()} for part in parts))


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


def sobered(log_probabilities: np.ndarray, temperature: float, doubt: float = 0.0) -> np.ndarray:
    """Log-probabilities [..., K] divided by a temperature, then mixed with chance: (1 - doubt) p + doubt / K."""
    scaled = log_probabilities / temperature
    scaled = scaled - np.logaddexp.reduce(scaled, axis=-1, keepdims=True)
    if not doubt:
        return scaled
    return np.logaddexp(scaled + np.log1p(-doubt), np.log(doubt / scaled.shape[-1]))


def fit_temperature(log_probabilities: np.ndarray) -> float:
    """The temperature with the least log-loss on queries [E, K * Q, K], without doubt; the loss has one minimum."""
    from scipy.optimize import minimize_scalar

    def loss(log_temperature: float) -> float:
        return log_loss(sobered(log_probabilities, float(np.exp(log_temperature))))

    edge = float(np.log(HOTTEST))
    return float(np.exp(minimize_scalar(loss, bounds=(-edge, edge), method="bounded", options={"xatol": 1e-4}).x))


def fit_sureness(log_probabilities: np.ndarray) -> tuple[float, float]:
    """Temperature and doubt with the least log-loss on queries [E, K * Q, K]."""
    from scipy.optimize import minimize

    def unpacked(point: np.ndarray) -> tuple[float, float]:
        temperature = float(np.exp(np.clip(point[0], -np.log(HOTTEST), np.log(HOTTEST))))
        return temperature, float(np.clip(1.0 / (1.0 + np.exp(-point[1])), LEAST_DOUBT, MOST_DOUBT))

    def loss(point: np.ndarray) -> float:
        return log_loss(sobered(log_probabilities, *unpacked(point)))

    start = np.array([np.log(fit_temperature(log_probabilities)), -2.0])
    found = minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-7, "maxiter": 300})
    return unpacked(found.x)


def cross_fitted(log_probabilities: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    """Honest log-probabilities of each task's episodes, by what all other tasks say.

    What is reported must not have been fitted to the very queries it is reported of. With one task its episodes are
    halved instead. tasks: [E].
    """
    parts = tasks if len(np.unique(tasks)) > 1 else np.arange(len(tasks)) % 2
    out = np.empty_like(log_probabilities)
    for own in np.unique(parts):
        here = parts == own
        rest = log_probabilities[~here] if (~here).any() else log_probabilities
        out[here] = sobered(log_probabilities[here], *fit_sureness(rest))
    return out


def distance_limit(distances: np.ndarray) -> float:
    return float(np.quantile(distances, UNLIKE))
