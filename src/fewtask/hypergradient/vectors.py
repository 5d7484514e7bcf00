"""Algebra of vectors that are lists of tensors, shaped like the parameters that they belong to."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


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


def add(total: list[Tensor], term: Sequence[Tensor], factor: float = 1.0) -> None:
    for whole, part in zip(total, term):
        whole.add_(part, alpha=factor)


def scaled(vectors: Sequence[Tensor], factor: float) -> list[Tensor]:
    return [factor * v for v in vectors]


def dot(one: Sequence[Tensor], two: Sequence[Tensor]) -> float:
    return float(torch.stack([(a.double() * b.double()).sum() for a, b in zip(one, two)]).sum())


def norm(vectors: Sequence[Tensor]) -> float:
    """Euclidean length of all tensors together; infinite where any number is not finite."""
    # Added up in float64 without a copy in it: λ has millions of numbers.
    lengths = [torch.linalg.vector_norm(v.detach(), dtype=torch.float64) for v in vectors]
    length = float(torch.linalg.vector_norm(torch.stack(lengths)))
    return length if length == length else float("inf")


def flat(vectors: Sequence[Tensor]) -> Tensor:
    return torch.cat([v.reshape(-1) for v in vectors])


def shaped(vector: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """A flat vector cut into pieces of the given shapes."""
    return [part.view(x.shape) for part, x in zip(vector.split([x.numel() for x in like]), like)]
