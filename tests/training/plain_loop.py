"""Algorithms 1 and 2 of the paper as they are printed, in float64: an oracle for the training loop.

Nothing of the loop, the methods, the encoders, the set function, the hypergradient or torch's optimisers is used:
weights are a dictionary of tensors, the network and the set function are written out below, second derivatives are a
dense Hessian, and Adam is four lines. Episodes come from the sampler, which has tests of its own,
seeded as a run is: (seed, 1) for meta-training and (seed, 2) for the outer objective.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fewtask.episodes import Episode
from fewtask.sampler import EpisodeSampler
from fewtask.settings import RunSettings
from fewtask.tasks import TaskPool

Weights = dict[str, Tensor]
Loss = Callable[[Weights], Tensor]
MixingLoss = Callable[[Weights, Episode, Episode, RunSettings], Tensor]
JudgingLoss = Callable[[Weights, Episode, RunSettings], Tensor]


# The network: three layers, the first two with BatchNorm and LeakyReLU ("mlp") or with ReLU ("text-head").


def layers(w: Weights, x: Tensor, first: int, last: int) -> Tensor:
    """Rows [M, d] through layers first + 1 to last."""
    places = {0: ("encoder.layers.0.1", "encoder.layers.0.2"), 1: ("encoder.layers.1.0", "encoder.layers.1.1")}
    for number in range(first, last):
        linear, norm = places.get(number, ("encoder.layers.2", ""))
        x = x @ w[f"{linear}.weight"].T + w[f"{linear}.bias"]
        if number == 2:
            continue
        if f"{norm}.weight" in w:
            mean = x.sum(0) / len(x)
            variance = ((x - mean) ** 2).sum(0) / len(x)
            x = (x - mean) / torch.sqrt(variance + 1e-5) * w[f"{norm}.weight"] + w[f"{norm}.bias"]
            x = torch.where(x > 0, x, 0.01 * x)
        else:
            x = torch.where(x > 0, x, 0 * x)
    return x


# The set function, as the appendix has it.


def attention(w: Weights, block: str, asking: Tensor, X: Tensor, heads: int) -> Tensor:
    """O(X) and the feed-forward step of one block: asking [S, m, .], X [S, n, .] -> [S, m, d_h]."""
    q, k, v = (
        rows @ w[f"phi.{block}.{name}.weight"].T + w[f"phi.{block}.{name}.bias"]
        for rows, name in ((asking, "query"), (X, "key"), (X, "value"))
    )
    width = q.shape[-1] // heads
    outputs = []
    for head in range(heads):
        own = slice(head * width, (head + 1) * width)
        scores = torch.exp(q[..., own] @ k[..., own].mT / math.sqrt(width))
        mixed = q[..., own] + scores / scores.sum(-1, keepdim=True) @ v[..., own]
        outputs.append(normalised(mixed) * w[f"phi.{block}.head_weight"][head] + w[f"phi.{block}.head_bias"][head])
    out = torch.cat(outputs, dim=-1)
    fed = out @ w[f"phi.{block}.feed.weight"].T + w[f"phi.{block}.feed.bias"]
    joined = normalised(out + torch.where(fed > 0, fed, 0 * fed))
    return joined * w[f"phi.{block}.norm.weight"] + w[f"phi.{block}.norm.bias"]


def normalised(x: Tensor) -> Tensor:
    """LayerNorm without its weights."""
    centred = x - x.sum(-1, keepdim=True) / x.shape[-1]
    return centred / torch.sqrt((centred**2).sum(-1, keepdim=True) / x.shape[-1] + 1e-5)


def phi(w: Weights, X: Tensor, heads: int) -> Tensor:
    """φ_λ of sets X [S, n, d] -> [S, d]."""
    g = attention(w, "block1", X, X, heads)
    g = attention(w, "block2", g, g, heads)
    g = attention(w, "pool", w["phi.seed"].expand(len(X), 1, -1), g, heads)
    return g[:, 0] @ w["phi.output.weight"].T + w["phi.output.bias"]


# Losses.


def prototype_loss(support: Tensor, query: Tensor) -> Tensor:
    """Eq. 1 and 2 of one episode, a mean over queries: support [K, n, D], query [K, Q, D]."""
    prototypes = support.sum(1) / support.shape[1]
    closeness = -((query[:, :, None] - prototypes) ** 2).sum(-1)
    losses = [torch.log(torch.exp(rows).sum(-1)) - rows[:, label] for label, rows in enumerate(closeness)]
    return torch.cat(losses).sum() / (len(losses) * query.shape[1])


def plain_loss(w: Weights, episode: Episode, settings: RunSettings) -> Tensor:
    """ProtoNet's loss, L_singleton with a set function: the mean over the episodes, all rows in one pass."""
    B, K, N = episode.batch, episode.way, episode.shot
    cut = settings.interpolation.layer
    h = layers(w, torch.cat([joined_rows(episode, b) for b in range(B)]), 0, cut)
    if "phi.seed" in w:
        h = singles(w, h, settings)
    z = layers(w, h, cut, 3).unflatten(0, (B, K * (N + episode.queries)))
    return sum(prototype_loss(*parted(z[b], K, N)) for b in range(B)) / B


