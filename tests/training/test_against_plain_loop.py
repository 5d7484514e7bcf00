"""The training loop, step by step, against Algorithms 1 and 2 written out in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import plain_fomaml_loop
import plain_loop
import pytest
import torch

from fewtask.methods import make_method
from fewtask.pool import Dataset
from fewtask.protocol import draw_episodes
from fewtask.settings import RunSettings, update
from fewtask.tasks import TaskPool
from fewtask.training.history import History
from fewtask.training.loop import fit

FEATURES, PERIOD = 3, 5
SMALL = {
    "seed": 5,
    "episode": {"way": 2, "shot": 2, "query": 2, "batch": 2},
    "encoder": {"name": "mlp", "width": 3},
    "optimizer": {"lr": 0.02, "schedule": "linear"},
    "hyper": {"lr": 0.03, "period": PERIOD, "terms": 3},
    "set_function": {"hidden": 4, "heads": 2, "dropout": 0.0},
    "interpolation": {"layer": 1},
    "metareg": {"initial": 0.02},
    "adaptation": {"steps": 2, "lr": 0.3, "test_steps": 2},
    "train": {"steps": 10, "validate_every": 5, "validation_episodes": 6, "log_every": 1, "average": 0.8},
    "evaluation": {"query": 2},
}


def pool(seed: int) -> TaskPool:
    """Three fixed tasks of three classes whose rows are float64 and stay so."""
    rows = torch.randn(3 * 3 * 9, FEATURES, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    index = iter(np.arange(len(rows)).reshape(-1, 9))
    tasks = {f"task {t}": {f"class {t}.{c}": next(index) for c in range(3)} for t in range(3)}
    return TaskPool.fixed(rows, tasks, scale=None)


CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "metareg": ("metareg", {}),
    "metareg, two layers without BatchNorm": ("metareg", {"encoder": {"name": "text-head"}}),
    "protonet-st": ("protonet-st", {}),
    "protonet-st at the input": ("protonet-st", {"interpolation": {"layer": 0}}),
    "meta-interpolation": ("meta-interpolation", {}),
    "meta-interpolation below an affine layer": (
        "meta-interpolation",
        {"interpolation": {"layer": 2}, "encoder": {"name": "text-head"}, "optimizer": {"weight_decay": 0.1}},
    ),
    "meta-interpolation, halved validation": (
        "meta-interpolation",
        {"data": {"halve_validation": True, "seed": 3}, "encoder": {"name": "text-head"}},
    ),
    "meta-interpolation, learned share": (
        "meta-interpolation",
        {"interpolation": {"learn_weight": True, "weight": 0.3}},
    ),
    "meta-interpolation, joint": ("meta-interpolation", {"interpolation": {"bilevel": False}}),
    "protonet-st, joint": ("protonet-st", {"interpolation": {"bilevel": False}}),
    "fomaml-meta-interpolation": (
        "fomaml-meta-interpolation",
        {"encoder": {"name": "text-head", "width": 6}, "interpolation": {"weight": 0.4, "layer": 2}},
    ),
    "fomaml-meta-interpolation, one step, joint": (
        "fomaml-meta-interpolation",
        {"encoder": {"name": "text-head"}, "interpolation": {"bilevel": False}, "adaptation": {"steps": 1}},
    ),
}


# Shifts of all rows before BatchNorm and of all keys cancel: their slope is rounding alone, which Adam enlarges.
CANCEL = ("encoder.layers.0.1.bias", "encoder.layers.1.0.bias", "key.bias", "phi.output.bias", "phi.pool.norm.bias")


def assert_close(found: torch.Tensor, wanted: torch.Tensor, name: str) -> None:
    slack = 1e-5 if name.endswith(CANCEL) else 1e-7
    torch.testing.assert_close(found, wanted, rtol=1e-8, atol=slack, msg=lambda text: f"{name}: {text}")


@pytest.mark.parametrize("case", CASES)
def test_every_step_is_that_of_the_algorithms(case: str) -> None:
    name, changes = CASES[case]
    settings = update(update(RunSettings(method=name), SMALL), changes)
    train, validation = pool(1), pool(2)
    torch.manual_seed(0)
    method = make_method(settings, (FEATURES,)).double()
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.add_(0.2 * torch.rand_like(parameter))
    start = {key: value.detach().clone() for key, value in method.named_parameters()}
    outer = selection = validation
    if settings.data.halve_validation:
        outer, selection = validation.halves(settings.data.seed)
    torch.set_default_dtype(torch.float64)
    try:
        losses = (plain_fomaml_loop.training_loss, plain_fomaml_loop.episode_loss) if name.startswith("fomaml") else ()
        wanted = plain_loop.plain_run(settings, start, train, outer, PERIOD, *losses)
        history = History(None)
        state = fit(
            method, Dataset("toy", train, validation).pools(settings.data), history=history, show_progress=False
        )
    finally:
        torch.set_default_dtype(torch.float32)
    found = dict(method.named_parameters())
    assert found.keys() == wanted.weights.keys()
    for key, value in wanted.weights.items():
        assert_close(found[key].detach(), value, key)
    np.testing.assert_allclose([row["loss"] for row in history.rows if "loss" in row], wanted.losses, rtol=1e-9)
    for key, value in wanted.average.items():
        assert_close(state.average[key], value, key)
    if settings.encoder.name == "text-head" and not losses:
        # Without running statistics the averaged weights can be judged by the same few lines.
        episodes = draw_episodes(selection, 6, 2, 2, 2, settings.evaluation.seed)
        accuracy = plain_loop.plain_accuracy(wanted.average, selection, torch.from_numpy(episodes.rows), 2, settings)
        assert [row["validation_accuracy"] for row in history.rows if "validation_accuracy" in row][-1] == accuracy
