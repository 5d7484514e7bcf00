"""Prototypes, distances and the loss that they give (Eq. 1 and 2 of the paper)."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

Distance = Literal["squared-euclidean", "euclidean"]


def prototype_logits(prototypes: Tensor, queries: Tensor, distance: Distance) -> Tensor:
    """Minus the distance of each query to each prototype: [B, K, D], [B, M, D] -> [B, M, K].

    By matrix products rather than cdist, which has no second derivative.
    """
    cross = queries @ prototypes.transpose(1, 2)
    squared = queries.pow(2).sum(-1, keepdim=True) - 2 * cross + prototypes.pow(2).sum(-1).unsqueeze(1)
    if distance == "squared-euclidean":
        return -squared
    return -squared.clamp_min(1e-12).sqrt()


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean over episodes and queries: logits [B, M, K], labels [M] or [B, M] -> scalar."""
    return F.cross_entropy(logits.flatten(0, 1), labels.expand(logits.shape[:2]).reshape(-1))


def accuracy(logits: Tensor, labels: Tensor) -> Tensor:
    """Share of queries whose nearest prototype is their own class's."""
    return (logits.detach().argmax(-1) == labels).float().mean()


def class_mean(embedded: Tensor) -> Tensor:
    """Prototypes: [B, K, N, D] -> [B, K, D]."""
    return embedded.mean(dim=2)


def mixing_weight(alpha: float, device: torch.device, count: int = 1) -> Tensor:
    """[count] weights from Beta(alpha, alpha), drawn from torch's generator so that a run can be continued."""
    gamma = torch._standard_gamma(torch.full((2, count), alpha))
    return (gamma[0] / gamma.sum(0).clamp_min(1e-12)).to(device)