def interpolated_loss(w: Weights, first: Episode, second: Episode, settings: RunSettings) -> Tensor:
    """L_tr of Algorithm 1: (1 - share) L_singleton + share L_mix, with prototypes of all N x N pairs (Eq. 3).

    What is below the cut is one pass, what is above it one for rows as they are and one for sets: that is what
    BatchNorm normalises by.
    """
    B, K, N, Q = first.batch, first.way, first.shot, first.queries
    cut, heads = settings.interpolation.layer, settings.set_function.heads
    rows = [torch.cat([second.support[b].flatten(0, 1), joined_rows(first, b)]) for b in range(B)]
    h = layers(w, torch.cat(rows), 0, cut).unflatten(0, (B, K * (2 * N + Q)))
    twos, own = h[:, : K * N], h[:, K * N :]
    sets = [
        torch.stack([own[b, k * N + i], twos[b, k * N + j]])
        for b in range(B)
        for k in range(K)
        for i in range(N)
        for j in range(N)
    ]
    mixed = layers(w, phi(w, torch.stack(sets), heads), cut, 3).unflatten(0, (B, K, N * N))
    clean = layers(w, singles(w, own.flatten(0, 1), settings), cut, 3).unflatten(0, (B, K * (N + Q)))
    share = 1 / (1 + torch.exp(-w["share_logit"])) if "share_logit" in w else settings.interpolation.weight
    total = torch.zeros((), dtype=torch.float64)
    for b in range(B):
        support, query = parted(clean[b], K, N)
        total = total + (1 - share) * prototype_loss(support, query) + share * prototype_loss(mixed[b], query)
    return total / B


def joined_rows(episode: Episode, b: int) -> Tensor:
    """Support and queries of one episode below each other, class by class."""
    return torch.cat([episode.support[b].flatten(0, 1), episode.query[b].flatten(0, 1)])


def parted(z: Tensor, way: int, shot: int) -> tuple[Tensor, Tensor]:
    """Embeddings of joined rows: support [K, N, D] and queries [K, Q, D]."""
    return z[: way * shot].unflatten(0, (way, shot)), z[way * shot :].unflatten(0, (way, -1))


def singles(w: Weights, h: Tensor, settings: RunSettings) -> Tensor:
    """φ_λ({h}) of each row."""
    return phi(w, h[:, None], settings.set_function.heads)


# Algorithms.


@dataclass
class Adam:
    """Kingma and Ba, with the usual constants; `decay` is L2 regularisation."""

    decay: float = 0.0
    m: dict[str, Tensor] = field(default_factory=dict)
    v: dict[str, Tensor] = field(default_factory=dict)
    t: int = 0

    def step(self, w: Weights, slopes: Weights, rates: dict[str, float]) -> None:
        self.t += 1
        for name, slope in slopes.items():
            g = slope + self.decay * w[name]
            self.m[name] = 0.9 * self.m.get(name, 0 * g) + 0.1 * g
            self.v[name] = 0.999 * self.v.get(name, 0 * g) + 0.001 * g * g
            m, v = self.m[name] / (1 - 0.9**self.t), self.v[name] / (1 - 0.999**self.t)
            w[name] = w[name] - rates[name] * m / (torch.sqrt(v) + 1e-8)


def gradient(loss: Loss, w: Weights, names: Sequence[str]) -> Weights:
    leaves = {name: w[name].clone().requires_grad_() for name in names}
    value = loss({**w, **leaves})
    if not value.requires_grad:
        return {name: torch.zeros_like(w[name]) for name in names}
    found = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
    return {name: torch.zeros_like(w[name]) if g is None else g for name, g in zip(names, found)}


def neumann_hypergradient(
    train: Loss, validation: Loss, w: Weights, theta: Sequence[str], lam: Sequence[str], alpha: float, terms: int
) -> Weights:
    """Algorithm 2 with the Hessian written down: p = α Σ_{j=0..q} (I - αH)^j v, and ∂L_V/∂λ - pᵀ ∂²L_tr/∂θ∂λ."""
    sizes = [w[name].numel() for name in theta]

    def placed(flat: Tensor) -> Weights:
        parts = flat.split(sizes)
        return {name: part.view(w[name].shape) for name, part in zip(theta, parts)}

    here = torch.cat([w[name].flatten() for name in theta])
    H = torch.autograd.functional.hessian(lambda flat: train({**w, **placed(flat)}), here)
    v = torch.cat([g.flatten() for g in gradient(validation, w, theta).values()])
    p = alpha * sum(torch.linalg.matrix_power(torch.eye(len(v)) - alpha * H, j) @ v for j in range(terms + 1))

    def weighed_slope(outer: Weights) -> Tensor:
        """pᵀ ∂L_tr/∂θ, whose derivative in λ is the mixed product."""
        flat = here.clone().requires_grad_()
        (slope,) = torch.autograd.grad(train({**outer, **placed(flat)}), flat, create_graph=True)
        return p @ slope

    direct, mixed = gradient(validation, w, lam), gradient(weighed_slope, w, lam)
    return {name: direct[name] - mixed[name] for name in lam}


