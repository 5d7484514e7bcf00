"""Small methods in float64 with every parameter random, random episodes for them, and how two losses compare."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fewtask.episodes import Episode
from fewtask.methods import Method, make_method
from fewtask.methods.metric import mixing_weight
from fewtask.pool import TaskPool
from fewtask.settings import RunSettings, update

FEATURES = (6,)
IMAGES = (2, 16, 16)


def tiny(name: str, changes: dict[str, Any] | None = None, shape: tuple[int, ...] = FEATURES) -> Method:
    settings = update(
        RunSettings(method=name),
        {
            "episode": {"way": 3, "shot": 2, "query": 2, "batch": 2},
            "encoder": {"name": "mlp" if len(shape) == 1 else "conv4", "width": 5 if len(shape) == 1 else 2},
            "set_function": {"hidden": 12, "heads": 2, "dropout": 0.0},
            "adaptation": {"steps": 2, "test_steps": 3, "lr": 0.1},
        },
    )
    torch.manual_seed(0)
    method = make_method(update(settings, changes or {}), shape).double().train()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.3)
    return method


def random_episodes(
    method: Method, size: int = 1, partner_query: int = 0, shape: tuple[int, ...] = FEATURES, seed: int = 2
) -> list[Episode]:
    """A group of `size` random episodes as the sampler would give it."""
    e = method.settings.episode
    generator = torch.Generator().manual_seed(seed)
    group = []
    for member in range(size):
        queries = e.query if member == 0 else partner_query
        rows = torch.randn(e.batch, e.way, e.shot + queries, *shape, generator=generator, dtype=torch.float64)
        nothing = torch.zeros(e.batch, dtype=torch.int64)
        group.append(
            Episode(rows[:, :, : e.shot], rows[:, :, e.shot :], nothing, nothing[:, None].expand(-1, e.way).clone())
        )
    return group


def assert_same(method: Method, got: Tensor, wanted: Tensor) -> None:
    """The same value, and the same gradient with respect to every parameter."""
    torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-11)
    parameters = [p for p in method.parameters() if p.requires_grad]
    slopes = torch.autograd.grad(got, parameters, allow_unused=True)
    expected = torch.autograd.grad(wanted, parameters, allow_unused=True)
    assert any(e is not None and e.abs().max() > 1e-6 for e in expected)
    for p, a, b in zip(parameters, slopes, expected):
        zero = torch.zeros_like(p)
        torch.testing.assert_close(zero if a is None else a, zero if b is None else b, rtol=1e-6, atol=1e-9)


def toy_pool(
    tasks: int = 3, classes: int = 3, rows: int = 12, shape: tuple[int, ...] = FEATURES, names: str = "same"
) -> TaskPool:
    """Fixed tasks (or, with one task, a class pool) of random rows."""
    generator = torch.Generator().manual_seed(3)
    values = torch.randn(tasks * classes * rows, *shape, generator=generator)
    index = iter(np.arange(len(values)).reshape(-1, rows))
    members = {
        f"task {t}": {f"{c}" if names == "same" else f"{t}.{c}": next(index) for c in range(classes)}
        for t in range(tasks)
    }
    return TaskPool.fixed(values, members)


class Draws:
    """Lets a method draw as it does, and keeps what it drew."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.weights: list[Tensor] = []
        self.integers: list[Tensor] = []
        randint = torch.randint

        def weight(*arguments: Any) -> Tensor:
            self.weights.append(mixing_weight(*arguments).double())
            return self.weights[-1]

        def integer(*arguments: Any, **options: Any) -> Tensor:
            self.integers.append(randint(*arguments, **options))
            return self.integers[-1]

        for module in ("mixing", "mlti", "fomaml_mlti"):
            monkeypatch.setattr(f"fewtask.methods.{module}.mixing_weight", weight)
        monkeypatch.setattr(torch, "randint", integer)
