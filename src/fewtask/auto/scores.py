"""What the folds say about the candidates: curves over steps, means with standard errors over tasks, and the choice.

Every task is held out once. In a fold the number of steps that counts is the one that the *other* folds prefer, so
that no score has been chosen on the tasks it is of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fewtask.auto.candidates import Candidate
from fewtask.auto.fold_run import FoldRun, Search
from fewtask.auto_settings import Rule
from fewtask.errors import TaskError


@dataclass(frozen=True)
class Standing:
    """A candidate as the folds see it.

    accuracies:    {held-out task, or fold of a class pool: accuracy}.
    steps_by_fold: steps whose score counts in each fold.
    reached:       steps of the longest rung that all folds have finished.
    seconds:       of a training step, and overhead: of a run besides its steps.
    """

    candidate: Candidate
    accuracies: Mapping[str, float]
    steps_by_fold: tuple[int, ...]
    reached: int
    seconds: float
    overhead: float

    @property
    def accuracy(self) -> float:
        return float(np.mean(list(self.accuracies.values())))

    @property
    def standard_error(self) -> float:
        return standard_error(list(self.accuracies.values()))

    @property
    def steps(self) -> int:
        """The mean of the folds, which is how long it is trained on all tasks."""
        return round(float(np.mean(self.steps_by_fold)))

    @property
    def cost(self) -> float:
        """Of such a training, in steps of a ProtoNet."""
        return self.candidate.cost * self.steps


def standard_error(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def difference(first: Standing, second: Standing) -> tuple[float, float]:
    """Accuracy of the first less that of the second, task by task: the mean and its standard error."""
    paired = [first.accuracies[task] - second.accuracies[task] for task in first.accuracies]
    return float(np.mean(paired)), standard_error(paired)


def standing(search: Search, candidate: Candidate, rungs: Sequence[int]) -> Standing | str | None:
    """Where a candidate stands; why it cannot be, where a run of it failed; None before its first rung is done."""
    numbers = range(len(search.all_folds()))
    curve: dict[int, list[dict[str, Any]]] = {}
    for steps in rungs[:1] if candidate.floor else rungs:
        scores = [FoldRun(search, candidate, fold, steps).score() for fold in numbers]
        for score in scores:
            if score is not None and "failed" in score:
                return str(score["failed"])
        there = [score for score in scores if score is not None]
        if len(there) < len(scores):
            break
        curve[steps] = there
    if not curve:
        return None
    preferred = chosen_steps({steps: [score["accuracy"] for score in scores] for steps, scores in curve.items()})
    accuracies: dict[str, float] = {}
    for fold, steps in enumerate(preferred):
        tasks = curve[steps][fold]["tasks"]
        # The one task of a class pool is there in every fold with other classes.
        named = {f"fold {fold + 1}": value for value in tasks.values()} if search.pool_of_classes else tasks
        accuracies |= named
    reached = max(curve)
    seconds = float(np.mean([score["seconds"] for score in curve[reached]])) / reached
    first = curve[min(curve)]
    overhead = float(np.mean([max(0.0, score["wall"] - score["seconds"]) for score in first]))
    return Standing(candidate, accuracies, tuple(preferred), reached, seconds, overhead)


def chosen_steps(curve: Mapping[int, Sequence[float]]) -> list[int]:
    """{steps: accuracy of each fold} -> for each fold the steps with the highest mean over the other folds."""
    steps = sorted(curve)
    table = np.array([curve[s] for s in steps])
    others = table.sum(axis=1, keepdims=True) - table
    # Of equals the first, which is the shortest.
    return [steps[int(best)] for best in others.argmax(axis=0)]


def ranked(standings: Sequence[Standing]) -> list[Standing]:
    """The best first; of equals the cheaper."""
    return sorted(standings, key=lambda one: (-one.accuracy, one.cost))


def choose(standings: Sequence[Standing], rule: Rule, margin: float) -> tuple[Standing, str]:
    """The winner and a sentence that says why.

    Nothing that is trained is taken unless it beats the best of what is not by `margin` standard errors, task by task.
    """
    floors = ranked([one for one in standings if one.candidate.floor])
    trained = ranked([one for one in standings if not one.candidate.floor])
    if not floors:
        raise TaskError("nothing could be scored on held-out tasks, not even untrained methods: give it more minutes")
    if not trained:
        return floors[0], "no trained candidate could be scored in the time: nothing is trained"
    winner = best = trained[0]
    if rule == "one-standard-error":
        close = [one for one in trained if _within(best, one)]
        winner = min(close, key=lambda one: one.cost)
    gain, error = difference(winner, floors[0])
    against = f"{floors[0].candidate.name}, which needs no training: {100 * gain:+.1f} ± {100 * error:.1f} points"
    if not gain > margin * error:
        return floors[0], f"{winner.candidate.name} does not beat {against}; nothing is trained"
    return winner, f"{winner.candidate.name} beats {against} over {len(winner.accuracies)} held-out parts"


def _within(best: Standing, other: Standing) -> bool:
    gap, error = difference(best, other)
    return gap <= error
