"""1. A first run: settings, data, training, a saved folder, and back again.

A hundred steps take seconds and show how it works; the preset's 2,000 are worth having.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from fewtask import draw_episodes, evaluate, execute, load_dataset, load_preset, load_run, update

# A preset holds the settings of a data set and a method. Settings are frozen: a change makes new ones.
settings = update(
    load_preset("rainbow-digits", "protonet"),
    {
        "train": {"steps": 100, "validate_every": 50, "validation_episodes": 50},
        "evaluation": {"episodes": 100},
    },
)
dataset = load_dataset(settings.dataset, settings.data)
for name, pool in dataset.splits.items():
    print(f"{name}: {len(pool.tasks)} tasks, for instance '{pool.tasks[0].name}'")

with tempfile.TemporaryDirectory() as folder:
    run = Path(folder) / "run"
    # The same call again would continue a run that was interrupted, or return this one.
    result = execute(settings, dataset, run)
    print("files:", sorted(path.name for path in run.iterdir()))

    # The record is what result.json holds: accuracy with half of its 95 % interval, and a row a task.
    test = result.record["test"]
    print(f"test: {100 * test['accuracy']:.1f} ± {100 * test['interval']:.1f} %")

    # Anyone can load the folder again. The test episodes are a fixed list, the same for every method and seed.
    method = load_run(run)
    episodes = draw_episodes(dataset.test, 100, way=10, shot=1, query=settings.evaluation.query, seed=0)
    again = evaluate(method, dataset.test, episodes)
    print(f"loaded: {100 * again.accuracy:.1f} %")
    assert abs(again.accuracy - test["accuracy"]) < 1e-6
