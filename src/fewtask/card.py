"""The card of a saved run: what it is, how it fared, how to use it."""

from __future__ import annotations

from typing import Any

from fewtask.pool import Pools
from fewtask.settings import RunSettings


def card(settings: RunSettings, record: dict[str, Any], pools: Pools) -> str:
    """Markdown for the run's README.md."""
    e = settings.episode
    lines = [
        f"# {settings.method} on {settings.dataset}, seed {settings.seed}",
        "",
        f"A few-task meta-learner made by fewtask: shown {e.shot} examples of each "
        f"of {e.way} classes of a new task, it labels the rest.",
        "",
        "| | |",
        "|---|---|",
        f"| validation accuracy | {100 * record['validation']['accuracy']:.2f} % (selected at step "
        f"{record['selected_step']}) |",
    ]
    if "test" in record:
        test = record["test"]
        lines.append(
            f"| test accuracy | {100 * test['accuracy']:.2f} ± {100 * test['interval']:.2f} % over "
            f"{test['episodes']} episodes |"
        )
    lines += [
        f"| encoder | {settings.encoder.name}, input {tuple(pools.input_shape)} |",
        f"| training | {settings.train.steps} steps, {record['seconds']:.0f} s |",
        f"| made with | fewtask {record['environment']['fewtask']}, torch {record['environment']['torch']} |",
        "",
    ]
    if "test" in record:
        lines += ["## Test tasks", "", "| task | episodes | accuracy |", "|---|---:|---:|"]
        lines += [
            f"| {t['task']} | {t['episodes']} | {100 * t['accuracy']:.2f} ± {100 * t['interval']:.2f} % |"
            for t in record["test"]["tasks"]
        ]
        lines += ["", "The intervals are over episodes of these tasks: they do not speak of other tasks or seeds.", ""]
    lines += ["## Tasks it learned from", ""]
    for split in ("train", "validation"):
        pool = pools.split(split)
        names = [t.name for t in pool.tasks] if not pool.is_class_pool else list(pool.class_names)
        lines.append(f"- {split}: {', '.join(names)}")
    return "\n".join([*lines, "", *pools.notes, "", *_use(pools)])


def _use(pools: Pools) -> list[str]:
    """Commands and code that work as pasted."""
    return [
        "## Use",
        "",
        "```",
        "fewtask evaluate .",
        "```",
        "",
        "In this folder; rows are features as in training, here random ones:",
        "",
        "```python",
        "import numpy as np",
        "from fewtask import MetaLearner",
        "",
        f"rows = np.random.default_rng(0).{_random_rows(pools)}",
        'classifier = MetaLearner.load(".").adapt(rows[:10], ["no"] * 5 + ["yes"] * 5)',
        "print(classifier.predict_proba(rows[10:]))",
        "```",
        "",
    ]


def _random_rows(pools: Pools) -> str:
    """Two more rows than are shown, of the type that the pool holds."""
    shape = (12, *pools.input_shape)
    if pools.train.rows.is_floating_point():
        return f"normal(size={shape})"
    return f"integers(0, 2, {shape}, dtype='{str(pools.train.rows.dtype).removeprefix('torch.')}')"
