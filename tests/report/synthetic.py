"""A made-up ledger with runs of every table and figure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fewtask.experiments.grid import Cell, cell_settings
from fewtask.experiments.ledger import Ledger
from fewtask.experiments.tables import experiment_names, get_experiment
from fewtask.methods import get_method
from fewtask.record import FORMAT, pack
from fewtask.settings import RunSettings, identity, update

QUERIES = 50
EPISODES = 60
TASKS = ("task 1", "<b>task</b> & 2")


def score(correct: np.ndarray, loss: float) -> dict[str, Any]:
    """A record's part of a split, from the correct queries of its episodes."""
    share = correct / QUERIES
    halves = np.array_split(share, len(TASKS))
    return {
        "accuracy": float(share.mean()),
        "interval": 0.01,
        "loss": loss,
        "episodes": len(correct),
        "tasks": [
            {"task": task, "episodes": len(half), "accuracy": float(half.mean()), "interval": 0.02}
            for task, half in zip(TASKS, halves)
        ],
        "episode_list": f"list of {len(correct)}",
        "queries": QUERIES,
        "correct": pack(correct),
    }


def record(
    preset: str, settings: RunSettings, correct: np.ndarray, quality: float, test: bool = True
) -> dict[str, Any]:
    steps = settings.train.steps
    points = [
        {
            "step": steps * (i + 1) // 12,
            "loss": round(0.2 + 0.1 * quality + 1.2 / (i + 1), 4),
            "validation_loss": round(1.2 - 0.1 * quality + 0.03 * i, 4),
            "validation_accuracy": 0.5,
        }
        for i in range(12)
    ]
    values: dict[str, Any] = {
        "format": FORMAT,
        "preset": preset,
        "dataset": settings.dataset,
        "method": settings.method,
        "seed": settings.seed,
        "settings": identity(settings, get_method(settings.method).groups),
        "data_fingerprint": "0123456789abcdef",
        "environment": {"fewtask": "0.1.0", "python": "3.11", "torch": "2.5", "numpy": "2", "processor": "<script>"},
        "seconds": 100.0 + 10 * quality,
        "selected_step": steps // 2,
        "history": [] if settings.method == "centroid" else points,
        "validation": score(np.minimum(correct + 1, QUERIES), 1.2 - 0.1 * quality),
    }
    return values | ({"test": score(correct, 1.0)} if test else {})


def task_map() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    parents = [[0], [1], [2], *([int(i) for i in rng.permutation(3)[:2]] for _ in range(40))]
    return {
        "originals": [{"name": f"assay <{i}>", "classes": ["inactive", "active"]} for i in range(3)],
        "parents": parents,
        "points": [[round(float(v), 3) for v in rng.normal(np.sum(p), 1, 2)] + [t, c]
                   for t, p in enumerate(parents) for c in (0, 1)],
    }  # fmt: skip


def write_cell(ledger: Ledger, cell: Cell, quality: int, seeds: int, changes: Mapping[str, Any] | None = None) -> None:
    """So many correct queries more than a row of quality 0 on every episode, and one more a seed."""
    episodes = np.random.default_rng(0).integers(18, 24, EPISODES)
    for seed in range(seeds):
        settings = update(cell_settings(cell, seed), changes or {})
        noise = np.random.default_rng([seed, quality]).integers(0, 3, EPISODES)
        ledger.write(record(cell.preset, settings, episodes + 2 * quality + noise + seed, quality))


def fill(folder: Path, seeds: int = 2, names: list[str] | None = None) -> Ledger:
    """Every run of the given tables and figures, rows better the later they stand."""
    ledger = Ledger(folder)
    for name in names or experiment_names():
        experiment = get_experiment(name)
        for cell in experiment.cells:
            if not ledger.has(cell_settings(cell, 0)):
                write_cell(ledger, cell, experiment.rows.index(cell.row), seeds)
            if experiment.kind == "tasks":
                ledger.write_map(cell_settings(cell, 0), task_map())
    return ledger
