"""A method that has been shown the labelled rows of one new task.

Episodes of training have as many rows of each class. A new task has what its user could get: here the rows come with
integer labels, any number of each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Adapted:
    """What a method makes of the support of one task; queries are what `Method.embed` gave.

    scores:     queries [M, ...] -> [M, K].
    place:      queries [M, ...] -> [M, D], where distances to prototypes are measured.
    prototypes: [K, D], the mean of each class's support there.
    """

    scores: Callable[[Tensor], Tensor]
    place: Callable[[Tensor], Tensor]
    prototypes: Tensor

    def distances(self, queries: Tensor) -> Tensor:
        """[M] Euclidean distance of each query to the nearest prototype."""
        return torch.cdist(self.place(queries), self.prototypes).amin(dim=1)

    def spread(self) -> Tensor:
        """[] Mean squared distance between two prototypes; never 0, so that its logarithm is a number."""
        classes = len(self.prototypes)
        points = self.prototypes.double()
        # Each pair from both sides: twice the sum of squared distances to the mean, times the number of classes.
        total = 2 * classes * (points - points.mean(dim=0)).square().sum()
        return (total / (classes * (classes - 1))).clamp_min(torch.finfo(torch.float32).tiny)


def label_means(rows: Tensor, labels: Tensor, classes: int) -> Tensor:
    """Mean of the rows of each class: rows [S, D], labels [S] from 0 to K - 1, each at least once -> [K, D]."""
    sums = rows.new_zeros(classes, rows.shape[1]).index_add_(0, labels, rows)
    return sums / torch.bincount(labels, minlength=classes).unsqueeze(1)


def balanced_weights(labels: Tensor, classes: int) -> Tensor:
    """[S] weights of rows that sum to 1, every class's to the same, however many rows it has; in double precision."""
    return 1.0 / (classes * torch.bincount(labels, minlength=classes)[labels]).double()
