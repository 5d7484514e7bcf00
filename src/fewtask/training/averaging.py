"""An exponential average of θ, which is validated, selected and saved in its place where it is switched on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from fewtask.methods import Method


def theta_by_name(method: Method) -> list[tuple[str, nn.Parameter]]:
    inner = {id(p) for p in method.inner()}
    return [(name, p) for name, p in method.named_parameters() if id(p) in inner]


def start_average(method: Method) -> dict[str, Tensor]:
    """A copy of θ to begin with; empty where averaging is off."""
    if not method.settings.train.average:
        return {}
    return {name: p.detach().clone() for name, p in theta_by_name(method)}


def move_average(method: Method, average: dict[str, Tensor], step: int) -> None:
    """average <- decay · average + (1 - decay) · θ."""
    if not average:
        return
    # A young average leans on the newest weights, so that it forgets the initialisation.
    decay = min(method.settings.train.average, (1 + step) / (10 + step))
    theta = theta_by_name(method)
    with torch.no_grad():
        torch._foreach_lerp_([average[name] for name, _ in theta], [p.detach() for _, p in theta], 1 - decay)


@contextmanager
def averaged(method: Method, average: dict[str, Tensor]) -> Iterator[None]:
    """Within the block θ is its average."""
    parameters = dict(method.named_parameters())
    kept = {name: parameters[name].detach().clone() for name in average}
    _copy(average, parameters)
    try:
        yield
    finally:
        _copy(kept, parameters)


@torch.no_grad()
def _copy(values: dict[str, Tensor], parameters: dict[str, nn.Parameter]) -> None:
    for name, value in values.items():
        parameters[name].copy_(value)
