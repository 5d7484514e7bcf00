"""MLTI (Yao, Zhang, Finn, Meta-Learning with Fewer Tasks through Task Interpolation, ICLR 2022).

Two tasks, their classes paired at random; support mixed with support and query with query by one weight from
Beta(α, α) for each pair of tasks. Each pair of classes is a new class, so labels are not mixed.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fewtask.episodes import Episode
from fewtask.errors import SettingsError
from fewtask.methods.base import Step, check_shared_labels, join, part
from fewtask.methods.metric import class_mean, mixing_weight
from fewtask.methods.mixing import MixingMethod
from fewtask.pool import TaskPool
from fewtask.sampler import EpisodeSampler


class MLTI(MixingMethod):
    """In each step: two tasks mixed, one task's queries mixed with its support, or a task as it is."""

    name = "mlti"
    summary = "two tasks' supports and queries mixed by Manifold Mixup"

    def check(self, train: TaskPool, validation: TaskPool) -> None:
        super().check(train, validation)
        mixup = self.settings.mixup
        if min(mixup.cross_task, mixup.within_task) < 0 or mixup.cross_task + mixup.within_task > 1:
            raise SettingsError(
                f"mixup.cross_task {mixup.cross_task:g} and mixup.within_task {mixup.within_task:g} are probabilities "
                "of different branches: their sum must be between 0 and 1"
            )
        if mixup.cross_task == 1 and self.settings.model.clean_statistics:
            raise SettingsError(
                "with mixup.cross_task 1 no pass is un-interpolated, and running statistics would never be updated: "
                "set model.clean_statistics to False or mixup.cross_task below 1"
            )
        if mixup.cross_task and not train.is_class_pool and len(train.tasks) < 2:
            raise SettingsError("mlti mixes two tasks, and there is one training task")
        if mixup.cutmix and len(self.encoder.shapes[0]) != 3:
            raise SettingsError(f"mixup.cutmix is for images, and rows have shape {self.encoder.shapes[0]}")
        if mixup.label_sharing:
            check_shared_labels(train, "mixup.label_sharing")

    def draw(self, sampler: EpisodeSampler) -> list[Episode]:
        e = self.settings.episode
        share = self.settings.mixup.label_sharing
        return sampler.sample_groups(e.batch, e.way, e.shot, e.query, size=2, partner_query=e.query, aligned=share)

    def training_loss(self, episodes: list[Episode]) -> Step:
        mixup = self.settings.mixup
        chance = float(torch.rand(()))
        if chance < mixup.cross_task:
            return self.cross_task_loss(*episodes)
        if chance < mixup.cross_task + mixup.within_task:
            return self.mixed_query_loss(episodes[0])
        return self.episode_loss(episodes[0])

    def cross_task_loss(self, first: Episode, second: Episode) -> Step:
        B = first.batch
        weight = mixing_weight(self.settings.mixup.alpha, first.support.device, B)
        pair = [join(e.support, e.query) for e in (first, second)]
        if self.settings.mixup.cutmix:
            cut = [_cut(one, two, float(w)) for one, two, w in zip(*pair, weight)]
            layer, mixed = 0, torch.cat(cut).flatten(1)
        else:
            layer = self.step_layer()
            with self.passes(B, update=layer > 0):
                # Each episode's two tasks side by side, so that episode normalisation sees them together.
                h = self.encoder.lower(torch.cat(pair, dim=1).flatten(0, 1), layer)
            one, two = h.view(B, -1, h.shape[-1]).chunk(2, dim=1)
            mixed = torch.lerp(two, one, weight.to(h.dtype).view(B, 1, 1)).flatten(0, 1)
        with self.passes(B, update=not self.settings.model.clean_statistics):
            z = self.encoder.upper(mixed, layer)
        support, query = part(z, first)
        return self.step(class_mean(support), query, first.labels())


def _cut(base: Tensor, patch: Tensor, weight: float) -> Tensor:
    """CutMix: a rectangle of 1 - weight of each image of `base` from `patch`; both [M, C, H, W]."""
    height, width = base.shape[-2:]
    side = math.sqrt(1 - weight)
    tall, wide = round(height * side), round(width * side)
    top = int(torch.randint(height - tall + 1, ()))
    left = int(torch.randint(width - wide + 1, ()))
    mixed = base.clone()
    mixed[..., top : top + tall, left : left + wide] = patch[..., top : top + tall, left : left + wide]
    return mixed
