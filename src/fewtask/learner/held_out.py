"""How good is it on tasks that it has not learned from? By number of examples, beside what needs no training.

Accuracy, area under the ROC curve and calibration error of the model, of untrained centroids and of logistic
regression, all on the same episodes of the held-out tasks.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
import torch

from fewtask.auto.calibration import SHOTS, Calibration, cross_fitted, distance_limit, fit_sureness
from fewtask.auto.vote import Judgement, judge_episodes
from fewtask.datasets.base import Progress, quiet
from fewtask.errors import TaskError
from fewtask.evaluation import prepare
from fewtask.methods import Method, make_method
from fewtask.own.baselines import logistic_episodes
from fewtask.own.measures import accuracies, areas, calibration_error
from fewtask.pool import Pools, TaskPool
from fewtask.protocol import EpisodeList, draw_episodes
from fewtask.settings import update
from fewtask.statistics import half_width

EPISODES = 200
MOST_QUERIES = 15
CENTROID, LOGISTIC = "centroid", "logistic regression"
LOGISTIC_METHOD = "logistic"


@dataclass(frozen=True)
class Line:
    """A method with so many examples of each class: means over episodes, and half of their 95 % intervals."""

    shot: int
    method: str
    accuracy: float
    accuracy_interval: float
    auc: float
    auc_interval: float
    calibration_error: float
    episodes: int


@dataclass(frozen=True)
class HeldOut:
    """Accuracy by shot, and what was learned about sureness on the way."""

    lines: tuple[Line, ...]
    calibration: Calibration
    tasks: tuple[str, ...]
    way: int

    def table(self) -> str:
        """CSV, a line for each shot and method."""
        text = io.StringIO()
        writer = csv.DictWriter(text, list(Line.__dataclass_fields__), lineterminator="\n")
        writer.writeheader()
        for line in self.lines:
            writer.writerow({k: round(v, 5) if isinstance(v, float) else v for k, v in asdict(line).items()})
        return text.getvalue()

    def verdict(self, name: str, shot: int) -> str:
        """One sentence: did learning across tasks help, with so many examples or the nearest number there is?"""
        near = min({line.shot for line in self.lines}, key=lambda other: abs(other - shot))
        here = [line for line in self.lines if line.shot == near]
        ours = next(line for line in here if line.method == name)
        others = [line for line in here if line.method != name]

        def rate(line: Line) -> str:
            return f"{100 * line.accuracy:.1f} ± {100 * line.accuracy_interval:.1f} %"

        found = f"with {near} examples of each class {name} labels {rate(ours)} of the held-out tasks' rows right"
        if not others:
            return found
        best = max(others, key=lambda line: line.accuracy)
        gain, noise = ours.accuracy - best.accuracy, math.hypot(ours.accuracy_interval, best.accuracy_interval)
        beside = "; ".join(f"{line.method} {rate(line)}" for line in others)
        if gain > noise:
            return f"{found} ({beside}): learning across tasks gained {100 * gain:.1f} points"
        worse = "cost more than noise" if -gain > noise else "made no difference beyond noise"
        return f"{found} ({beside}): learning across tasks {worse}, take the simplest"

    def markdown(self) -> list[str]:
        """The same for the run's card."""
        where = f"the held-out task{'s' if len(self.tasks) > 1 else ''} {', '.join(self.tasks)}, {self.way} classes"
        lines = ["## How sure can you be?", "", f"On {where}, by labelled examples of each class:", ""]
        lines += ["| examples | | accuracy % | AUC % | calibration error |", "|---:|---|---:|---:|---:|"]
        lines += [
            f"| {x.shot} | {x.method} | {100 * x.accuracy:.1f} ± {100 * x.accuracy_interval:.1f} | "
            f"{100 * x.auc:.1f} ± {100 * x.auc_interval:.1f} | {x.calibration_error:.3f} |"
            for x in self.lines
        ]
        return [
            *lines,
            "",
            "The intervals are over episodes of these tasks, and do not speak of other tasks. Centroids and the model "
            "are calibrated on the other held-out tasks, logistic regression is as scikit-learn gives it.",
            "",
        ]


def assess(
    members: tuple[Method, ...],
    pools: Pools,
    *,
    name: str,
    seed: int = 0,
    episodes: int = EPISODES,
    baselines: bool = True,
    progress: Progress = quiet,
) -> HeldOut:
    """Scores the members, voting, on the test tasks, or on the validation tasks where there are none.

    The calibration is that of the validation tasks: it belongs to the model, and test tasks are only looked at.
    """
    wanted = sorted({*SHOTS, members[0].settings.episode.shot})
    plans = [held_out_episodes(pools.selection, shot, seed, episodes) for shot in possible(pools.selection, wanted)]
    validation = [judge_episodes(members, pools.selection, plan, progress, said(name, plan)) for plan in plans]
    calibration = calibrate(plans, validation)
    if pools.test is not None:
        return assess_test(
            members, pools, calibration,
            name=name, seed=seed, episodes=episodes, baselines=baselines, progress=progress,
        )  # fmt: skip
    # Validation tasks took part in the calibration: each is calibrated by the others.
    judged = [(plan, cross_fitted(found, plan.tasks)) for plan, found in zip(plans, validation)]
    return _beside_untrained(judged, members[0], pools, pools.selection, calibration, name, baselines, progress)


