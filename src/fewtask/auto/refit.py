"""The winner trained anew on all tasks, for the steps that the folds found: nothing is held out and nothing selected.

λ of a bilevel method is not learned here, for no task is left that θ does not learn from. It comes from the folds,
where its outer tasks were others, and stays as it is: the mean of the folds' λs, which all began at the same place;
that of one fold; or the random start.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from fewtask.auto.candidates import NEVER, candidate_settings
from fewtask.auto.fold_run import FoldRun, Search
from fewtask.auto.scores import Standing
from fewtask.auto_settings import Lambda
from fewtask.pool import Dataset
from fewtask.run import RunResult, execute
from fewtask.settings import RunSettings, update
from fewtask.training.averaging import outer_tensors

VALIDATION_EPISODES = 200


def refit_settings(search: Search, winner: Standing, scale: float = 1.0) -> RunSettings:
    """Those of the folds, for the mean of their steps, on all tasks."""
    steps = max(1, round(scale * winner.steps))
    changes = {"data": {"train_on_validation": True}, "train": {"validation_episodes": VALIDATION_EPISODES}}
    settings = update(candidate_settings(search.base, winner.candidate, steps), changes)
    return update(settings, {"hyper": {"period": NEVER}}) if winner.candidate.learns_lambda else settings


def refit(
    search: Search,
    dataset: Dataset,
    winner: Standing,
    out: Path,
    *,
    scale: float = 1.0,
    frozen: Lambda = "fold",
    show_progress: bool | None = None,
) -> RunResult:
    """An ordinary run in `out`, which goes on where it was interrupted; `dataset` gives it its name and features."""
    settings = refit_settings(search, winner, scale)
    fold = search.all_folds()[0]
    whole = Dataset(dataset.name, fold.train, fold.held_out, None, dataset.features, dataset.notes)
    start = lambda_of_folds(fold_runs(search, winner), frozen) if winner.candidate.learns_lambda else None
    return execute(settings, whole, out, device=search.device, test=False, show_progress=show_progress, start=start)


def fold_runs(search: Search, one: Standing) -> list[FoldRun]:
    """The runs whose scores count: each fold's with the steps that the other folds prefer."""
    return [FoldRun(search, one.candidate, fold, steps) for fold, steps in enumerate(one.steps_by_fold)]


def lambda_of_folds(runs: list[FoldRun], frozen: Lambda) -> dict[str, Tensor] | None:
    """λ by name; None leaves it as it starts."""
    if frozen == "random":
        return None
    found = [outer_tensors(run.model()) for run in (runs[:1] if frozen == "fold" else runs)]
    return {name: torch.stack([one[name] for one in found]).mean(0) for name in found[0]}
