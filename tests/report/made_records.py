"""Made-up experiments with records of every table and figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fewtask.experiments.declared import Experiment, read_experiment
from fewtask.experiments.grid import Cell, cell_settings
from fewtask.experiments.ledger import Ledger
from fewtask.methods import groups_of
from fewtask.presets import preset_label
from fewtask.record import FORMAT, pack
from fewtask.settings import RunSettings, identity

QUERIES = 50
EPISODES = 60
TASKS = ("task 1", "<b>task</b> & 2")
DECLARED = {
    "nci/main": ("primary", 'preset = "nci"\ntables = ["table1", "figure-tasks"]'),
    "nci/old": ("superseded", 'preset = "nci"\ntables = ["table1"]'),
    "esc50/main": ("primary", 'preset = "esc50"\ntables = ["table1"]'),
    "esc50/parts": ("ablation", 'preset = "esc50"\ntables = ["table3", "table5", "table8", "figure-set-size"]'),
    "rmnist/main": ("primary", 'preset = "rmnist"\ntables = ["table2"]'),
}
MAP = """
preset = "tox21"
methods = ["protonet", "mlti", "meta-interpolation"]
[map.rows]
setting = "data.train_tasks"
values = [2, "all"]
[map.columns]
setting = "data.train_rows"
values = [5, 20, "all"]
"""


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
        "settings": identity(settings, groups_of(settings.method)),
        "data_fingerprint": "0123456789abcdef",
        "environment": {"fewtask": "0.1.0", "python": "3.11", "torch": "2.5", "numpy": "2", "processor": "<script>"},
        "seconds": 100.0 + 10 * quality,
        "selected_step": steps // 2,
        "history": [] if settings.method == "centroid" else points,
        "hyper_updates": 17 if "hyper" in groups_of(settings.method) else 0,
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


def write_cell(ledger: Ledger, cell: Cell, quality: float, seeds: int) -> None:
    """So many correct queries more than a row of quality 0 on every episode, and one more a seed."""
    episodes = np.random.default_rng(0).integers(18, 24, EPISODES)
    for seed in range(cell.seeds or seeds):
        noise = np.random.default_rng([seed, round(2 * quality)]).integers(0, 3, EPISODES)
        correct = episodes + round(2 * quality) + noise + seed
        ledger.write(record(preset_label(cell.preset), cell_settings(cell, seed), correct, quality))


def declare(root: Path, name: str, role: str, text: str, seeds: int = 2) -> Experiment:
    folder = root / name
    folder.mkdir(parents=True)
    head = f'asks = "Who leads on {name}?"\nrole = "{role}"\nlooked_at = "Nothing <yet>."\nseeds = {seeds}\n'
    (folder / "experiment.toml").write_text(head + text)
    return read_experiment(folder)


def fill(root: Path, seeds: int = 2, names: tuple[str, ...] = tuple(DECLARED)) -> Path:
    """Experiments with every run that they declare, rows better the later they stand."""
    for name in names:
        role, text = DECLARED[name]
        fill_one(declare(root, name, role, text, seeds))
    return root


def fill_one(experiment: Experiment) -> None:
    ledger = Ledger(experiment.records)
    for table in experiment.tables:
        for cell in table.cells:
            if table.kind == "tasks":
                ledger.write_map(cell_settings(cell, 0), task_map())
            if not ledger.has(cell_settings(cell, 0)):
                write_cell(ledger, cell, table.rows.index(cell.row), experiment.seeds)
