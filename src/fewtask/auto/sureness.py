"""How sure the winner may be: its folds' models on their held-out tasks, by number of examples.

Only the model that has not seen a task says honestly how sure it may be of it, so temperature, power and doubt are
those of one voter. How much they agree is seen there too: by the next fold's model on the same queries. That one has
learned from these tasks, and its log-probabilities go with the other's about as those of two models that have not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fewtask.auto.calibration import SHOTS, Calibration, agreement_of, cross_fitted, distance_limit, fit_sureness
from fewtask.auto.fold_run import FoldRun, fold_episodes
from fewtask.auto.vote import Judgement, judge_episodes
from fewtask.own.measures import accuracies, calibration_error


@dataclass(frozen=True, eq=False)
class HeldOutShot:
    """All folds' queries with so many examples of each class.

    judged: of one voter, the model that had not seen them. folds: [E] the fold that an episode's task was held out in.
    agreement: of the voters.
    """

    shot: int
    judged: Judgement
    folds: np.ndarray
    agreement: float

    @cached_property
    def honest(self) -> np.ndarray:
        """Log-probabilities made honest by what the tasks of the other folds say."""
        return cross_fitted(self.judged, self.folds)

    @property
    def accuracy(self) -> float:
        return float(accuracies(self.judged.log_probabilities).mean())

    @property
    def error_before(self) -> float:
        """Expected calibration error as the network has it."""
        return calibration_error(self.judged.log_probabilities)

    @property
    def error_after(self) -> float:
        """With the sureness that the other folds give."""
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
        parts, others, numbers = [], [], []
        query = max(1, min(settings.evaluation.query, smallest - shot))
        for fold, model in zip(folds, models):
            pool = fold.held_out.to(search.device)
            drawn = fold_episodes(pool, settings, episodes, shot, query)
            parts.append(judge_episodes([model], pool, drawn))
            others.append(judge_episodes([models[(fold.number + 1) % len(models)]], pool, drawn))
            numbers.append(np.full(len(drawn.tasks), fold.number))
        pairs = ((one.log_probabilities, other.log_probabilities) for one, other in zip(parts, others))
        found.append(HeldOutShot(shot, Judgement.joined(parts), np.concatenate(numbers), agreement_of(pairs)))
    return found


def calibration_of(shots: Sequence[HeldOutShot]) -> Calibration:
    """Fitted on all held-out tasks together."""
    return Calibration.of(
        {one.shot: fit_sureness(one.judged) for one in shots},
        {one.shot: distance_limit(one.judged.distances) for one in shots},
        {one.shot: one.agreement for one in shots},
    )
