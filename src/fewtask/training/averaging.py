"""An exponential average of θ, which is validated, selected and saved in its place where it is switched on.

Running statistics of normalisation layers are averaged alike: they belong to the weights that made them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from fewtask.methods import Method


def averaged_tensors(method: Method) -> dict[str, Tensor]:
    """θ and the running statistics by name, without gradients."""
    inner = {id(p) for p in method.inner()}
    tensors = {name: p.detach() for name, p in method.named_parameters() if id(p) in inner}
    return tensors | {name: b for name, b in method.encoder.named_buffers("encoder") if b.is_floating_point()}


def start_average(method: Method) -> dict[str, Tensor]:
    """A copy to begin with; empty where averaging is off."""
    if not method.settings.train.average:
        return {}
    return {name: value.clone() for name, value in averaged_tensors(method).items()}


def move_average(method: Method, average: dict[str, Tensor], step: int) -> None:
    """average <- decay · average + (1 - decay) · θ."""
    if not average:
        return
    # A young average leans on the newest weights, so that it forgets the initialisation.
    decay = min(method.settings.train.average, (1 + step) / (10 + step))
    current = averaged_tensors(method)
    with torch.no_grad():
        torch._foreach_lerp_([average[name] for name in current], list(current.values()), 1 - decay)


@contextmanager
def averaged(method: Method, average: dict[str, Tensor]) -> Iterator[None]:
    """Within the block θ is its average."""
    if not average:
        yield
        return
    current = averaged_tensors(method)
    kept = {name: value.clone() for name, value in current.items()}
    _copy(average, current)
    try:
        yield
    finally:
        _copy(kept, current)


@torch.no_grad()
def _copy(values: dict[str, Tensor], into: dict[str, Tensor]) -> None:
    for name, value in values.items():
        into[name].copy_(value)
