"""An exponential average of the weights, which is validated, selected and saved where it is switched on.

θ and λ are averaged alike, because each belongs to the other, and so are the running statistics of normalisation
layers, which belong to both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from fewtask.methods import Method

OUTER_EVERY = 10
"""λ is large and moves seldom: its average moves every so many steps, by as much at once."""


def inner_tensors(method: Method) -> dict[str, Tensor]:
    """θ and the running statistics by name, without gradients."""
    inner = {id(p) for p in method.inner()}
    tensors = {name: p.detach() for name, p in method.named_parameters() if id(p) in inner}
    return tensors | {name: b for name, b in method.encoder.named_buffers("encoder") if b.is_floating_point()}


def outer_tensors(method: Method) -> dict[str, Tensor]:
    """λ by name, without gradients."""
    outer = {id(p) for p in method.outer()}
    return {name: p.detach() for name, p in method.named_parameters() if id(p) in outer}


def start_average(method: Method) -> dict[str, Tensor]:
    """A copy to begin with; empty where averaging is off."""
    if not method.settings.train.average:
        return {}
    return {name: value.clone() for name, value in (inner_tensors(method) | outer_tensors(method)).items()}


def move_average(method: Method, average: dict[str, Tensor], step: int) -> None:
    """average <- decay · average + (1 - decay) · weights."""
    if not average:
        return
    # A young average leans on the newest weights, so that it forgets the initialisation.
    decay = min(method.settings.train.average, (1 + step) / (10 + step))
    _lerp(average, inner_tensors(method), 1 - decay)
    if (step + 1) % OUTER_EVERY == 0:
        _lerp(average, outer_tensors(method), 1 - decay**OUTER_EVERY)


@contextmanager
def averaged(method: Method, average: dict[str, Tensor]) -> Iterator[None]:
    """Within the block the weights are their average."""
    if not average:
        yield
        return
    current = inner_tensors(method) | outer_tensors(method)
    kept = {name: value.clone() for name, value in current.items()}
    _copy(average, current)
    try:
        yield
    finally:
        _copy(kept, current)


@torch.no_grad()
def _lerp(average: dict[str, Tensor], current: dict[str, Tensor], weight: float) -> None:
    if current:
        torch._foreach_lerp_([average[name] for name in current], list(current.values()), weight)


@torch.no_grad()
def _copy(values: dict[str, Tensor], into: dict[str, Tensor]) -> None:
    for name, value in values.items():
        into[name].copy_(value)
