"""Readers of what users bring or searches leave: own tables and arrays, grids, experiments, scores, saved learners."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from fuzz import Target
from victims import own_table

from fewtask.auto import AutoSettings
from fewtask.auto.candidates import candidates
from fewtask.auto.choosing import finished, start
from fewtask.auto.fold_run import TASKS, FoldRun
from fewtask.auto.scores import standing
from fewtask.auto.stored import read_dataset
from fewtask.datasets.pins import FIRST_USE, first_use
from fewtask.experiments.declared import FILE as EXPERIMENT
from fewtask.experiments.declared import read_experiment
from fewtask.experiments.search import read_search
from fewtask.learner import MetaLearner
from fewtask.learner.model import FILE as LEARNER
from fewtask.learner.model import Model
from fewtask.own.reading import read_own
from fewtask.pool import Dataset
from fewtask.settings import RunSettings, update
from fewtask.tasks import TaskPool

GRID = b"""preset = "rainbow-digits"
[methods.protonet]
"optimizer.lr" = [0.001, 0.003]
[methods.metareg]
"metareg.initial" = [1e-5, 1e-3]
[shared.train]
steps = 10
[[rounds]]
seeds = 2
keep = 1
"""
EXPERIMENT_TEXT = b"""asks = "Does it?"
role = "ablation"
looked_at = "validation"
preset = "rainbow-digits"
seeds = 1
[set.train]
steps = 10
[[rows]]
title = "ProtoNet"
method = "protonet"
[[rows]]
title = "MetaReg"
method = "metareg"
set = { "optimizer.lr" = 0.001 }
"""


def own_targets(folder: Path) -> list[Target]:
    table = own_table(folder).read_bytes()
    arrays = io.BytesIO()
    rows = np.random.default_rng(0).normal(size=(24, 3))
    np.savez(arrays, X=rows, y=np.arange(24) % 2, groups=np.arange(24) // 8)
    targets = [
        Target("own table", "a.csv", table, read_own),
        Target("own arrays", "a.npz", arrays.getvalue(), read_own),
        Target("grid", "grid.toml", GRID, read_search),
        Target("experiment", EXPERIMENT, EXPERIMENT_TEXT, lambda p: read_experiment(p.parent)),
        Target("first use", FIRST_USE, b'{"https://a": "12"}', lambda p: first_use(p.parent, "https://a")),
    ]
    return [*targets, *search_targets(folder), learner_target(folder, rows)]


def search_targets(folder: Path) -> list[Target]:
    """What a search by cross-validation goes on from."""
    rows = np.random.default_rng(1).normal(size=(48, 3)).astype(np.float32)
    index = np.arange(48).reshape(4, 2, 6)
    pool = TaskPool.fixed(rows, {f"t{t}": {"no": index[t, 0], "yes": index[t, 1]} for t in range(4)})
    base = update(
        RunSettings(dataset="toy"),
        {"episode": {"way": 2, "shot": 1, "query": 2, "batch": 1}, "evaluation": {"query": 2}},
    )
    options = AutoSettings(minutes=None, folds=2, episodes=2, first_steps=10, most_steps=10)
    search = start(Dataset("toy", pool), base, folder / "search", options, "cpu")
    first = candidates(pool, ("protonet",))[0]
    runs = [FoldRun(search, first, fold, 10) for fold in range(2)]
    score = b'{"steps": 10, "seconds": 0.5, "accuracy": 0.5, "loss": 0.7, "tasks": {"t0": 0.5, "t1": 0.5}, "wall": 1.0}'
    for run in runs:
        run.folder.mkdir(parents=True)
        run.score_path.write_bytes(score)

    def stands(path: Path) -> None:
        runs[0].score_path.write_bytes(path.read_bytes())
        standing(search, first, [10])

    tasks = (search.folder / TASKS).read_bytes()
    return [
        Target("score", "score-000010.json", score, stands),
        Target("tasks", "tasks.safetensors", tasks, read_dataset),
        Target("vote", "vote.json", b'{"minutes": 3.0, "winner": "protonet"}', lambda p: finished(p.parent, options)),
    ]


def learner_target(folder: Path, rows: np.ndarray) -> Target:
    learner = MetaLearner("protonet", steps=2, shot=1, settings={"episode": {"query": 1}}, episodes=2)
    learner.fit(rows, np.arange(24) % 2, np.arange(24) // 4)
    learner.save(folder / "learner")

    def load(path: Path) -> None:
        for weights in (folder / "learner").glob("*.safetensors"):
            (path.parent / weights.name).write_bytes(weights.read_bytes())
        Model.load(path.parent)

    return Target("learner", LEARNER, (folder / "learner" / LEARNER).read_bytes(), load)
