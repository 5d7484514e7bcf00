"""The methods as their papers put them: one episode after the other, nothing shared, nothing rearranged.

Oracles for the tests, and what the benchmarks measure fewtask against. A pass through the encoder normalises as
the settings say: each episode by itself (`model.normalisation = "episode"`), or all of them together. Random
draws are arguments, so that the same ones can be given to both sides. Running statistics are left alone.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from fewtask.encoders.normalisation import EpisodeBatchNorm, normalising
from fewtask.episodes import Episode
from fewtask.methods.base import Method

Run = Callable[[Tensor], Tensor]
Scores = Callable[[Method, int], Tensor]


def passed(method: Method, run: Run, parts: list[Tensor]) -> list[Tensor]:
    """Rows of each episode through some layers, in one pass as far as normalisation is concerned."""
    with normalising(method.encoder, update=False):
        if method.settings.model.normalisation == "episode":
            return [run(rows) for rows in parts]
        return list(run(torch.cat(parts)).split([len(rows) for rows in parts]))


def episode_loss(method: Method, prototypes: Tensor, queries: Tensor, labels: Sequence[int]) -> Tensor:
    """Eq. 2 with a mean over queries: prototypes [K, D], queries [M, D]."""
    squared = ((queries[:, None] - prototypes[None]) ** 2).sum(-1)
    distance = squared if method.settings.model.distance == "squared-euclidean" else squared.sqrt()
    model = method.settings.model
    factor = {"fixed": 1.0, "dimension": 1 / queries.shape[1], "learned": 1.0}[model.scale_by] * model.scale
    grown = 1.0 if method.log_scale is None else math.e**method.log_scale
    return F.cross_entropy(-distance * factor * grown, torch.tensor(labels))


def class_labels(way: int, per_class: int) -> list[int]:
    return [k for k in range(way) for _ in range(per_class)]


def flat(rows: Tensor) -> Tensor:
    """[K, n, ...] -> [K * n, ...]."""
    return rows.flatten(0, 1)


def of_set(method: Method, sets: Tensor) -> Tensor:
    """φ_λ of sets [S, n, d] by its plain definition; the part that a skip connection carries is averaged."""
    carried = method.carried
    if not carried:
        return method.phi(sets)
    return torch.cat([method.phi(sets[..., :-carried]), sets[..., -carried:].mean(dim=1)], dim=1)


def network(method: Method) -> Run:
    """f̂ on rows [M, ...], with φ_λ({h}) where the method has one."""
    if not hasattr(method, "phi"):
        return method.encoder
    encoder, layer = method.encoder, method.layer
    return lambda rows: encoder.upper(of_set(method, encoder.lower(rows, layer)[:, None]), layer)


def plain_episode_loss(method: Method, episode: Episode) -> Tensor:
    """ProtoNet's loss, and L_singleton and L_V of methods with a set function."""
    K, N = episode.way, episode.shot
    both = [torch.cat([flat(s), flat(q)]) for s, q in zip(episode.support, episode.query)]
    losses = []
    for z in passed(method, network(method), both):
        prototypes = torch.stack([z[k * N : (k + 1) * N].mean(dim=0) for k in range(K)])
        losses.append(episode_loss(method, prototypes, z[K * N :], class_labels(K, episode.queries)))
    return sum(losses) / len(losses)