def assess_test(
    members: tuple[Method, ...],
    pools: Pools,
    calibration: Calibration,
    *,
    name: str,
    seed: int = 0,
    episodes: int = EPISODES,
    baselines: bool = True,
    progress: Progress = quiet,
) -> HeldOut:
    """Scores the members, voting, on the test tasks, which took no part in the calibration."""
    pool = pools.split("test")
    judged = []
    for shot in possible(pool, sorted({*SHOTS, members[0].settings.episode.shot})):
        plan = held_out_episodes(pool, shot, seed, episodes)
        found = judge_episodes(members, pool, plan, progress, said(name, plan))
        judged.append((plan, calibration.apply(found, np.array([shot]))))
    return _beside_untrained(judged, members[0], pools, pool, calibration, name, baselines, progress)


def _beside_untrained(
    judged: Sequence[tuple[EpisodeList, np.ndarray]],
    like: Method,
    pools: Pools,
    held_out: TaskPool,
    calibration: Calibration,
    name: str,
    baselines: bool,
    progress: Progress,
) -> HeldOut:
    """Honest log-probabilities [E, K * Q, K] of lists of episodes, and the untrained on the same lists."""
    rows: list[Line] = []
    untrained = _centroid(like, pools) if baselines and name != CENTROID else None
    for plan, ours in judged:
        rows.append(line_of(plan.shot, name, ours))
        if untrained is not None:
            found = judge_episodes((untrained,), held_out, plan)
            rows.append(line_of(plan.shot, CENTROID, cross_fitted(found, plan.tasks)))
        if baselines and name != LOGISTIC_METHOD:
            rows.append(line_of(plan.shot, LOGISTIC, logistic_episodes(held_out, plan, progress)))
    names = held_out.class_names if held_out.is_class_pool else [task.name for task in held_out.tasks]
    return HeldOut(tuple(rows), calibration, tuple(names), held_out_way(held_out))


def calibrate(plans: Sequence[EpisodeList], judged: Sequence[Judgement]) -> Calibration:
    """Sureness and limit of distance for each shot, from episodes of held-out tasks."""
    return Calibration.of(
        {plan.shot: fit_sureness(found) for plan, found in zip(plans, judged)},
        {plan.shot: distance_limit(found.distances) for plan, found in zip(plans, judged)},
    )


def possible(pool: TaskPool, shots: Sequence[int]) -> list[int]:
    """Those numbers of examples that leave every class of a pool a row to ask about."""
    return [shot for shot in shots if shot < int(pool.sizes.min())]


def said(name: str, plan: EpisodeList) -> str:
    return f"{name} with {plan.shot} example{'s' if plan.shot > 1 else ''}"


def held_out_episodes(pool: TaskPool, shot: int, seed: int, episodes: int) -> EpisodeList:
    """Episodes with as many queries as every class can give, of all the classes that every task has."""
    query = min(MOST_QUERIES, int(pool.sizes.min()) - shot)
    if query < 1:
        raise TaskError(f"a class of {pool.sizes.min()} rows cannot give {shot} examples and a query: lower the shot")
    return draw_episodes(pool, episodes, held_out_way(pool), shot, query, seed + shot)


def held_out_way(pool: TaskPool) -> int:
    """Classes of an episode: all that the smallest task has, of a class pool five."""
    smallest = int(pool.task_counts.min())
    return min(5, smallest) if pool.is_class_pool else smallest


def _centroid(like: Method, pools: Pools) -> Method:
    """Untrained centroids of the same rows, prepared as meta-validation prefers."""
    shape = pools.input_shape
    # Its encoder is never used: one that takes any shape.
    settings = update(like.settings, {"method": "centroid", "encoder": {"name": "mlp", "width": 1}})
    with torch.random.fork_rng(devices=[]):
        method = make_method(settings, shape).to(pools.train.rows.device)
    prepare(method, pools)
    return method.eval()


def line_of(shot: int, method: str, log_probabilities: np.ndarray) -> Line:
    right, area = accuracies(log_probabilities), areas(log_probabilities)
    error = calibration_error(log_probabilities)
    return Line(
        shot, method, float(right.mean()), half_width(right), float(area.mean()), half_width(area), error, len(right)
    )
