"""`auto` as a run with a record like any other: it chooses without a look at meta-test, and is scored there once.

One search serves all ways to vote. The record's `test` is that of the way that its settings name; `voters` has all
three, on the same episodes, and where a winner learned λ its refit with the other frozen λs. `validation` is the folds'
models on the tasks that each had not seen.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from fewtask.auto.calibration import Calibration
from fewtask.auto.candidates import INSTEAD
from fewtask.auto.choosing import Chosen, choose_for
from fewtask.auto.refit import refit
from fewtask.auto.sureness import HeldOutShot
from fewtask.auto.vote import judge_episodes
from fewtask.auto_settings import AutoSettings, Lambda
from fewtask.files import read_json
from fewtask.methods import Method, groups_of
from fewtask.own.measures import accuracies, calibration_error, log_losses
from fewtask.pool import Dataset, Pools
from fewtask.protocol import EpisodeList, meta_test_episodes
from fewtask.record import DIGITS, pack, score_of
from fewtask.settings import RunSettings, digest, identity
from fewtask.statistics import half_width
from fewtask.workers import Failure, InlineExecutor, Job, JobProgress

OnStep = Callable[[int], None]


def run_auto(
    settings: RunSettings,
    dataset: Dataset,
    out: Path,
    *,
    preset: str,
    test: bool = True,
    on_step: OnStep | None = None,
) -> dict[str, Any]:
    """The record of a choice by cross-validation; killed anywhere, the same call goes on."""
    base = dataclasses.replace(settings, method=INSTEAD, auto=AutoSettings())
    options = dataclasses.replace(settings.auto, ensemble="both")
    blind = dataclasses.replace(dataset, test=None)
    executor = Telling(on_step or (lambda step: None))
    chosen = choose_for(
        blind, base, out, options, workers=1, executor=executor, show_progress=False, floors=False, shots=()
    )
    pools = dataset.pools(settings.data, settings.episode.way)
    started = time.time()
    # Weights, versions and losses are those of the winner trained on all tasks.
    record = chosen.record | {
        "preset": preset,
        "dataset": settings.dataset,
        "method": settings.method,
        "settings": identity(settings, groups_of(settings.method)),
        "data_fingerprint": pools.fingerprint,
        "selected_step": chosen.winner.steps,
        # What a refit says of validation tasks is said of tasks that it has learned from.
        "history": [],
        "validation": held_out_score(chosen, settings),
        "auto": about(chosen),
    }
    if test and pools.test is not None:
        record["voters"] = voters(chosen, settings, blind, pools)
        record["test"] = record["voters"][settings.auto.ensemble]
    record["seconds"] = round(search_seconds(out) + chosen.record["seconds"] + time.time() - started, 2)
    return record


def about(chosen: Chosen) -> dict[str, Any]:
    """The choice itself: who won and why, and where all candidates stood on held-out tasks."""
    winner = chosen.winner
    return {
        "winner": winner.candidate.name,
        "verdict": chosen.verdict,
        "steps": winner.steps,
        "steps_by_fold": list(winner.steps_by_fold),
        "accuracy": round(winner.accuracy, DIGITS),
        "standard_error": round(winner.standard_error, DIGITS),
        "tasks": {name: round(value, DIGITS) for name, value in winner.accuracies.items()},
        "leaderboard": chosen.leaderboard,
        "calibration": chosen.calibration.as_dict(),
        "held_out_calibration_error": {
            str(one.shot): {"before": round(one.error_before, DIGITS), "after": round(one.error_after, DIGITS)}
            for one in chosen.held_out
        },
    }


def voters(chosen: Chosen, settings: RunSettings, blind: Dataset, pools: Pools) -> dict[str, dict[str, Any]]:
    """Meta-test by who predicts: the refit, the folds' models, or all of them. Of what is untrained there is one."""
    episodes = meta_test_episodes(settings, pools)
    groups = {"refit": chosen.members[:1], "folds": chosen.members[1:] or chosen.members, "both": chosen.members}
    if chosen.winner.candidate.learns_lambda:
        groups |= {f"refit-{kind}": (method,) for kind, method in other_refits(chosen, settings.auto, blind).items()}
    return {name: vote_score(members, pools, episodes, chosen.calibration) for name, members in groups.items()}


def other_refits(chosen: Chosen, options: AutoSettings, blind: Dataset) -> dict[Lambda, Method]:
    """The winner trained on all tasks with the λs that the settings do not name."""
    found: dict[Lambda, Method] = {}
    for kind in get_args(Lambda):
        if kind != options.frozen:
            out = chosen.search.folder / f"refit-{kind}"
            found[kind] = refit(
                chosen.search, blind, chosen.winner, out, scale=options.steps_scale, frozen=kind, show_progress=False
            ).method
    return found


def vote_score(
    members: Sequence[Method], pools: Pools, episodes: EpisodeList, calibration: Calibration
) -> dict[str, Any]:
    """As any run is scored, and the expected calibration error before and after temperature and doubt."""
    assert pools.test is not None
    judged = judge_episodes(members, pools.test, episodes)
    honest = calibration.apply(judged, np.full(episodes.rows.shape[1], episodes.shot))
    found = judged.log_probabilities
    return score_of(pools.test, episodes, accuracies(found), log_losses(found)) | {
        "calibration_error": round(calibration_error(found), DIGITS),
        "calibrated_error": round(calibration_error(honest), DIGITS),
    }


def held_out_score(chosen: Chosen, settings: RunSettings) -> dict[str, Any]:
    """The folds' models on their held-out tasks, with as many examples as in training; a row a fold."""
    one = next(one for one in chosen.held_out if one.shot == settings.episode.shot)
    found = one.judged.log_probabilities
    right, losses, queries = accuracies(found), log_losses(found), found.shape[1]
    # The same list for the same tasks, folds and settings: runs of one experiment can be paired.
    name = digest({"held out": list(chosen.winner.accuracies), "seed": settings.seed, "episodes": len(right)})
    return {
        "accuracy": round(float(right.mean()), DIGITS),
        "interval": round(half_width(right), DIGITS),
        "loss": round(float(losses.mean()), DIGITS),
        "episodes": len(right),
        "tasks": fold_rows(one, right),
        "episode_list": name,
        "queries": queries,
        "correct": pack(np.rint(right * queries)),
    }


def fold_rows(one: HeldOutShot, right: np.ndarray) -> list[dict[str, Any]]:
    rows = []
    for fold in np.unique(one.folds):
        own = right[one.folds == fold]
        values = {"accuracy": round(float(own.mean()), DIGITS), "interval": round(half_width(own), DIGITS)}
        rows.append({"task": f"fold {fold + 1}", "episodes": len(own), **values})
    return rows


def search_seconds(out: Path) -> float:
    """What the runs of the folds took, those before an interruption included."""
    return float(sum(read_json(path)["wall"] for path in (out / "folds").rglob("score-*.json")))


@dataclass
class Telling:
    """Carries out the folds in this process, and tells how many steps are done in all."""

    on_step: OnStep
    done: int = 0

    def execute(self, jobs: Sequence[Job], progress: JobProgress) -> list[Failure]:
        failures = []
        for job in jobs:
            failures += InlineExecutor().execute([job], _Heard(self))
            self.done += job.steps
        return failures


class _Heard(JobProgress):
    def __init__(self, telling: Telling) -> None:
        super().__init__(1, show=False)
        self.telling = telling

    def at_step(self, job: Job, step: int) -> None:
        self.telling.on_step(self.telling.done + step)
