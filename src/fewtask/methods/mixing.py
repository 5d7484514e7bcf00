"""Manifold Mixup of queries with support points of the same episode, which MetaMix and MLTI share."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from fewtask.episodes import Episode
from fewtask.methods.base import Method, Step, join, part
from fewtask.methods.metric import accuracy, class_mean, mixing_weight
from fewtask.pool import TaskPool


class MixingMethod(Method):
    """Mixes features at a layer."""

    groups: ClassVar[tuple[str, ...]] = ("interpolation", "mixup")

    def check(self, train: TaskPool, validation: TaskPool) -> None:
        super().check(train, validation)
        self.encoder.check_layer(self.settings.interpolation.layer)

    def step_layer(self) -> int:
        """The layer of this step."""
        top = self.settings.interpolation.layer
        return int(torch.randint(top + 1, ())) if self.settings.mixup.random_layer else top

    def mixed_query_loss(self, episode: Episode) -> Step:
        """Support as it is; every query mixed with a random support row of its episode, and so its label.

        L = w · CE(query's class) + (1 - w) · CE(support row's class), w ~ Beta(α, α) for each query.
        """
        B, K, N = episode.batch, episode.way, episode.shot
        layer = self.step_layer()
        with self.passes(B, update=True):
            h = self.encoder.lower(join(episode.support, episode.query).flatten(0, 1), layer)
        support, query = part(h, episode)
        count = query.shape[1]
        partner = torch.randint(K * N, (B, count)).to(h.device)
        weight = mixing_weight(self.settings.mixup.alpha, h.device, B * count).view(B, count, 1)
        rows = support.flatten(1, 2)
        others = torch.gather(rows, 1, partner.unsqueeze(-1).expand(-1, -1, rows.shape[-1]))
        mixed = weight * query + (1 - weight) * others
        return self.two_label_step(episode, support, mixed, layer, partner // N, weight)

    def two_label_step(
        self, episode: Episode, support: Tensor, mixed: Tensor, layer: int, other: Tensor, weight: Tensor
    ) -> Step:
        """The loss of mixed queries [B, M, d] with the labels of both: w · CE(own) + (1 - w) · CE(other [B, M])."""
        B, K, N = episode.batch, episode.way, episode.shot
        with self.passes(B, update=True):
            z_support = self.encoder.upper(support.flatten(0, 2), layer).view(B, K, N, -1)
        with self.passes(B, update=not self.settings.model.clean_statistics):
            z_query = self.encoder.upper(mixed.flatten(0, 1), layer).view(B, mixed.shape[1], -1)
        logits = self.scores(class_mean(z_support), z_query)
        labels = episode.labels()
        return Step(_mixed_loss(logits, labels, other, weight.squeeze(-1)), accuracy(logits, labels))


def _mixed_loss(logits: Tensor, own: Tensor, other: Tensor, weight: Tensor) -> Tensor:
    """Cross-entropy to two labels: logits [B, M, K], own [M], other [B, M], weight [B, M] -> scalar."""
    logp = torch.log_softmax(logits, dim=-1)
    first = logp.gather(2, own.expand(logits.shape[:2]).unsqueeze(-1)).squeeze(-1)
    second = logp.gather(2, other.unsqueeze(-1)).squeeze(-1)
    return -(weight * first + (1 - weight) * second).mean()
