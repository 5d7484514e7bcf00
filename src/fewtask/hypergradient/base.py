"""What every hypergradient estimator is given, and the vector algebra on lists of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Loss = Tensor | Callable[[], Tensor]
Report = dict[str, Any]


@dataclass(frozen=True)
class Problem:
    """The inner problem at one point.

    train_loss:       the inner loss; a callable replays the same batch and random state.
    theta, lam:       lists of tensors.
    train_grad:       ∂L_tr/∂θ with its graph.
    validation_theta: ∂L_V/∂θ, detached.
    """

    train_loss: Loss
    theta: Sequence[Tensor]
    lam: Sequence[Tensor]
    train_grad: Sequence[Tensor]
    validation_theta: list[Tensor]


def evaluate(loss: Loss) -> Tensor:
    return loss() if callable(loss) else loss


def products(outputs: Sequence[Tensor], inputs: Sequence[Tensor], vectors: Sequence[Tensor]) -> list[Tensor]:
    """vᵀ ∂outputs/∂inputs, with zeros where there is no path; the graph is kept."""
    pairs = [(out, vector) for out, vector in zip(outputs, vectors) if out.requires_grad]
    if not pairs or not inputs:
        return [torch.zeros_like(x) for x in inputs]
    result = torch.autograd.grad(
        [out for out, _ in pairs],
        inputs,
        grad_outputs=[vector for _, vector in pairs],
        retain_graph=True,
        allow_unused=True,
    )
    return [torch.zeros_like(x) if r is None else r.detach() for x, r in zip(inputs, result)]


def add(total: list[Tensor], term: Sequence[Tensor]) -> None:
    for whole, part in zip(total, term):
        whole.add_(part)


def norm(vectors: Sequence[Tensor]) -> float:
    """Euclidean length of all tensors together; infinite where any number is not finite."""
    length = float(torch.stack([v.detach().double().pow(2).sum() for v in vectors]).sum().sqrt())
    return length if length == length else float("inf")
