"""The one noun of the house: an episode, or rather a batch of B of them.

Shapes use one alphabet everywhere: B episodes, K classes, N support rows a class, Q query rows a class, d the
width at the interpolated layer, D the width of the embedding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Episode:
    """A batch of few-shot tasks.

    support: [B, K, N, ...] rows, decoded to what the encoder takes.
    query:   [B, K, Q, ...] rows, disjoint from the support. Q may be 0 for a partner task.
    tasks:   [B] index of the task in its pool.
    classes: [B, K] index of each class in its pool; the order within an episode is random.
    """

    support: Tensor
    query: Tensor
    tasks: Tensor
    classes: Tensor

    @property
    def batch(self) -> int:
        return self.support.shape[0]

    @property
    def way(self) -> int:
        return self.support.shape[1]

    @property
    def shot(self) -> int:
        return self.support.shape[2]

    @property
    def queries(self) -> int:
        return self.query.shape[2]

    def take(self, index: Tensor) -> Episode:
        """Some of the episodes, by their positions in the batch."""
        return Episode(self.support[index], self.query[index], self.tasks[index], self.classes[index])

    def labels(self) -> Tensor:
        """[K * Q] labels of the flattened queries, the same for each of the B episodes."""
        return torch.arange(self.way, device=self.query.device).repeat_interleave(self.queries)
