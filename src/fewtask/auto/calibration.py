"""How sure predictions may be, and how far from the support a row may lie: learned from held-out tasks.

A few numbers for each number of support rows make log-probabilities honest, so that of the predictions that are 80 %
sure 80 % are right.

- A temperature divides them: prototypes of one row are noisier than those of twenty.
- It goes with a power of the task's spread, the distance between its prototypes: a task that lies closer together than
  those that were learned from has smaller log-probabilities, and is not harder for that. With a power of 1 the unit of
  length does not matter, with 0 it alone does.
- Who vote together err less than each of them. Their log-probabilities are what all see and an error of each one's own,
  and `agreement` is the share of the first: in the mean of n voters the errors weigh 1/n, and so the temperature is
  agreement + (1 - agreement) / n of that of one.
- A doubt is the share of rows whose class the model cannot know, however far from the border they lie (labels of assays
  are noisy): probabilities are mixed with chance by so much.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fewtask.auto.vote import Judgement
from fewtask.own.measures import log_loss

SHOTS = (1, 2, 5, 10, 20)
HOTTEST = 1e3
LEAST_DOUBT, MOST_DOUBT = 1e-4, 0.9
RIDGE = 0.01
"""Of the power of the spread: where tasks hardly differ in it, nothing says what it should be, and it stays small."""
LEAST_AGREEMENT = 0.05
UNLIKE = 0.99
"""A row that is further from all prototypes than 99 of 100 queries of the held-out tasks is unlike the support."""


@dataclass(frozen=True)
class Sureness:
    """What makes log-probabilities honest; as it is here they stay as they are."""

    temperature: float = 1.0
    doubt: float = 0.0
    power: float = 0.0

    def apply(self, judged: Judgement, factor: float = 1.0) -> np.ndarray:
        """Honest log-probabilities [..., K]; `factor` multiplies the temperature."""
        hotness = factor * self.temperature * judged.spreads**self.power
        return sobered(judged.log_probabilities, hotness[..., None, None], self.doubt)


@dataclass(frozen=True)
class Calibration:
    """By number of support rows a class: sureness, agreement of voters, and the distance beyond which a row is unlike
    the support.

    Empty where there were no held-out tasks: probabilities are then as the network gives them, and nothing is unlike.
    Agreement is empty where the vote itself was judged: then nothing is to be inferred from its members.
    """

    temperatures: Mapping[int, float] = field(default_factory=dict)
    doubts: Mapping[int, float] = field(default_factory=dict)
    limits: Mapping[int, float] = field(default_factory=dict)
    powers: Mapping[int, float] = field(default_factory=dict)
    agreements: Mapping[int, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls, fitted: Mapping[int, Sureness], limits: Mapping[int, float], agreements: Mapping[int, float] | None = None
    ) -> Calibration:
        return cls(
            {shot: one.temperature for shot, one in fitted.items()},
            {shot: one.doubt for shot, one in fitted.items()},
            limits,
            {shot: one.power for shot, one in fitted.items()},
            agreements or {},
        )

    def apply(self, judged: Judgement, counts: np.ndarray) -> np.ndarray:
        """Honest log-probabilities [..., K] for a support with so many rows of each class, counts [K]."""
        shot = effective_shot(counts)
        agreement = between(self.agreements, shot, 1.0)
        sureness = Sureness(
            between(self.temperatures, shot, 1.0), between(self.doubts, shot, 0.0), _power(self.powers, shot)
        )
        return sureness.apply(judged, voting_factor(agreement, judged.voters))

    def limit(self, counts: np.ndarray) -> float:
        return between(self.limits, effective_shot(counts), float("inf"))

    def as_dict(self) -> dict[str, Any]:
        parts = {name: getattr(self, own) for name, own in PARTS.items()}
        return {name: {str(shot): value for shot, value in values.items()} for name, values in parts.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Calibration:
        parts = {own: values.get(name, {}) for name, own in PARTS.items()}
        return cls(**{own: {int(shot): float(value) for shot, value in part.items()} for own, part in parts.items()})


PARTS = {
    "temperature": "temperatures",
    "doubt": "doubts",
    "distance_limit": "limits",
    "spread_power": "powers",
    "agreement": "agreements",
}
"""What a file calls the parts of a calibration."""


def voting_factor(agreement: float, voters: int) -> float:
    """Of the temperature: 1 for one voter, and `agreement` for very many."""
    return agreement + (1 - agreement) / voters


def agreement_of(pairs: Iterable[tuple[np.ndarray, np.ndarray]]) -> float:
    """Correlation between two members' log-probabilities [..., K] of the same queries, the mean over pairs of members.

    Centred over the classes, because only differences between classes count. Voters that contradict each other agree in
    nothing, which is the least.
    """
    found = []
    for pair in pairs:
        first, second = (values - values.mean(axis=-1, keepdims=True) for values in pair)
        length = float(np.sqrt((first**2).sum() * (second**2).sum()))
        found.append(float((first * second).sum()) / length if length else 1.0)
    return float(np.clip(np.mean(found), LEAST_AGREEMENT, 1.0))


def _power(values: Mapping[int, float], shot: float) -> float:
    """As `between`, without logarithms: it may be 0."""
    shots = sorted(values)
    return float(np.interp(np.log(shot), np.log(shots), [values[s] for s in shots])) if shots else 0.0


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


def sobered(log_probabilities: np.ndarray, temperature: float | np.ndarray, doubt: float = 0.0) -> np.ndarray:
    """Log-probabilities [..., K] divided by a temperature, then mixed with chance: (1 - doubt) p + doubt / K."""
    scaled = log_probabilities / temperature
    scaled = scaled - np.logaddexp.reduce(scaled, axis=-1, keepdims=True)
    if not doubt:
        return scaled
    return np.logaddexp(scaled + np.log1p(-doubt), np.log(doubt / scaled.shape[-1]))


def fit_temperature(log_probabilities: np.ndarray) -> float:
    """The temperature with the least log-loss on queries [E, K * Q, K], nothing else; the loss has one minimum."""
    from scipy.optimize import minimize_scalar

    def loss(log_temperature: float) -> float:
        return log_loss(sobered(log_probabilities, float(np.exp(log_temperature))))

    edge = float(np.log(HOTTEST))
    return float(np.exp(minimize_scalar(loss, bounds=(-edge, edge), method="bounded", options={"xatol": 1e-4}).x))


def fit_sureness(judged: Judgement) -> Sureness:
    """Temperature, doubt and power of the spread with the least log-loss on queries [E, K * Q, K]."""
    from scipy.optimize import minimize

    # In units of the typical spread, so that the power does not move the temperature while both are sought.
    typical = float(np.exp(np.log(judged.spreads).mean()))
    seen = replace(judged, spreads=judged.spreads / typical)

    def unpacked(point: np.ndarray) -> Sureness:
        edge = np.log(HOTTEST)
        doubt = float(np.clip(1.0 / (1.0 + np.exp(-point[1])), LEAST_DOUBT, MOST_DOUBT))
        return Sureness(float(np.exp(np.clip(point[0], -edge, edge))), doubt, float(np.clip(point[2], 0.0, 1.0)))

    def loss(point: np.ndarray) -> float:
        sureness = unpacked(point)
        return log_loss(sureness.apply(seen)) + RIDGE * sureness.power**2

    start = np.array([np.log(fit_temperature(judged.log_probabilities)), -2.0, 0.5])
    found = unpacked(
        minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-3, "fatol": 1e-7, "maxiter": 500}).x
    )
    return replace(found, temperature=found.temperature * typical**-found.power)


def cross_fitted(judged: Judgement, tasks: np.ndarray) -> np.ndarray:
    """Honest log-probabilities of each task's episodes, by what all other tasks say.

    What is reported must not have been fitted to the very queries it is reported of. With one task its episodes are
    halved instead. tasks: [E].
    """
    parts = tasks if len(np.unique(tasks)) > 1 else np.arange(len(tasks)) % 2
    out = np.empty_like(judged.log_probabilities)
    for own in np.unique(parts):
        here = parts == own
        rest = judged.take(~here) if (~here).any() else judged
        out[here] = fit_sureness(rest).apply(judged.take(here))
    return out


def distance_limit(distances: np.ndarray) -> float:
    return float(np.quantile(distances, UNLIKE))