@dataclass
class PlainRun:
    """What a run leaves: weights, its losses step by step, and the average of the weights."""

    weights: Weights
    losses: list[float] = field(default_factory=list)
    average: Weights = field(default_factory=dict)


def plain_run(
    settings: RunSettings,
    start: Weights,
    train_pool: TaskPool,
    outer_pool: TaskPool,
    period: int,
    mixing: MixingLoss = interpolated_loss,
    judging: JudgingLoss = plain_loss,
) -> PlainRun:
    """Algorithm 1: θ every step, λ every `period` steps on tasks of `outer_pool`, or every step with θ where joint.

    mixing: L_tr of two tasks. judging: the loss of one, by which λ is judged.
    """
    w = {name: value.clone() for name, value in start.items()}
    theta = [name for name in w if name.startswith(("encoder.", "head."))]
    lam = [name for name in w if name not in theta]
    e, steps = settings.episode, settings.train.steps
    joint = not settings.interpolation.bilevel
    tasks, outer_tasks = EpisodeSampler(train_pool, (settings.seed, 1)), EpisodeSampler(outer_pool, (settings.seed, 2))
    adam, outer_adam = Adam(settings.optimizer.weight_decay), Adam()
    run = PlainRun(w, average={name: value.clone() for name, value in w.items()})
    updates = 0
    for step in range(steps):
        pair = tasks.sample_groups(e.batch, e.way, e.shot, e.query, 2 if "interpolation" in settings.method else 1)

        def train(weights: Weights, pair: list[Episode] = pair) -> Tensor:
            if len(pair) == 2:
                return mixing(weights, pair[0], pair[1], settings)
            penalty = sum(
                (weights[f"coefficients.{number}"] * weights[name] ** 2).sum()
                for number, name in enumerate(theta)
                if settings.method == "metareg"
            )
            return plain_loss(weights, pair[0], settings) + penalty

        run.losses.append(float(train(w).detach()))
        # Both learning rates fall linearly to nothing, each over its own number of updates.
        alpha = settings.optimizer.lr * (1 - step / steps)
        slopes = gradient(train, w, theta)
        if joint or (step + 1) % period == 0:
            if joint:
                outer_slopes, share = gradient(train, w, lam), 1 - updates / steps
            else:
                task = outer_tasks.sample(e.batch, e.way, e.shot, e.query)
                outer_slopes = neumann_hypergradient(
                    train,
                    lambda v, task=task: judging(v, task, settings),
                    w,
                    theta,
                    lam,
                    alpha,
                    settings.hyper.terms,
                )
                share = 1 - updates / (steps // period)
            rates = {name: settings.hyper.weight_lr if name == "share_logit" else settings.hyper.lr for name in lam}
            outer_adam.step(w, outer_slopes, {name: rate * share for name, rate in rates.items()})
            updates += 1
            for name in lam:
                if settings.method == "metareg":
                    w[name] = torch.where(w[name] > 0, w[name], 0 * w[name])
        adam.step(w, slopes, dict.fromkeys(theta, alpha))
        decay = min(settings.train.average, (1 + step) / (10 + step))
        # That of λ moves every ten steps, by as much at once.
        for names, factor in ((theta, decay), (lam if (step + 1) % 10 == 0 else [], decay**10)):
            run.average |= {name: factor * run.average[name] + (1 - factor) * w[name] for name in names}
    return run


def plain_accuracy(w: Weights, pool: TaskPool, rows: Tensor, shot: int, settings: RunSettings) -> float:
    """Share of queries whose own prototype is the nearest: rows [E, K, N + Q] index the pool."""
    cut, right, count = settings.interpolation.layer, 0, 0
    for episode in rows:
        h = layers(w, pool.rows[episode.flatten()], 0, cut)
        if "phi.seed" in w:
            h = singles(w, h, settings)
        z = layers(w, h, cut, 3).unflatten(0, episode.shape)
        prototypes = z[:, :shot].mean(1)
        nearest = ((z[:, shot:, None] - prototypes) ** 2).sum(-1).argmin(-1)
        right += int((nearest == torch.arange(len(z))[:, None]).sum())
        count += nearest.numel()
    return right / count
