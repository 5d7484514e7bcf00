"""Centroid: prototypes of the input features themselves, nothing trained.

It answers the first question of every user: did meta-learning help at all?
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from fewtask.methods.base import Method
from fewtask.pool import TaskPool
from fewtask.settings import RunSettings

PREPARATIONS = ("raw", "standardised", "unit")


class Centroid(Method):
    """Rows as they are, standardised on the training tasks, or of unit length; chosen on meta-validation."""

    name = "centroid"
    title = "Centroid (untrained)"
    cost = 0.0
    summary = "nearest class mean of the input features as they are, nothing trained"
    groups = ("centroid",)
    trained = False
    scaled = False

    mean: Tensor
    deviation: Tensor
    choice: Tensor

    def __init__(self, settings: RunSettings, input_shape: tuple[int, ...]) -> None:
        super().__init__(settings, input_shape)
        width = self.encoder.width(0)
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("deviation", torch.ones(width))
        self.register_buffer("choice", torch.zeros((), dtype=torch.int64))

    def prepare(self, train: TaskPool, accuracy: Callable[[], float]) -> None:
        rows = train.gather(_used(train)).flatten(1)
        self.mean.copy_(rows.mean(0))
        self.deviation.copy_(rows.std(0).clamp_min(1e-6))
        wanted = self.settings.centroid.preparation
        if wanted != "auto":
            self.choice.fill_(PREPARATIONS.index(wanted))
            return
        accuracies = []
        for index in range(len(PREPARATIONS)):
            self.choice.fill_(index)
            accuracies.append(accuracy())
        self.choice.fill_(accuracies.index(max(accuracies)))

    def features(self, rows: Tensor) -> Tensor:
        rows = rows.flatten(1)
        preparation = PREPARATIONS[int(self.choice)]
        if preparation == "standardised":
            return (rows - self.mean) / self.deviation
        return F.normalize(rows, dim=1) if preparation == "unit" else rows


def _used(pool: TaskPool) -> Tensor:
    return torch.unique(torch.cat([torch.from_numpy(rows) for rows in pool.class_rows]))