def plain_meta_interpolation_loss(method: Method, episodes: list[Episode], noise: Tensor | None = None) -> Tensor:
    """L_tr of Algorithm 1: L_singleton and L_mix by their shares, each with passes of its own."""
    mix = method.settings.interpolation
    first = episodes[0]
    B, K = first.batch, first.way
    mixes_support, mixes_query = mix.strategy != "query", mix.strategy in ("query", "support+query")

    def lowered() -> list[tuple[list[Tensor], list[Tensor]]]:
        """Features at the cut of all supports [K, N, d] and all queries [K, Q, d] of each group."""
        sets = [[e.support[b] for e in episodes] + [e.query[b] for e in episodes] for b in range(B)]
        rows = [torch.cat([flat(s) for s in group]) for group in sets]
        groups = []
        for b, h in enumerate(passed(method, lambda x: method.encoder.lower(x, method.layer), rows)):
            parts = h.split([s.shape[0] * s.shape[1] for s in sets[b]])
            shaped = [p.unflatten(0, s.shape[:2]) for p, s in zip(parts, sets[b])]
            supports, queries = shaped[: len(episodes)], shaped[len(episodes) :]
            groups.append((supports if noise is None else [supports[0], noise[b]], queries))
        return groups

    def above(rows: list[Tensor]) -> list[Tensor]:
        return passed(method, lambda h: method.encoder.upper(h, method.layer), rows)

    def clean(keep_support: bool, keep_query: bool) -> list[tuple[Tensor, Tensor]]:
        """Embedded support and queries of the first task as they are; what is not kept stays out of the pass."""
        chosen = [
            ([flat(supports[0])] if keep_support else []) + ([flat(queries[0])] if keep_query else [])
            for supports, queries in lowered()
        ]
        split = K * first.shot if keep_support else 0
        return [(z[:split], z[split:]) for z in above([of_set(method, torch.cat(parts)[:, None]) for parts in chosen])]

    def mixed(which: int) -> list[Tensor]:
        """Embedded sets of supports (0) or queries (1), class by class."""
        merged = []
        for group in lowered():
            members = group[which]
            sets = []
            for k in range(K):
                n = members[0].shape[1]
                if mix.pairs == "all" and len(members) == 2:
                    sets += [torch.stack([members[0][k, i], members[1][k, j]]) for i in range(n) for j in range(n)]
                else:
                    sets += [torch.stack([m[k, i] for m in members]) for i in range(n)]
            merged.append(of_set(method, torch.stack(sets)))
        return above(merged)

    def mean_loss(supports: list[Tensor], queries: list[Tensor]) -> Tensor:
        losses = []
        for support, query in zip(supports, queries):
            prototypes = torch.stack([part.mean(dim=0) for part in support.chunk(K)])
            losses.append(episode_loss(method, prototypes, query, class_labels(K, len(query) // K)))
        return sum(losses) / B

    single = mix.singleton_loss
    plain = [] if mixes_support and mixes_query else clean(single or not mixes_support, single or not mixes_query)
    l_mix = mean_loss(
        mixed(0) if mixes_support else [support for support, _ in plain],
        mixed(1) if mixes_query else [query for _, query in plain],
    )
    if not single:
        return l_mix
    again = clean(True, True)
    share = mix.weight if method.share_logit is None else 1 / (1 + math.e ** (-method.share_logit))
    return (1 - share) * mean_loss([support for support, _ in again], [query for _, query in again]) + share * l_mix


def plain_hypergradient(
    train_loss: Callable[[], Tensor],
    validation_loss: Callable[[], Tensor],
    theta: Sequence[Tensor],
    lam: Sequence[Tensor],
    step: float,
    terms: int,
) -> list[Tensor]:
    """Algorithm 2, with losses and gradients computed again wherever they are needed."""

    def product(inputs: Sequence[Tensor], vectors: Sequence[Tensor]) -> list[Tensor]:
        slopes = torch.autograd.grad(train_loss(), list(theta), create_graph=True)
        found = torch.autograd.grad(slopes, list(inputs), list(vectors), allow_unused=True)
        return [torch.zeros_like(x) if f is None else f for x, f in zip(inputs, found)]

    v = list(torch.autograd.grad(validation_loss(), list(theta)))
    p = [x.clone() for x in v]
    for _ in range(terms):
        v = [x - step * h for x, h in zip(v, product(theta, v))]
        p = [x + y for x, y in zip(p, v)]
    indirect = product(lam, [step * x for x in p])
    direct = torch.autograd.grad(validation_loss(), list(lam), allow_unused=True)
    return [(0 if d is None else d) - i for d, i in zip(direct, indirect)]


def plain_metareg_loss(method: Method, episode: Episode) -> Tensor:
    """ProtoNet's loss and a weighted square of each single weight."""
    total = plain_episode_loss(method, episode)
    for weights, coefficients in zip(method.encoder.parameters(), method.outer()):
        for w, c in zip(weights.flatten(), coefficients.flatten()):
            total = total + c * w * w
    return total


def plain_metamix_loss(method: Method, episode: Episode, layer: int, partner: Tensor, weight: Tensor) -> Tensor:
    """Query m of episode b mixed with support row partner[b, m] by weight[b, m], and so its label."""
    K, N, Q = episode.way, episode.shot, episode.queries
    both = [torch.cat([flat(s), flat(q)]) for s, q in zip(episode.support, episode.query)]
    supports, mixtures = [], []
    for b, h in enumerate(passed(method, lambda x: method.encoder.lower(x, layer), both)):
        support, query = h[: K * N], h[K * N :]
        supports.append(support)
        mixtures.append(
            torch.stack([w * q + (1 - w) * support[p] for q, p, w in zip(query, partner[b], weight[b].double())])
        )

    def upper(h: Tensor) -> Tensor:
        return method.encoder.upper(h, layer)

    total, count = torch.zeros((), dtype=torch.float64), 0
    for b, (support, mixed) in enumerate(zip(passed(method, upper, supports), passed(method, upper, mixtures))):
        prototypes = torch.stack([part.mean(dim=0) for part in support.chunk(K)])
        for m, own in enumerate(class_labels(K, Q)):
            w, other = weight[b, m].double(), int(partner[b, m]) // N
            one = episode_loss(method, prototypes, mixed[m : m + 1], [own])
            two = episode_loss(method, prototypes, mixed[m : m + 1], [other])
            total, count = total + w * one + (1 - w) * two, count + 1
    return total / count


def plain_mlti_loss(
    method: Method,
    first: Episode,
    second: Episode,
    layer: int,
    weights: list[float],
    centres: list[tuple[int, int]] | None = None,
) -> Tensor:
    """Support mixed with support and query with query; with centres, by pasting rectangles of the second's: one for
    the support of each episode and one for its queries."""
    K, N = first.way, first.shot
    rows = [[torch.cat([flat(e.support[b]), flat(e.query[b])]) for e in (first, second)] for b in range(first.batch)]
    if centres is not None:
        layer, mixed = 0, []
        for b, ((one, two), w) in enumerate(zip(rows, weights)):
            support = pasted(one[: K * N], two[: K * N], w, centres[2 * b])
            query = pasted(one[K * N :], two[K * N :], w, centres[2 * b + 1])
            mixed.append(torch.cat([support, query]).flatten(1))
    else:
        h = passed(method, lambda x: method.encoder.lower(x, layer), [torch.cat(pair) for pair in rows])
        mixed = [w * x[: len(x) // 2] + (1 - w) * x[len(x) // 2 :] for x, w in zip(h, weights)]
    losses = []
    for z in passed(method, lambda x: method.encoder.upper(x, layer), mixed):
        prototypes = torch.stack([z[k * N : (k + 1) * N].mean(dim=0) for k in range(K)])
        losses.append(episode_loss(method, prototypes, z[K * N :], class_labels(K, first.queries)))
    return sum(losses) / len(losses)


def pasted(base: Tensor, patch: Tensor, weight: float, centre: tuple[int, int]) -> Tensor:
    """Images [M, C, H, W] with a rectangle of 1 - weight of their area from others, pixel by pixel.

    What lies outside the image is lost.
    """
    height, width = base.shape[-2:]
    tall, wide = (int(side * math.sqrt(1 - weight)) // 2 for side in (height, width))
    out = base.clone()
    for y in range(height):
        for x in range(width):
            if -tall <= y - centre[0] < tall and -wide <= x - centre[1] < wide:
                out[:, :, y, x] = patch[:, :, y, x]
    return out


def plain_query_pair_loss(method: Method, episode: Episode, layer: int, partner: Tensor, weight: Tensor) -> Tensor:
    """Query m of episode b mixed with query partner[b, m] by weight[b], and so its label."""
    K, N, Q = episode.way, episode.shot, episode.queries
    both = [torch.cat([flat(s), flat(q)]) for s, q in zip(episode.support, episode.query)]
    h = passed(method, lambda x: method.encoder.lower(x, layer), both)
    mixed = [
        torch.stack([w * x[K * N + m] + (1 - w) * x[K * N + int(p)] for m, p in enumerate(partners)])
        for x, partners, w in zip(h, partner, weight.double())
    ]
    supports = passed(method, lambda x: method.encoder.upper(x, layer), [x[: K * N] for x in h])
    total = torch.zeros((), dtype=torch.float64)
    for b, queries in enumerate(passed(method, lambda x: method.encoder.upper(x, layer), mixed)):
        prototypes = torch.stack([part.mean(dim=0) for part in supports[b].chunk(K)])
        own, other = class_labels(K, Q), [int(p) // Q for p in partner[b]]
        w = weight[b].double()
        total = total + w * episode_loss(method, prototypes, queries, own)
        total = total + (1 - w) * episode_loss(method, prototypes, queries, other)
    return total / episode.batch


@contextmanager
def normalised_like(method: Method, rows: Callable[[], object]) -> Iterator[None]:
    """Within the block every BatchNorm takes its statistics from a pass over other rows."""
    layers = [layer for layer in method.encoder.modules() if isinstance(layer, EpisodeBatchNorm)]
    seen: list[Tensor] = []
    hooks = [layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0])) for layer in layers]
    rows()
    for hook in hooks:
        hook.remove()
    for layer, x in zip(layers, seen[: len(layers)]):
        by_channel = x.transpose(0, 1).flatten(1)
        layer.forward = partial(_affine, layer, by_channel.mean(1), by_channel.var(1, correction=0))
    yield
    for layer in layers:
        del layer.forward


def _affine(layer: EpisodeBatchNorm, mean: Tensor, var: Tensor, x: Tensor) -> Tensor:
    shape = (1, -1) + (1,) * (x.dim() - 2)
    scale = (layer.weight / torch.sqrt(var + layer.eps)).view(shape)
    return (x - mean.view(shape)) * scale + layer.bias.view(shape)


def plain_fomaml(
    method: Method, batch: int, support: Scores, query: Scores, reference: Scores | None = None
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """First-order MAML: loss, gradient of θ and gradient of λ, each episode with a copy of the network.

    Queries are normalised by the adapted network's statistics of the support, or of other rows.

    To first order the adapted weights are θ minus constants, so θ's gradient is that at the adapted weights; λ has
    its direct part and -lr · ∂/∂λ (∂L_s/∂θ) · ∂L_q/∂θ of each inner step.
    """
    lr, total = method.settings.adaptation.lr, torch.zeros((), dtype=torch.float64)
    theta, lam = [torch.zeros_like(p) for p in method.inner()], [torch.zeros_like(p) for p in method.outer()]
    for b in range(batch):
        adapted, visited = copy.deepcopy(method), []
        for _ in range(method.settings.adaptation.steps):
            visited.append(copy.deepcopy(adapted))
            slopes = torch.autograd.grad(class_loss(support(adapted, b)), adapted.inner())
            with torch.no_grad():
                for p, slope in zip(adapted.inner(), slopes):
                    p -= lr * slope
        with normalised_like(adapted, partial(reference or support, adapted, b)):
            loss = class_loss(query(adapted, b))
        total = total + loss.detach() / batch
        inner, outer = adapted.inner(), adapted.outer()
        found = torch.autograd.grad(loss, [*inner, *outer], allow_unused=True)
        at_end = list(found[: len(inner)])
        theta = [t + g / batch for t, g in zip(theta, at_end)]
        lam = [t if g is None else t + g / batch for t, g in zip(lam, found[len(inner) :])]
        for model in visited if lam else []:
            slopes = torch.autograd.grad(class_loss(support(model, b)), model.inner(), create_graph=True)
            mixed = torch.autograd.grad(slopes, model.outer(), at_end, allow_unused=True)
            lam = [t if m is None else t - lr * m / batch for t, m in zip(lam, mixed)]
    return total, theta, lam


def class_loss(scores: Tensor) -> Tensor:
    """Cross-entropy of scores [K * n, K] that stand class by class."""
    way = scores.shape[1]
    return F.cross_entropy(scores, torch.tensor(class_labels(way, len(scores) // way)))
