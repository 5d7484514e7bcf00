"""Small runs and made-up records for the tests of the grid."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fewtask.experiments.grid import PlannedRun
from fewtask.experiments.worker import Job
from fewtask.methods import get_method
from fewtask.presets import load_preset
from fewtask.record import FORMAT, pack
from fewtask.settings import RunSettings, identity, update
from fewtask.workers import JobProgress

SMALL: dict[str, Any] = {
    "train": {"steps": 60, "validate_every": 20, "validation_episodes": 24, "log_every": 5, "checkpoint_every": 5},
    "evaluation": {"episodes": 40},
    "hyper": {"period": 10, "terms": 2},
    "encoder": {"width": 8},
    "set_function": {"hidden": 16},
}
QUERIES = 50


def small(method: str = "protonet", seed: int = 0, changes: Mapping[str, Any] | None = None) -> RunSettings:
    """A run on rainbow digits that takes seconds."""
    settings = update(load_preset("rainbow-digits", method), SMALL)
    return update(update(settings, changes or {}), {"seed": seed})


def job(settings: RunSettings, folder: Path, **wanted: Any) -> Job:
    return Job(PlannedRun("rainbow-digits", settings), folder / "work", folder / "ledger", **wanted)


def made_up(
    settings: RunSettings, correct: np.ndarray, preset: str = "rainbow-digits", episode_list: str = "list"
) -> dict[str, Any]:
    """A record whose test and validation episodes have so many correct queries of 50."""
    share = correct / QUERIES
    score = {
        "accuracy": float(share.mean()),
        "interval": 0.01,
        "loss": 1.0,
        "episodes": len(correct),
        "tasks": [{"task": "first", "episodes": len(correct), "accuracy": float(share.mean()), "interval": 0.02}],
        "episode_list": episode_list,
        "queries": QUERIES,
        "correct": pack(correct),
    }
    steps = settings.train.steps
    points = [
        {"step": step, "loss": 2.0 - step / steps, "validation_loss": 1.5, "validation_accuracy": 0.5}
        for step in (steps // 2, steps)
    ]
    return {
        "format": FORMAT,
        "preset": preset,
        "dataset": settings.dataset,
        "method": settings.method,
        "seed": settings.seed,
        "settings": identity(settings, get_method(settings.method).groups),
        "seconds": 10.0,
        "history": points,
        "validation": score,
        "test": score,
    }


def without_times(record: dict[str, Any]) -> dict[str, Any]:
    """What two runs with the same settings must agree on."""
    return {key: value for key, value in record.items() if key != "seconds"}


class Heard(JobProgress):
    """Remembers what an executor told."""

    def __init__(self, runs: int) -> None:
        super().__init__(runs, show=False)
        self.steps: list[tuple[str, int]] = []
        self.done: list[str] = []
        self.again: list[str] = []

    def at_step(self, job: Job, step: int) -> None:
        self.steps.append((job.run.stem, step))

    def finished(self, job: Job) -> None:
        self.done.append(job.run.stem)

    def retried(self, job: Job, reason: str) -> None:
        self.again.append(job.run.stem)
