"""What can be said about how `auto` chooses; a group of settings of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, get_args

from fewtask.ranges import Checked, Count, Factor, Range

Rule = Literal["best", "one-standard-error"]
Ensemble = Literal["refit", "folds", "both"]
Lambda = Literal["average", "fold", "random"]
VOTERS = (*get_args(Ensemble), *(f"refit-{kind}" for kind in get_args(Lambda)))
"""Who a record of `auto` has scores of: ways to vote, and the refit with another λ than its settings name."""


@dataclass(frozen=True)
class AutoSettings(Checked):
    """Choice by cross-validation over tasks: budget, folds, and what is made of the winner."""

    GROUP: ClassVar[str] = "auto."
    minutes: Annotated[float, Range(0, 1e6)] | None = 10.0
    """Time for everything, the training of the winner on all tasks included; 0 or None: as long as it takes."""
    folds: Annotated[int, Range(2, 1_000)] = 5
    """The tasks (classes, in a class pool) are dealt into so many parts, each held out once; fewer with fewer tasks."""
    rule: Rule = "best"
    """The best candidate on held-out tasks, or the cheapest within one standard error of it."""
    ensemble: Ensemble = "both"
    """Who predicts: the winner trained on all tasks, the folds' models, or all of them, by the mean of their
    log-probabilities."""
    frozen: Lambda = "fold"
    """Lambda of a winner that learns one, when it is trained on all tasks: the mean of the folds', that of the first
    fold, or the random start."""
    steps_scale: Factor = 1.0
    """The winner is trained on all tasks for so many times the steps that served best in the folds."""
    margin: Annotated[float, Range(-1_000, 1_000)] = 2.0
    """By how many standard errors a trained candidate must beat the best untrained one to be taken."""
    episodes: Count = 100
    """Episodes of each held-out task."""
    first_steps: Count = 100
    """Steps of the first rung, fewer where time is short or `most_steps` are fewer; each rung has twice as many as the
    one before, and half the candidates."""
    most_steps: Count = 3200
    """Steps of the last rung."""
    candidates: str = ""
    """Only these candidates, by name, separated by semicolons; none named: all of them."""

    @property
    def seconds(self) -> float | None:
        """The time as a budget has it: None without a limit."""
        return 60 * self.minutes if self.minutes else None

    @property
    def wanted(self) -> tuple[str, ...]:
        """Names of the candidates that were asked for."""
        return tuple(name.strip() for name in self.candidates.split(";") if name.strip())

    @property
    def rungs(self) -> list[int]:
        """Steps at the end of each rung."""
        steps = [min(self.first_steps, self.most_steps)]
        while steps[-1] * 2 <= self.most_steps:
            steps.append(steps[-1] * 2)
        return steps
