"""First-order MAML on tasks mixed by MLTI."""

from __future__ import annotations

import torch
from torch import Tensor

from fewtask.episodes import Episode
from fewtask.errors import SettingsError
from fewtask.methods.base import Step
from fewtask.methods.fomaml import FOMAML, Weights
from fewtask.methods.metric import mixing_weight
from fewtask.methods.mlti import MLTI
from fewtask.pool import TaskPool


class FOMAMLWithMLTI(FOMAML, MLTI):
    """Support and queries of two tasks are mixed before the inner steps."""

    name = "fomaml-mlti"
    title = "FOMAML + MLTI"
    cost = 14.0
    summary = "first-order MAML on tasks mixed by MLTI"
    groups = ("adaptation", "interpolation", "mixup")

    def check(self, train: TaskPool, validation: TaskPool) -> None:
        super().check(train, validation)
        for name in ("within_task", "cutmix"):
            if getattr(self.settings.mixup, name):
                raise SettingsError(f"{self.name} mixes two tasks at a layer only: mixup.{name} must be off")

    def cross_task_loss(self, first: Episode, second: Episode) -> Step:
        weight = mixing_weight(self.settings.mixup.alpha, first.support.device, first.batch)
        layer = self.step_layer()

        def mixed(weights: Weights, b: int, one: Tensor, two: Tensor) -> Tensor:
            def computation() -> Tensor:
                h, other = self.encoder.lower(torch.cat([one[b], two[b]]).flatten(0, 1), layer).chunk(2)
                return self.head(self.encoder.upper(torch.lerp(other, h, weight[b].to(h.dtype)), layer))

            with self.passes(1, update=False):
                return self.compute(weights, computation)

        return self.adapted_loss(
            first.batch,
            lambda weights, b: mixed(weights, b, first.support, second.support),
            lambda weights, b: mixed(weights, b, first.query, second.query),
        )
