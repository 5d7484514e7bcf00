"""MLTI (Yao, Zhang, Finn, Meta-Learning with Fewer Tasks through Task Interpolation, ICLR 2022).

Two tasks, their classes paired at random; support mixed with support and query with query by one weight from
Beta(α, α) for each pair of tasks. Each pair of classes is a new class, so labels are not mixed.

Its authors' code throws a coin for each episode: on the biological data half of the episodes are mixed with another
task and half within the task (queries with other queries of the task, one weight an episode); on images CutMix takes
the place of mixing at a layer, and a task is mixed with another one or with itself, its classes paired anew (half and
half, on RMNIST three to one). There the partner is the next episode of the batch, here always another task; there each
episode is normalised by itself (`model.normalisation`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

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
    """Two tasks mixed, a task mixed within itself, or a task as it is: a step or an episode at a time."""

    name = "mlti"
    title = "MLTI"
    cost = 1.5
    summary = "two tasks' supports and queries mixed by Manifold Mixup"

    def check(self, train: TaskPool, validation: TaskPool) -> None:
        super().check(train, validation)
        mixup = self.settings.mixup
        if mixup.cross_task + mixup.within_task > 1:
            raise SettingsError(
                f"mixup.cross_task {mixup.cross_task:g} and mixup.within_task {mixup.within_task:g} are probabilities "
                "of different branches: their sum must be at most 1"
            )
        mixed = mixup.cross_task + (mixup.within_task if mixup.within == "classes" else 0)
        if mixed >= 1 and self.settings.model.clean_statistics:
            raise SettingsError(
                "every task is mixed as a whole, so that no pass is un-interpolated and running statistics would never "
                "be updated: set model.clean_statistics to False, or mixup.cross_task lower"
            )
        if mixup.cross_task and not train.is_class_pool and len(train.tasks) < 2:
            raise SettingsError("mlti mixes two tasks, and there is one training task")
        if mixup.cutmix and len(self.encoder.shapes[0]) != 3:
            raise SettingsError(f"mixup.cutmix is for images, and rows have shape {self.encoder.shapes[0]}")
        if mixup.label_sharing:
            check_shared_labels(train, "mixup.label_sharing")

    def mixed(self, h: Sequence[Tensor], way: int, shot: int) -> Tensor:
        weight = mixing_weight(self.settings.mixup.alpha, h[0].device)
        return weight * h[0] + (1 - weight) * h[1]

    def draw(self, sampler: EpisodeSampler) -> list[Episode]:
        e = self.settings.episode
        share = self.settings.mixup.label_sharing
        return sampler.sample_groups(e.batch, e.way, e.shot, e.query, size=2, partner_query=e.query, aligned=share)

    def training_loss(self, episodes: list[Episode]) -> Step:
        mixup = self.settings.mixup
        first = episodes[0]
        if mixup.coin == "step":
            return self.branch_loss(float(torch.rand(())), episodes)
        # Each episode throws its own coin; those that fall alike are computed together.
        chance = torch.rand(first.batch)
        bounds = torch.tensor([mixup.cross_task, mixup.cross_task + mixup.within_task])
        branch = torch.bucketize(chance, bounds, right=True)
        loss, rate = first.support.new_zeros(()), first.support.new_zeros(())
        for which in branch.unique():
            index = torch.nonzero(branch == which).squeeze(1)
            alike = [e.take(index.to(first.support.device)) for e in episodes]
            step = self.branch_loss(float(chance[index[0]]), alike)
            share = len(index) / first.batch
            loss, rate = loss + share * step.loss, rate + share * step.accuracy
        return Step(loss, rate)

    def branch_loss(self, chance: float, episodes: list[Episode]) -> Step:
        """One of the three losses, by a number between 0 and 1."""
        mixup = self.settings.mixup
        if chance < mixup.cross_task:
            return self.cross_task_loss(*episodes)
        if chance >= mixup.cross_task + mixup.within_task:
            return self.episode_loss(episodes[0])
        if mixup.within == "support":
            return self.mixed_query_loss(episodes[0])
        if mixup.within == "classes":
            return self.cross_task_loss(episodes[0], _classes_paired_anew(episodes[0]))
        return self.query_pair_loss(episodes[0])

    def query_pair_loss(self, episode: Episode) -> Step:
        """Every query mixed with another of its episode, and so its label, by one weight an episode."""
        B = episode.batch
        layer = self.step_layer()
        with self.passes(B, update=True):
            h = self.encoder.lower(join(episode.support, episode.query).flatten(0, 1), layer)
        support, query = part(h, episode)
        count = query.shape[1]
        partner = torch.rand(B, count).argsort(dim=1).to(h.device)
        weight = mixing_weight(self.settings.mixup.alpha, h.device, B).to(h.dtype).view(B, 1, 1)
        others = torch.gather(query, 1, partner.unsqueeze(-1).expand(-1, -1, query.shape[-1]))
        return self.two_label_step(
            episode, support, torch.lerp(others, query, weight), layer, partner // episode.queries, weight
        )

    def cross_task_loss(self, first: Episode, second: Episode) -> Step:
        B = first.batch
        # On the CPU, where it is drawn: rectangles are cut by its value.
        weight = mixing_weight(self.settings.mixup.alpha, torch.device("cpu"), B)
        pair = [join(e.support, e.query) for e in (first, second)]
        if self.settings.mixup.cutmix:
            # Support and queries have a rectangle each, as in the authors' code.
            count = first.way * first.shot
            cut = [
                torch.cat([_cut(one[:count], two[:count], float(w)), _cut(one[count:], two[count:], float(w))])
                for one, two, w in zip(*pair, weight)
            ]
            layer, mixed = 0, torch.cat(cut).flatten(1)
        else:
            layer = self.step_layer()
            with self.passes(B, update=layer > 0):
                # Each episode's two tasks side by side, so that episode normalisation sees them together.
                h = self.encoder.lower(torch.cat(pair, dim=1).flatten(0, 1), layer)
            one, two = h.view(B, -1, h.shape[-1]).chunk(2, dim=1)
            mixed = torch.lerp(two, one, weight.to(h).view(B, 1, 1)).flatten(0, 1)
        with self.passes(B, update=not self.settings.model.clean_statistics):
            z = self.encoder.upper(mixed, layer)
        support, query = part(z, first)
        return self.step(class_mean(support), query, first.labels())


def _classes_paired_anew(episode: Episode) -> Episode:
    """The same episodes with their classes in another random order."""
    order = torch.rand(episode.batch, episode.way).argsort(dim=1).to(episode.support.device)
    batch = torch.arange(episode.batch, device=order.device).unsqueeze(1)
    return Episode(
        episode.support[batch, order], episode.query[batch, order], episode.tasks, episode.classes[batch, order]
    )


def _cut(base: Tensor, patch: Tensor, weight: float) -> Tensor:
    """CutMix: a rectangle of 1 - weight of each image of `base` from `patch`, less what lies outside the image.

    Both are [M, C, H, W]; all M images have the same rectangle, whose centre is anywhere in the image.
    """
    height, width = base.shape[-2:]
    side = math.sqrt(1 - weight)
    tall, wide = int(height * side) // 2, int(width * side) // 2
    row, column = int(torch.randint(height, ())), int(torch.randint(width, ()))
    top, left = max(0, row - tall), max(0, column - wide)
    mixed = base.clone()
    inside = (..., slice(top, row + tall), slice(left, column + wide))
    mixed[inside] = patch[inside]
    return mixed
