"""What a user can say about how `auto` chooses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fewtask.errors import SettingsError

Rule = Literal["best", "one-standard-error"]
Ensemble = Literal["refit", "folds", "both"]
Lambda = Literal["average", "fold", "random"]


@dataclass(frozen=True)
class AutoSettings:
    """Budget, folds, and what is made of the winner."""

    minutes: float | None = 10.0
    """Time for everything, the training of the winner on all tasks included; None: as long as it takes."""
    folds: int = 5
    """The tasks (classes, in a class pool) are dealt into so many parts, each held out once; fewer with fewer tasks."""
    rule: Rule = "best"
    """The best candidate on held-out tasks, or the cheapest within one standard error of it."""
    ensemble: Ensemble = "both"
    """Who predicts: the winner trained on all tasks, the folds' models, or all of them, by the mean of their
    log-probabilities."""
    frozen: Lambda = "average"
    """Lambda of a winner that learns one, when it is trained on all tasks: the mean of the folds', that of the first
    fold, or the random start."""
    steps_scale: float = 1.0
    """The winner is trained on all tasks for so many times the steps that served best in the folds."""
    margin: float = 2.0
    """By how many standard errors a trained candidate must beat the best untrained one to be taken."""
    episodes: int = 100
    """Episodes of each held-out task."""
    first_steps: int = 100
    """Steps of the first rung, fewer where time is short; each rung has twice as many as the one before, and half the
    candidates."""
    most_steps: int = 3200
    """Steps of the last rung."""
    candidates: tuple[str, ...] = ()
    """Only these candidates, by name; none named: all of them."""

    def __post_init__(self) -> None:
        for name, least in (("folds", 2), ("episodes", 1), ("first_steps", 1)):
            if getattr(self, name) < least:
                raise SettingsError(f"auto's {name} is {getattr(self, name)}: it needs at least {least}")
        if self.most_steps < self.first_steps:
            raise SettingsError(f"auto's most_steps is {self.most_steps}, less than first_steps, {self.first_steps}")
        if self.minutes is not None and not self.minutes > 0:
            raise SettingsError(f"auto's minutes is {self.minutes:g}: give it some time, or none for no limit")
        if not self.steps_scale > 0:
            raise SettingsError(f"auto's steps_scale is {self.steps_scale:g}: it is a positive factor")

    @property
    def rungs(self) -> list[int]:
        """Steps at the end of each rung."""
        steps = [self.first_steps]
        while steps[-1] * 2 <= self.most_steps:
            steps.append(steps[-1] * 2)
        return steps
