"""Several trained methods as one: they vote by the mean of their log-probabilities, each in its own embedding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fewtask.datasets.base import Progress, quiet
from fewtask.evaluation import embed_rows
from fewtask.methods import Method
from fewtask.methods.adapted import Adapted
from fewtask.pool import TaskPool
from fewtask.protocol import EpisodeList
from fewtask.threads import computing_with


@dataclass(frozen=True)
class Judgement:
    """What is said of the queries of one task, or of E episodes with E in front of every shape.

    log_probabilities: [M, K]. distances: [M] to the nearest prototype.
    spreads: [] how far apart the prototypes lie: the mean squared distance between two of them, the geometric mean over
    the voters. voters: how many said it.
    """

    log_probabilities: np.ndarray
    distances: np.ndarray
    spreads: np.ndarray
    voters: int = 1

    def take(self, episodes: np.ndarray) -> Judgement:
        """Some of the episodes."""
        parts = (self.log_probabilities[episodes], self.distances[episodes], self.spreads[episodes])
        return Judgement(*parts, self.voters)

    @classmethod
    def joined(cls, parts: Sequence[Judgement]) -> Judgement:
        """Episodes of several judgements one after the other."""
        return cls(
            np.concatenate([part.log_probabilities for part in parts]),
            np.concatenate([part.distances for part in parts]),
            np.concatenate([part.spreads for part in parts]),
            parts[0].voters,
        )


@torch.no_grad()
def vote(adapted: Sequence[Adapted], queries: Sequence[Tensor]) -> Judgement:
    """The members' mean; queries [M, ...] as each member embeds them."""
    log_probabilities, distances = [], []
    for member, embedded in zip(adapted, queries):
        log_probabilities.append(torch.log_softmax(member.scores(embedded).double(), dim=-1))
        distances.append(member.distances(embedded).double())
    mean = torch.stack(log_probabilities).mean(0)
    spreads = torch.stack([member.spread() for member in adapted])
    return Judgement(
        torch.log_softmax(mean, dim=-1).cpu().numpy(),
        torch.stack(distances).mean(0).cpu().numpy(),
        spreads.log().mean().exp().cpu().numpy(),
        len(adapted),
    )


def judge_episodes(
    members: Sequence[Method], pool: TaskPool, episodes: EpisodeList, progress: Progress = quiet, what: str = "episodes"
) -> Judgement:
    """Each episode of a list as if it were a new task."""
    used, inverse = np.unique(episodes.rows, return_inverse=True)
    for member in members:
        member.eval()
    embedded = [embed_rows(member, pool, used) for member in members]
    position = np.asarray(inverse).reshape(episodes.rows.shape)
    K, shot = episodes.rows.shape[1], episodes.shot
    labels = torch.arange(K, device=pool.rows.device).repeat_interleave(shot)
    found = []
    # An episode is a handful of small matrices.
    with computing_with(1):
        for rows in progress(position, what, total=len(position)):
            support, query = rows[:, :shot].reshape(-1), rows[:, shot:].reshape(-1)
            adapted = [member.adapt(z[support], labels, K) for member, z in zip(members, embedded)]
            found.append(vote(adapted, [z[query] for z in embedded]))
    return Judgement(
        np.stack([one.log_probabilities for one in found]),
        np.stack([one.distances for one in found]),
        np.stack([one.spreads for one in found]),
        len(members),
    )
