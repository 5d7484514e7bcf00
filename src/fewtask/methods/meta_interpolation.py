"""Meta-Interpolation (Lee, Andreis, Kawaguchi, Lee, Hwang, NeurIPS 2022).

A set function φ_λ merges hidden features of the support sets of two tasks into those of a new, harder one; the
network learns from both, and λ so that it does well on validation tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from fewtask.episodes import Episode
from fewtask.errors import SettingsError
from fewtask.methods.base import Step, check_shared_labels, join
from fewtask.methods.metric import class_mean
from fewtask.methods.set_based import SetMethod
from fewtask.pool import TaskPool
from fewtask.sampler import EpisodeSampler
from fewtask.settings import RunSettings


class MetaInterpolation(SetMethod):
    """L_tr = (L_singleton + L_mix) / 2 (Eq. 3 and 4, Algorithm 1), or with another share of L_mix."""

    name = "meta-interpolation"
    title = "Meta-Interpolation"
    cost = 5.0
    summary = "learned interpolation of tasks by a set function, trained with hypergradients"

    def __init__(self, settings: RunSettings, input_shape: tuple[int, ...]) -> None:
        super().__init__(settings, input_shape)
        # The share as a logit, so that it stays between 0 and 1 however far it is taken.
        share = min(max(settings.interpolation.weight, 1e-6), 1 - 1e-6)
        learned = settings.interpolation.learn_weight
        self.share_logit = nn.Parameter(torch.tensor(share).logit()) if learned else None

    def outer(self) -> list[nn.Parameter]:
        return [*super().outer(), *([] if self.share_logit is None else [self.share_logit])]

    def outer_groups(self) -> list[dict[str, Any]]:
        if self.share_logit is None:
            return super().outer_groups()
        share = {"params": [self.share_logit], "lr": self.settings.hyper.weight_lr}
        phi = super().outer()
        return [{"params": phi}, share] if phi else [share]

    def outer_report(self) -> dict[str, Any]:
        return {} if self.share_logit is None else {"weight": float(self.share_logit.detach().sigmoid())}

    def share(self) -> Tensor | float:
        """The share of the mix loss in L_tr."""
        return self.settings.interpolation.weight if self.share_logit is None else self.share_logit.sigmoid()

    def mixed(self, h: Sequence[Tensor], way: int, shot: int) -> Tensor:
        return self.merge(torch.cat(list(h)), set_index(way, shot, 2, self.settings.interpolation.pairs, h[0].device))

    def check(self, train: TaskPool, validation: TaskPool) -> None:
        super().check(train, validation)
        mix, episode = self.settings.interpolation, self.settings.episode
        if mix.cardinality > 2 and mix.pairs == "all":
            raise SettingsError(
                f"interpolation.pairs 'all' with sets of {mix.cardinality} would be "
                f"{episode.shot}^{mix.cardinality} sets a class: use 'matched'"
            )
        if mix.strategy == "support+noise" and mix.cardinality != 2:
            raise SettingsError("strategy 'support+noise' pairs each row with one noise vector: cardinality must be 2")
        if self.partners and not train.is_class_pool and mix.cardinality > len(train.tasks):
            raise SettingsError(
                f"sets of {mix.cardinality} tasks need as many training tasks, and there are {len(train.tasks)}"
            )
        if mix.learn_weight and not (mix.bilevel and mix.singleton_loss):
            raise SettingsError(
                "interpolation.learn_weight needs interpolation.bilevel and interpolation.singleton_loss: a share that "
                "is learned on the training loss would choose the easier of its two parts"
            )
        if mix.label_sharing:
            check_shared_labels(train, "interpolation.label_sharing")

    @property
    def partners(self) -> int:
        """How many tasks an episode is merged with."""
        mix = self.settings.interpolation
        return 0 if mix.strategy == "support+noise" else mix.cardinality - 1

    def draw(self, sampler: EpisodeSampler) -> list[Episode]:
        e = self.settings.episode
        mix = self.settings.interpolation
        partner_query = e.query if mix.strategy in ("query", "support+query") else 0
        size = 1 + self.partners
        return sampler.sample_groups(e.batch, e.way, e.shot, e.query, size, partner_query, aligned=mix.label_sharing)

    def interpolates(self) -> bool:
        """Whether this step does; one that updates λ always does, or there would be nothing to learn from."""
        share = self.settings.interpolation.share
        if share >= 1 or (self.bilevel and any(p.requires_grad for p in self.outer())):
            return True
        return bool(torch.rand(()) < share)

    def training_loss(self, episodes: list[Episode]) -> Step:
        mix = self.settings.interpolation
        if not self.interpolates():
            return self.episode_loss(episodes[0])
        mixes_support, mixes_query = mix.strategy != "query", mix.strategy in ("query", "support+query")
        support, query = self.lower(episodes)
        plain = []
        if mix.singleton_loss or not mixes_support:
            plain.append(support[0])
        if mix.singleton_loss or not mixes_query:
            plain.append(query[0])
        groups = ([support] if mixes_support else []) + ([query] if mixes_query else [])
        # Of supports only class means count: they are taken before whatever is affine.
        only_means = support if self.encoder.affine_above(self.layer) else []
        alone, merged = self.interpolate(plain, groups, only_means)
        clean = self.upper(alone, update=True) if alone else []
        mixed = [self.upper([sets], update=not self.settings.model.clean_statistics)[0] for sets in merged]
        z_support, z_query = mixed[0] if mixes_support else clean[0], mixed[-1] if mixes_query else clean[-1]
        mix_step = self.compare(z_support, z_query)
        if not mix.singleton_loss:
            return mix_step
        singleton = self.compare(clean[0], clean[1])
        return self.weighted(singleton, mix_step)

    def weighted(self, singleton: Step, mix: Step) -> Step:
        """L_tr = (1 - w) L_singleton + w L_mix (Eq. 4 has w = 1/2)."""
        share = self.share()
        return Step((1 - share) * singleton.loss + share * mix.loss, singleton.accuracy)

    def compare(self, support: Tensor, query: Tensor) -> Step:
        """Embedded support [B, K, n, D] and queries [B, K, m, D] to loss and accuracy."""
        labels = torch.arange(query.shape[1], device=query.device).repeat_interleave(query.shape[2])
        return self.step(class_mean(support), query.flatten(1, 2), labels)

    def lower(self, episodes: list[Episode], update: bool = True) -> tuple[list[Tensor], list[Tensor]]:
        """Features at the cut of the supports [B, K, N, d] and the queries [B, K, Q, d] of a group, in one pass."""
        sets = [e.support for e in episodes] + [e.query for e in episodes]
        rows = join(*sets)
        with self.passes(rows.shape[0], update=update):
            h = self.encoder.lower(rows.flatten(0, 1), self.layer)
        h = h.view(*rows.shape[:2], -1)
        sizes = [s.shape[1] * s.shape[2] for s in sets]
        parts = [p.unflatten(1, s.shape[1:3]) for p, s in zip(h.split(sizes, dim=1), sets)]
        support, query = parts[: len(episodes)], parts[len(episodes) :]
        if self.settings.interpolation.strategy == "support+noise":
            support = [support[0], torch.randn_like(support[0])]
        return support, query

    def interpolate(
        self, plain: list[Tensor], groups: list[list[Tensor]], only_means: Sequence[Tensor] = ()
    ) -> tuple[list[Tensor], list[Tensor]]:
        """φ_λ({h}) of plain rows [B, K, n, d], and φ_λ of sets with one element of each member of a group.

        Returns the first as they came, and [B, K, sets, d] for each group; all in one pass through φ_λ. Of tensors
        that are among `only_means`, and of their sets, the mean over the class: [B, K, 1, d].
        """
        h, index, start = [], [], 0
        for members in groups:
            B, K, n, _ = members[0].shape
            own = set_index(B * K, n, len(members), self.settings.interpolation.pairs, members[0].device)
            index.append(own + start)
            h += [m.flatten(0, 2) for m in members]
            start += B * K * n * len(members)
        counts = [p.shape[:3].numel() for p in plain]
        sizes = [len(own) for own in index]
        B, K = groups[0][0].shape[:2]
        if not plain:
            merged = self.merge(torch.cat(h), torch.cat(index)).split(sizes)
            return [], [x.view(B, K, -1, x.shape[-1]) for x in merged]
        averaged = [any(p is m for m in only_means) for p in plain]
        averaged_sets = [any(members[0] is m for m in only_means) for members in groups]

        def averages(single: Tensor, merged: Tensor) -> tuple[Tensor, Tensor]:
            return class_means(single, counts, averaged, B * K), class_means(merged, sizes, averaged_sets, B * K)

        rows = torch.cat([p.flatten(0, 2) for p in plain])
        shared = counts[0] if plain[0] is groups[0][0] else 0
        single, merged = self.both(rows, torch.cat(h), torch.cat(index), averages if only_means else None, shared)
        counts = [B * K if mean else count for mean, count in zip(averaged, counts)]
        sizes = [B * K if mean else size for mean, size in zip(averaged_sets, sizes)]
        return (
            [x.view(B, K, -1, x.shape[-1]) for x in single.split(counts)],
            [x.view(B, K, -1, x.shape[-1]) for x in merged.split(sizes)],
        )

    def upper(self, parts: list[Tensor], update: bool) -> list[Tensor]:
        """The layers above the cut, in one pass: tensors [B, K, n, d] -> [B, K, n, D]."""
        h = join(*parts)
        with self.passes(h.shape[0], update=update):
            z = self.encoder.upper(h.flatten(0, 1), self.layer)
        z = z.view(*h.shape[:2], -1)
        found = z.split([p.shape[1] * p.shape[2] for p in parts], dim=1)
        return [x.unflatten(1, p.shape[1:3]) for x, p in zip(found, parts)]

    def upper_mixed(self, members: list[Tensor]) -> Tensor:
        """Sets with one element of each [B, K, n, d] through φ_λ and the rest -> [B, K, sets, D]."""
        return self.upper(self.interpolate([], [members])[1], update=not self.settings.model.clean_statistics)[0]


def class_means(x: Tensor, sizes: Sequence[int], averaged: Sequence[bool], classes: int) -> Tensor:
    """Rows [sum of sizes, d] with those of the parts to be averaged replaced by their means over each class."""
    parts = zip(x.split(list(sizes)), averaged)
    return torch.cat([part.view(classes, -1, part.shape[-1]).mean(1) if mean else part for part, mean in parts])


def set_index(classes: int, n: int, size: int, pairs: str, device: torch.device) -> Tensor:
    """Which rows make up the sets: [classes * sets, size] into `size` stacked blocks of classes * n rows.

    "all" crosses every row of the first block with every row of its class in the second (Eq. 3). "matched" joins
    the i-th rows of each block: rows within a class are in random order already, so that is a random matching.
    """
    rows = torch.arange(classes * n, device=device)
    blocks = torch.arange(size, device=device) * (classes * n)
    if pairs == "matched" or size == 1:
        return rows[:, None] + blocks
    first = rows.view(classes, n, 1).expand(classes, n, n)
    second = rows.view(classes, 1, n).expand(classes, n, n) + classes * n
    return torch.stack([first.reshape(-1), second.reshape(-1)], dim=1)
