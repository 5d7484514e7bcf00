"""How long the rungs are: as asked, or shorter where the first of them would take most of the time.

What was decided is kept in the folder, so that a search that goes on has the same rungs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from fewtask.auto.candidates import Candidate, candidate_settings
from fewtask.auto.fold_run import Search
from fewtask.auto_settings import AutoSettings
from fewtask.files import read_json, write_json
from fewtask.methods import make_method
from fewtask.training.loop import new_state, training_step

FILE = "rungs.json"
SHARE = 0.4
"""Of the time, for the first rung; the rest is for longer runs of the better half and for the winner."""
FEWEST = 20
"""Fewer steps than this say nothing about a candidate."""
TIMED = 3


def rungs_for(
    search: Search,
    tried: Sequence[Candidate],
    options: AutoSettings,
    workers: int,
    step_seconds: Callable[[Search], float] | None = None,
) -> list[int]:
    """Steps at the end of each rung; `step_seconds` is what a step of a ProtoNet takes, measured unless it is given."""
    path = search.folder / FILE
    if path.exists():
        return [int(steps) for steps in read_json(path)]
    rungs = options.rungs
    if options.seconds is not None:
        step = (step_seconds or measured_step)(search)
        each = step * sum(candidate.cost for candidate in tried) * len(search.all_folds()) / workers
        first = affordable(options.first_steps, each, SHARE * options.seconds)
        rungs = [first * 2**rung for rung in range(len(rungs)) if first * 2**rung <= options.most_steps]
    write_json(path, rungs)
    return rungs


def foreseen(options: AutoSettings, tried: Sequence[Candidate]) -> tuple[int, float]:
    """Steps that a search without a limit of time counts, and its cost in steps of a ProtoNet; both about right.

    A longer run counts all of its steps and costs only those that are new. Who survives the first rung is not known:
    the others cost as much as all do on average. The refit is of the last rung's length.
    """
    trained = [candidate for candidate in tried if not candidate.floor]
    mean = sum(candidate.cost for candidate in trained) / max(1, len(trained))
    counted, cost = 0, 0.0
    left, before = len(trained), 0
    for steps in options.rungs:
        there = left + (len(tried) - len(trained) if not before else 0)
        counted += options.folds * there * steps
        cost += options.folds * left * mean * (steps - before)
        left, before = (left + 1) // 2, steps
    return counted, cost + mean * before


def affordable(wanted: int, each: float, seconds: float) -> int:
    """As many steps as are wanted, or as there is time for where one takes `each` seconds; at least a few."""
    return min(wanted, max(min(FEWEST, wanted), int(seconds / max(each, 1e-9))))


def measured_step(search: Search) -> float:
    """Seconds of a ProtoNet's step on the first fold; the random numbers of runs stay as they are."""
    fold = search.all_folds()[0]
    pools = fold.pools(learns_lambda=False).to(search.device)
    with torch.random.fork_rng(devices=[]):
        settings = candidate_settings(search.base, Candidate("timed", "protonet"), TIMED)
        state = new_state(make_method(settings, pools.input_shape).to(search.device).train(), pools.train, pools.outer)
        training_step(state)
        started = time.perf_counter()
        for _ in range(TIMED):
            training_step(state)
    return (time.perf_counter() - started) / TIMED
