"""Meta-Interpolation (Lee, Andreis, Kawaguchi, Lee, Hwang, NeurIPS 2022).

A set function φ_λ merges hidden features of the support sets of two tasks into those of a new, harder one; the
network learns from both, and λ so that it does well on validation tasks.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fewtask.episodes import Episode
from fewtask.errors import SettingsError
from fewtask.methods.base import Step, join
from fewtask.methods.metric import class_mean
from fewtask.methods.set_based import SetMethod
from fewtask.pool import TaskPool
from fewtask.sampler import EpisodeSampler


class MetaInterpolation(SetMethod):
    """L_tr = (L_singleton + L_mix) / 2 (Eq. 3 and 4, Algorithm 1)."""

    name = "meta-interpolation"
    summary = "learned interpolation of tasks by a set function, trained with hypergradients"

    def check(self, train: TaskPool, validation: TaskPool) -> None:
        mix, episode = self.settings.interpolation, self.settings.episode
        if mix.cardinality < 1:
            raise SettingsError(f"interpolation.cardinality is {mix.cardinality}: a set has at least one element")
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

    @property
    def partners(self) -> int:
        """How many tasks an episode is merged with."""
        mix = self.settings.interpolation
        return 0 if mix.strategy == "support+noise" else mix.cardinality - 1

    def draw(self, sampler: EpisodeSampler) -> list[Episode]:
        e = self.settings.episode
        mixes_queries = self.settings.interpolation.strategy in ("query", "support+query")
        return sampler.sample_groups(
            e.batch, e.way, e.shot, e.query, size=1 + self.partners, partner_query=e.query if mixes_queries else 0
        )

    def training_loss(self, episodes: list[Episode]) -> Step:
        first, strategy = episodes[0], self.settings.interpolation.strategy
        support, query = self.lower(episodes)
        mixes_support, mixes_query = strategy != "query", strategy in ("query", "support+query")
        needs_singletons = self.settings.interpolation.singleton_loss
        clean_support, clean_query = self.upper_clean(
            support[0] if needs_singletons or not mixes_support else None,
            query[0] if needs_singletons or not mixes_query else None,
        )
        prototypes = class_mean(self.upper_mixed(support) if mixes_support else _given(clean_support))
        mixed_query = self.upper_mixed(query).flatten(1, 2) if mixes_query else _given(clean_query).flatten(1, 2)
        per_class = mixed_query.shape[1] // first.way
        labels = torch.arange(first.way, device=mixed_query.device).repeat_interleave(per_class)
        mix = self.step(prototypes, mixed_query, labels)
        if not needs_singletons:
            return mix
        singleton = self.step(class_mean(_given(clean_support)), _given(clean_query).flatten(1, 2), first.labels())
        return Step(0.5 * (singleton.loss + mix.loss), singleton.accuracy)

    def lower(self, episodes: list[Episode]) -> tuple[list[Tensor], list[Tensor]]:
        """Features at the cut of the supports [B, K, N, d] and the queries [B, K, Q, d] of a group, in one pass."""
        sets = [e.support for e in episodes] + [e.query for e in episodes]
        rows = join(*sets)
        with self.passes(rows.shape[0], update=True):
            h = self.encoder.lower(rows.flatten(0, 1), self.layer)
        h = h.view(*rows.shape[:2], -1)
        sizes = [s.shape[1] * s.shape[2] for s in sets]
        parts = [p.unflatten(1, s.shape[1:3]) for p, s in zip(h.split(sizes, dim=1), sets)]
        support, query = parts[: len(episodes)], parts[len(episodes) :]
        if self.settings.interpolation.strategy == "support+noise":
            support = [support[0], torch.randn_like(support[0])]
        return support, query

    def upper_clean(self, support: Tensor | None, query: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """Plain rows through φ_λ({h}) and the layers above the cut: [B, K, n, d] -> [B, K, n, D]."""
        sets = [s for s in (support, query) if s is not None]
        if not sets:
            return None, None
        h = join(*sets)
        with self.passes(h.shape[0], update=True):
            z = self.encoder.upper(self.singletons(h.flatten(0, 1)), self.layer)
        z = z.view(*h.shape[:2], -1)
        parts = iter(z.split([s.shape[1] * s.shape[2] for s in sets], dim=1))
        return tuple(None if s is None else next(parts).unflatten(1, s.shape[1:3]) for s in (support, query))  # type: ignore[return-value]

    def upper_mixed(self, members: list[Tensor]) -> Tensor:
        """Sets with one element of each [B, K, n, d] through φ_λ and the rest -> [B, K, sets, D]."""
        B, K, n, _ = members[0].shape
        index = set_index(B * K, n, len(members), self.settings.interpolation.pairs, members[0].device)
        merged = self.merge(torch.cat([m.flatten(0, 2) for m in members]), index)
        with self.passes(B, update=not self.settings.model.clean_statistics):
            z = self.encoder.upper(merged, self.layer)
        return z.view(B, K, -1, z.shape[-1])


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


def _given(x: Tensor | None) -> Tensor:
    assert x is not None
    return x
