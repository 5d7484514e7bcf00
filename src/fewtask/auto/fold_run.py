"""One candidate in one fold for so many steps: trained, or continued, and scored on the held-out tasks.

SEARCH/tasks.safetensors                      the tasks, as they were dealt from
SEARCH/folds/CANDIDATE/FOLD/score-000100.json   accuracy of each held-out task; its presence says that this is done
SEARCH/folds/CANDIDATE/FOLD/model-000100.safetensors
SEARCH/folds/CANDIDATE/FOLD/checkpoint.safetensors   from which a longer run goes on, as if it had never stopped
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from fewtask.auto.candidates import Candidate, candidate_settings
from fewtask.auto.folds import Fold, deal
from fewtask.auto.stored import read_dataset
from fewtask.errors import FewtaskError, RunError, StoppedError
from fewtask.evaluation import evaluate, prepare
from fewtask.files import read_json, read_tensors, sweep, write_json, write_tensors
from fewtask.locks import alone
from fewtask.methods import Method, make_method
from fewtask.pool import TaskPool
from fewtask.protocol import EpisodeList, draw_episodes
from fewtask.settings import RunSettings
from fewtask.training.history import History
from fewtask.training.loop import fit

TASKS = "tasks.safetensors"
Clock = Callable[[], float]


class BudgetSpentError(StoppedError):
    """The time is over: what is trained so far stays in its checkpoint."""


@dataclass(frozen=True)
class Search:
    """What all runs of a search share: its folder, and how tasks are dealt and scored."""

    folder: Path
    base: RunSettings
    folds: int
    episodes: int
    device: str = "cpu"

    def all_folds(self) -> list[Fold]:
        return _dealt(self.folder / TASKS, self.folds, self.base.episode.way, self.base.seed)

    @property
    def pool_of_classes(self) -> bool:
        return self.all_folds()[0].train.is_class_pool


@dataclass(frozen=True)
class FoldRun:
    search: Search
    candidate: Candidate
    fold: int
    steps: int

    @property
    def folder(self) -> Path:
        return self.search.folder / "folds" / self.candidate.slug / str(self.fold)

    @property
    def score_path(self) -> Path:
        return self.folder / f"score-{self.steps:06}.json"

    @property
    def model_path(self) -> Path:
        return self.folder / f"model-{self.steps:06}.safetensors"

    @property
    def settings(self) -> RunSettings:
        return candidate_settings(self.search.base, self.candidate, self.steps)

    def score(self) -> dict[str, Any] | None:
        """What is known of it, None while it is not done."""
        if not self.score_path.exists():
            return None
        found = read_json(self.score_path)
        if not _is_score(found):
            raise RunError(f"{self.score_path} is damaged: remove it to train that run again")
        score: dict[str, Any] = found
        return score

    def alone(self) -> AbstractContextManager[None]:
        """A worker outlives a search that is killed until its state is saved; the next waits for that."""
        return alone(self.folder.with_name(f".{self.fold}.lock"))

    def model(self) -> Method:
        """The method with the weights of its last step; made again where they were removed. The score stays."""
        with self.alone():
            if not self.model_path.exists():
                _train_and_score(self, None, time.time, None)
        pool = self.search.all_folds()[self.fold].train
        method = make_method(self.settings, pool.input_shape)
        method.load_state_dict(read_tensors(self.model_path)[0])
        return method.to(self.search.device).eval()


@lru_cache(maxsize=1)
def _dealt(path: Path, folds: int, way: int, seed: int) -> list[Fold]:
    """A process that carries out several runs reads the tasks once."""
    return deal(read_dataset(path).train, folds, way, seed)


def fold_episodes(
    pool: TaskPool, settings: RunSettings, per_task: int, shot: int | None = None, query: int | None = None
) -> EpisodeList:
    """The fixed list of a held-out part, the same for every candidate; a class pool has one task for `way` classes."""
    shot = shot or settings.episode.shot
    parts = len(pool.class_names) // settings.episode.way if pool.is_class_pool else len(pool.tasks)
    query = query or max(1, min(settings.evaluation.query, int(pool.sizes.min()) - shot))
    seed = settings.evaluation.seed + shot
    return draw_episodes(pool, per_task * max(1, parts), settings.episode.way, shot, query, seed)


def _is_score(found: Any) -> bool:
    """Whether it has the entries of a score, or says why there is none."""

    def number(value: Any) -> bool:
        return type(value) in (int, float) and math.isfinite(value)

    if not isinstance(found, dict) or not number(found.get("wall")):
        return False
    if "failed" in found:
        return True
    tasks = found.get("tasks")
    return (
        all(number(found.get(key)) for key in ("steps", "seconds", "accuracy"))
        and isinstance(tasks, dict)
        and bool(tasks)
        and all(map(number, tasks.values()))
    )


def carry_out(
    run: FoldRun,
    *,
    deadline: float | None = None,
    clock: Clock = time.time,
    on_step: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """The score, made now unless it is there; a run that cannot be has the reason instead of accuracies."""
    with run.alone():
        known = run.score()
        if known is not None:
            return known
        started = clock()
        try:
            score = _train_and_score(run, deadline, clock, on_step)
        except StoppedError:
            raise
        except FewtaskError as error:
            score = {"failed": str(error)}
        score["wall"] = round(clock() - started, 3)
        write_json(run.score_path, score)
        return score


def _train_and_score(
    run: FoldRun, deadline: float | None, clock: Clock, on_step: Callable[[int], None] | None
) -> dict[str, Any]:
    search, settings = run.search, run.settings
    fold = search.all_folds()[run.fold]
    pools = fold.pools(run.candidate.learns_lambda).to(search.device)
    torch.manual_seed(settings.seed)
    method = make_method(settings, pools.input_shape).to(search.device)
    method.check(pools.train, pools.outer)

    def heard(row: dict[str, Any]) -> None:
        if on_step is not None:
            on_step(int(row["step"]))
        if deadline is not None and clock() > deadline:
            raise BudgetSpentError("the time for choosing is over")

    heard({"step": 0})
    prepare(method, pools)
    seconds = 0.0
    if method.trained:
        run.folder.mkdir(parents=True, exist_ok=True)
        sweep(run.folder)
        history = History(run.folder / "history.jsonl")
        checkpoint = run.folder / "checkpoint.safetensors"
        state = fit(method, pools, checkpoint=checkpoint, history=history, show_progress=False, on_row=heard)
        method.load_state_dict(state.best.weights)
        seconds = state.seconds
    score = evaluate(method, pools.selection, fold_episodes(pools.selection, settings, search.episodes))
    write_tensors(run.model_path, method.state_dict())
    return {
        "steps": run.steps,
        "seconds": round(seconds, 3),
        "accuracy": score.accuracy,
        "loss": score.loss,
        "tasks": {row.task: row.accuracy for row in score.tasks},
    }


@dataclass(frozen=True)
class Batch:
    """Runs that one worker carries out one after the other, so that it reads the tasks once."""

    runs: tuple[FoldRun, ...]
    number: int
    deadline: float | None = None
    clock: Clock = time.time

    @property
    def name(self) -> str:
        return f"batch {self.number}"

    @property
    def label(self) -> str:
        return f"{len({run.candidate.name for run in self.runs})} candidates, {len(self.runs)} runs"

    @property
    def steps(self) -> int:
        return sum(run.steps for run in self.runs)

    def work(self, on_step: Callable[[int], None] | None = None) -> None:
        done = 0
        for run in self.runs:
            before = done

            def heard(step: int, before: int = before) -> None:
                if on_step is not None:
                    on_step(before + step)

            try:
                carry_out(run, deadline=self.deadline, clock=self.clock, on_step=heard)
            except BudgetSpentError:
                return
            done += run.steps

    def received(self, outcome: Any) -> None:
        """Scores and weights are files in the search's folder, which every worker must see."""
