"""First-order MAML with interpolated supports, written out for the oracle of the training loop, in float64.

θ is the encoder and the linear head. Inner steps are taken from constants: the adapted weights are θ less a sum that
depends on λ and, to first order, not on θ. Meant for networks without BatchNorm.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from plain_loop import Weights, layers, phi, singles
from torch import Tensor

from fewtask.episodes import Episode
from fewtask.settings import RunSettings

Scores = Callable[[Weights], Tensor]


def scores(w: Weights, h: Tensor, settings: RunSettings) -> Tensor:
    """Hidden rows [M, d] at the cut through the rest of the network and the head -> [M, K]."""
    return layers(w, h, settings.interpolation.layer, 3) @ w["head.weight"].T + w["head.bias"]


def plain_scores(w: Weights, rows: Tensor, settings: RunSettings) -> Tensor:
    """Rows [K, n, d] as they are -> [K n, K]: each is a set of its own."""
    return scores(w, singles(w, layers(w, rows.flatten(0, 1), 0, settings.interpolation.layer), settings), settings)


def mixed_scores(w: Weights, one: Tensor, two: Tensor, settings: RunSettings) -> Tensor:
    """All N x N pairs of each class of two supports [K, N, d] -> [K N N, K]."""
    K, N = one.shape[:2]
    h, other = (layers(w, rows.flatten(0, 1), 0, settings.interpolation.layer) for rows in (one, two))
    sets = [torch.stack([h[k * N + i], other[k * N + j]]) for k in range(K) for i in range(N) for j in range(N)]
    return scores(w, phi(w, torch.stack(sets), settings.set_function.heads), settings)


def cross_entropy(found: Tensor) -> Tensor:
    """Mean over rows [K n, K] that stand class by class."""
    each = len(found) // found.shape[1]
    own = torch.stack([row[number // each] for number, row in enumerate(found)])
    return (torch.log(torch.exp(found).sum(1)) - own).sum() / len(found)


def after_steps(w: Weights, support: Scores, query: Scores, settings: RunSettings) -> Tensor:
    """The loss of queries after gradient steps on a support."""
    names = [name for name in w if name.startswith(("encoder.", "head."))]
    theta = {name: w[name] for name in names}
    for _ in range(settings.adaptation.steps):
        constants = {name: value.detach().clone().requires_grad_() for name, value in theta.items()}
        loss = cross_entropy(support({**w, **constants}))
        slopes = torch.autograd.grad(loss, list(constants.values()), create_graph=True)
        theta = {name: theta[name] - settings.adaptation.lr * slope for name, slope in zip(names, slopes)}
    return cross_entropy(query({**w, **theta}))


def episode_loss(w: Weights, episode: Episode, settings: RunSettings) -> Tensor:
    """Adapted on the plain support: what λ is judged by, and L_singleton."""
    losses = [
        after_steps(
            w,
            lambda v, b=b: plain_scores(v, episode.support[b], settings),
            lambda v, b=b: plain_scores(v, episode.query[b], settings),
            settings,
        )
        for b in range(episode.batch)
    ]
    return sum(losses) / len(losses)


def training_loss(w: Weights, first: Episode, second: Episode, settings: RunSettings) -> Tensor:
    """(1 - share) L_singleton + share L_mix, the latter adapted on the interpolated support."""
    losses = [
        after_steps(
            w,
            lambda v, b=b: mixed_scores(v, first.support[b], second.support[b], settings),
            lambda v, b=b: plain_scores(v, first.query[b], settings),
            settings,
        )
        for b in range(first.batch)
    ]
    share = settings.interpolation.weight
    return (1 - share) * episode_loss(w, first, settings) + share * sum(losses) / len(losses)
