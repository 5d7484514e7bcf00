"""Optimisers and schedules of θ and λ, from settings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from fewtask.errors import unknown
from fewtask.settings import OptimizerName, ScheduleName


def make_optimiser(
    name: OptimizerName,
    parameters: Iterable[nn.Parameter] | Iterable[dict[str, Any]],
    lr: float,
    weight_decay: float = 0.0,
) -> torch.optim.Optimizer:
    """`parameters` as torch takes them: all alike, or groups of which some have a rate of their own."""
    wanted: Any = list(parameters)
    if name not in get_args(OptimizerName):
        raise unknown("optimiser", name, get_args(OptimizerName))
    # One pass over the weights instead of one for each operation of the update.
    if name == "sgd":
        return torch.optim.SGD(wanted, lr=lr, weight_decay=weight_decay, fused=True)
    kind = torch.optim.Adam if name == "adam" else torch.optim.AdamW
    return kind(wanted, lr=lr, weight_decay=weight_decay, fused=True)


def make_schedule(name: ScheduleName, optimiser: torch.optim.Optimizer, updates: int) -> LambdaLR:
    """Constant, or falling linearly to nothing over so many updates."""
    if name not in get_args(ScheduleName):
        raise unknown("schedule", name, get_args(ScheduleName))
    if name == "constant":
        return LambdaLR(optimiser, lambda update: 1.0)
    return LambdaLR(optimiser, lambda update: max(0.0, 1.0 - update / max(1, updates)))


def adam_scale(optimiser: torch.optim.Optimizer) -> list[Tensor] | None:
    """What Adam multiplies each slope with, besides the learning rate; None before its first step and for others."""
    group = optimiser.param_groups[0]
    states = [optimiser.state[p] for p in group["params"]]
    if not all("exp_avg_sq" in state for state in states):
        return None
    rest = [1 - group["betas"][1] ** float(state["step"]) for state in states]
    return [1 / ((state["exp_avg_sq"] / r).sqrt() + group["eps"]) for state, r in zip(states, rest)]


def learning_rate(optimiser: torch.optim.Optimizer) -> float:
    return float(optimiser.param_groups[0]["lr"])
