"""How sure the winner may be: its folds' models on their held-out tasks, by number of examples.

The temperature and doubt that make them honest serve the vote too: all members are the same method with as many steps,
and those that vote together err less, not more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fewtask.auto.calibration import SHOTS, Calibration, cross_fitted, distance_limit, fit_sureness
from fewtask.auto.fold_run import FoldRun, fold_episodes
from fewtask.auto.vote import judge_episodes
from fewtask.own.measures import accuracies, calibration_error


@dataclass(frozen=True, eq=False)
class HeldOutShot:
    """All folds' queries with so many examples of each class.

    log_probabilities: [E, K * Q, K]. distances: [E, K * Q]. folds: [E] the fold that an episode's task was held out in.
    """

    shot: int
    log_probabilities: np.ndarray
    distances: np.ndarray
    folds: np.ndarray

    @cached_property
    def honest(self) -> np.ndarray:
        """Log-probabilities made honest by what the tasks of the other folds say."""
        return cross_fitted(self.log_probabilities, self.folds)

    @property
    def accuracy(self) -> float:
        return float(accuracies(self.log_probabilities).mean())

    @property
    def error_before(self) -> float:
        """Expected calibration error as the network has it."""
        return calibration_error(self.log_probabilities)

    @property
    def error_after(self) -> float:
        """With the temperature and doubt that the other folds give."""
        return calibration_error(self.honest)


def held_out_shots(runs: Sequence[FoldRun], episodes: int, wanted: Sequence[int] = SHOTS) -> list[HeldOutShot]:
    """The folds' models on their held-out tasks, for every shot wanted, and that of training, that all allow."""
    search, settings = runs[0].search, runs[0].settings
    folds = search.all_folds()
    smallest = int(min(fold.held_out.sizes.min() for fold in folds))
    shots = [shot for shot in sorted({*wanted, settings.episode.shot}) if shot < smallest]
    models = [run.model() for run in runs]
    # As many queries everywhere, so that all folds' lie in one array.
    found = []
    for shot in shots:
        parts, numbers = [], []
        query = max(1, min(settings.evaluation.query, smallest - shot))
        for fold, model in zip(folds, models):
            pool = fold.held_out.to(search.device)
            drawn = fold_episodes(pool, settings, episodes, shot, query)
            parts.append(judge_episodes([model], pool, drawn))
            numbers.append(np.full(len(drawn.tasks), fold.number))
        found.append(
            HeldOutShot(
                shot,
                np.concatenate([part.log_probabilities for part in parts]),
                np.concatenate([part.distances for part in parts]),
                np.concatenate(numbers),
            )
        )
    return found


def calibration_of(shots: Sequence[HeldOutShot]) -> Calibration:
    """Fitted on all held-out tasks together."""
    fitted = {one.shot: fit_sureness(one.log_probabilities) for one in shots}
    return Calibration(
        {shot: temperature for shot, (temperature, _) in fitted.items()},
        {shot: doubt for shot, (_, doubt) in fitted.items()},
        {one.shot: distance_limit(one.distances) for one in shots},
    )
