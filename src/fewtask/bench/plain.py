"""Meta-Interpolation as a reader of the paper would write it down, with none of the product's shortcuts.

One episode after another and one class after another; every pair of supports through `SetTransformer.forward`;
queries embedded once for each loss; gradients of λ accumulated in every step. It runs on the weights of a
`MetaInterpolation` method, so that the two can be compared number by number. For that the BatchNorm passes must
hold the same rows as the product's with `model.normalisation = "episode"`: the layers below the cut see an
episode's supports and queries together (once: a literal reader would run them for each loss), and above the cut
the queries go beside their own support.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fewtask.episodes import Episode
from fewtask.methods.set_based import SetMethod


def plain_training_loss(method: SetMethod, episodes: Sequence[Episode]) -> Tensor:
    """L_tr = (L_singleton + L_mix) / 2, mean over episodes (Eq. 4)."""
    first, second = episodes
    total = torch.zeros((), dtype=first.support.dtype)
    for b in range(first.batch):
        K, N = first.way, first.shot
        rows = torch.cat(
            [first.support[b].flatten(0, 1), second.support[b].flatten(0, 1), first.query[b].flatten(0, 1)]
        )
        h = method.encoder.lower(rows, method.layer)
        support, partner, query = h.split([K * N, K * N, len(rows) - 2 * K * N])
        singleton = plain_singleton_loss(method, support, query, K)
        mix = plain_mix_loss(method, support, partner, query, K)
        total = total + (singleton + mix) / 2
    return total / first.batch


def plain_validation_loss(method: SetMethod, episode: Episode) -> Tensor:
    """L_V: the singleton loss of each episode in turn."""
    total = torch.zeros((), dtype=episode.support.dtype)
    for b in range(episode.batch):
        count = episode.way * episode.shot
        rows = torch.cat([episode.support[b].flatten(0, 1), episode.query[b].flatten(0, 1)])
        h = method.encoder.lower(rows, method.layer)
        total = total + plain_singleton_loss(method, h[:count], h[count:], episode.way)
    return total / episode.batch


def plain_singleton_loss(method: SetMethod, support: Tensor, query: Tensor, way: int) -> Tensor:
    """Eq. 2 of one episode: support [K * N, d] and query [K * Q, d] at the cut."""
    z_support, z_query = _embed(method, support, query)
    prototypes = torch.stack([z.mean(0) for z in z_support.chunk(way)])
    return _loss(prototypes, z_query, way)


def plain_mix_loss(method: SetMethod, support: Tensor, partner: Tensor, query: Tensor, way: int) -> Tensor:
    """Eq. 3 of one episode: a class's prototype is the mean over all its N x N pairs."""
    merged = []
    for mine, other in zip(support.chunk(way), partner.chunk(way)):
        pairs = [torch.stack([x, y]) for x in mine for y in other]
        merged.append(method.phi(torch.stack(pairs)))
    z = method.encoder.upper(torch.cat(merged), method.layer)
    prototypes = torch.stack([own.mean(0) for own in z.chunk(way)])
    _, z_query = _embed(method, support, query)
    return _loss(prototypes, z_query, way)


def plain_step(method: SetMethod, episodes: Sequence[Episode], optimiser: torch.optim.Optimizer) -> float:
    """A θ-step by `backward`, which fills λ's gradients as well although only θ moves; the loss as a number."""
    method.requires_grad_(True)
    method.zero_grad()
    loss = plain_training_loss(method, episodes)
    loss.backward()
    optimiser.step()
    return loss.item()


def plain_hypergradient(
    method: SetMethod, episodes: Sequence[Episode], validation: Episode, alpha: float, terms: int
) -> list[Tensor]:
    """Algorithm 2: dL_V/dλ with q = `terms` Hessian products, all from one graph of ∂L_tr/∂θ."""
    method.requires_grad_(True)
    theta, lam = list(method.encoder.parameters()), list(method.phi.parameters())
    training = torch.autograd.grad(plain_training_loss(method, episodes), theta, create_graph=True)
    slopes = _filled(plain_validation_loss(method, validation), [*theta, *lam])
    v, direct = slopes[: len(theta)], slopes[len(theta) :]
    p = list(v)
    for _ in range(terms):
        product = torch.autograd.grad(training, theta, grad_outputs=v, retain_graph=True)
        v = [x - alpha * y for x, y in zip(v, product)]
        p = [x + y for x, y in zip(p, v)]
    mixed = torch.autograd.grad(training, lam, grad_outputs=[alpha * x for x in p], allow_unused=True)
    return [d if m is None else d - m for d, m in zip(direct, mixed)]


def plain_hyper_step(
    method: SetMethod,
    episodes: Sequence[Episode],
    validation: Episode,
    hyper_optimiser: torch.optim.Optimizer,
    alpha: float,
    terms: int,
) -> None:
    """λ's step."""
    gradient = plain_hypergradient(method, episodes, validation, alpha, terms)
    for parameter, slope in zip(method.phi.parameters(), gradient):
        parameter.grad = slope
    hyper_optimiser.step()


def _embed(method: SetMethod, support: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
    """φ_λ({h}) and the layers above the cut, for the rows of one episode."""
    merged = method.phi(torch.cat([support, query]).unsqueeze(1))
    z = method.encoder.upper(merged, method.layer)
    return z[: len(support)], z[len(support) :]


def _loss(prototypes: Tensor, query: Tensor, way: int) -> Tensor:
    """Cross-entropy of minus squared distances: prototypes [K, D], queries [K * Q, D] class by class."""
    logits = -(query.unsqueeze(1) - prototypes.unsqueeze(0)).pow(2).sum(-1)
    return F.cross_entropy(logits, torch.arange(way).repeat_interleave(len(query) // way))


def _filled(loss: Tensor, parameters: list[nn.Parameter]) -> list[Tensor]:
    slopes = torch.autograd.grad(loss, parameters, allow_unused=True)
    return [torch.zeros_like(p) if s is None else s for p, s in zip(parameters, slopes)]
