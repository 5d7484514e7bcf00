"""Successive halving: all candidates for few steps, the better half of them for twice as many, and so on.

Runs grow: a longer one goes on from the checkpoint of the shorter. What is finished is in the folder, and the way
through the rungs follows from it alone, so that the same search goes on where it was killed. The budget is kept
twice: a rung starts only with as many candidates as there is time for, and a run under way when the time is over
stops at its next line of history.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fewtask.auto.candidates import Candidate
from fewtask.auto.fold_run import Batch, Clock, FoldRun, Search
from fewtask.auto.scores import Standing, ranked, standing
from fewtask.errors import RunError
from fewtask.workers import Executor, JobProgress

Say = Callable[[str], None]


@dataclass
class Budget:
    """Seconds for everything, and those that an earlier attempt has used already."""

    seconds: float | None
    clock: Clock = time.time
    spent: float = 0.0

    def __post_init__(self) -> None:
        self.started = self.clock()

    def used(self) -> float:
        return self.spent + self.clock() - self.started

    def left(self) -> float:
        return float("inf") if self.seconds is None else self.seconds - self.used()

    def deadline(self, reserve: float) -> float | None:
        """When to stop, by the clock, so that a reserve is left."""
        return None if self.seconds is None else self.clock() + self.left() - reserve

    def said(self) -> str:
        minutes = f"{self.used() / 60:.1f}"
        return f"{minutes} minutes" if self.seconds is None else f"{minutes} of {self.seconds / 60:g} minutes"


@dataclass(frozen=True)
class Outcome:
    """Where all candidates stand when the search is over; failed: {name: why it cannot be}."""

    standings: tuple[Standing, ...]
    failed: dict[str, str]
    unreached: tuple[str, ...]


def time_spent(search: Search, candidates: Sequence[Candidate], rungs: Sequence[int], workers: int) -> float:
    """Seconds that the finished runs in the folder have taken."""
    folds = range(len(search.all_folds()))
    runs = [FoldRun(search, c, fold, steps) for c in candidates for fold in folds for steps in rungs]
    return sum(score["wall"] for run in runs if (score := run.score()) is not None) / workers


def halve(
    search: Search,
    candidates: Sequence[Candidate],
    rungs: Sequence[int],
    executor: Executor,
    budget: Budget,
    workers: int,
    say: Say,
    show: bool = True,
) -> Outcome:
    """Carries out what is missing, rung by rung."""
    going = list(candidates)
    for rung, steps in enumerate(rungs):
        if rung:
            going = survivors(search, going, rungs[:rung], budget, workers)
        if not going:
            break
        reserve = refit_seconds(search, going, rungs[:rung], budget, workers)
        say(f"{len(going)} candidates, {len(search.all_folds())} folds, {steps} steps; {budget.said()}")
        done = run_rung(search, going, steps, executor, budget.deadline(reserve), budget.clock, workers, show)
        if not done:
            break
    return outcome(search, candidates, rungs)


def run_rung(
    search: Search,
    going: Sequence[Candidate],
    steps: int,
    executor: Executor,
    deadline: float | None,
    clock: Clock,
    workers: int,
    show: bool,
) -> bool:
    """All folds of all candidates for so many steps; False where the time was over before that."""
    folds = range(len(search.all_folds()))
    runs = [FoldRun(search, candidate, fold, steps) for candidate in going for fold in folds]
    missing = [run for run in runs if run.score() is None]
    # Dealt in turn, so that all workers are at the folds of one candidate, and the first candidates are done first.
    parts = [tuple(missing[w::workers]) for w in range(min(workers, len(missing)))]
    jobs = [Batch(part, number, deadline, clock) for number, part in enumerate(parts)]
    with JobProgress(len(jobs), show) as progress:
        failures = executor.execute(jobs, progress) if jobs else []
    if failures:
        raise RunError(f"the search in {search.folder} stopped: {failures[0].reason}")
    over = deadline is not None and clock() > deadline
    if not over and any(run.score() is None for run in runs):
        raise RunError(f"workers do not write to {search.folder}: choose a folder that all of them see")
    return not over


def survivors(
    search: Search, going: Sequence[Candidate], rungs: Sequence[int], budget: Budget, workers: int
) -> list[Candidate]:
    """The better half of the trained candidates, or as many of them as twice the steps can be afforded for."""
    found = [standing(search, candidate, rungs) for candidate in going if not candidate.floor]
    best = ranked([one for one in found if isinstance(one, Standing)])
    best = best[: (len(best) + 1) // 2]
    while best and rung_seconds(search, best, rungs[-1], workers) > budget.left():
        best.pop()
    return [one.candidate for one in best]


def rung_seconds(search: Search, best: Sequence[Standing], steps: int, workers: int) -> float:
    """To go from `steps` to twice as many in all folds, and then to train one of them on all tasks."""
    folds = len(search.all_folds())
    more = sum(folds * (one.seconds * steps + one.overhead) for one in best)
    return more / workers + max(one.seconds for one in best) * 2 * steps


def refit_seconds(
    search: Search, going: Sequence[Candidate], rungs: Sequence[int], budget: Budget, workers: int
) -> float:
    """To train the best of the candidates on all tasks.

    Before anything is known, what it takes if the time is just enough for one candidate: its folds and its refit.
    """
    if not rungs:
        return 0.0 if budget.seconds is None else budget.left() / (1 + len(search.all_folds()) / workers)
    found = ranked([one for c in going if isinstance(one := standing(search, c, rungs), Standing)])
    return found[0].seconds * found[0].steps


def outcome(search: Search, candidates: Sequence[Candidate], rungs: Sequence[int]) -> Outcome:
    found = {candidate.name: standing(search, candidate, rungs) for candidate in candidates}
    return Outcome(
        tuple(one for one in found.values() if isinstance(one, Standing)),
        {name: one for name, one in found.items() if isinstance(one, str)},
        tuple(name for name, one in found.items() if one is None),
    )
