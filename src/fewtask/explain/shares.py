"""How a learned set function mixes: the share of each element in φ_λ({h, h'}), per pair of classes.

In the paper's analysis φ({h, h'}) = W(h + α(h' - h)) + b, and α is the share of h'. LayerNorm makes that inexact in
the real network, so the share is read off its derivatives: with J = ∂φ/∂h and J' = ∂φ/∂h',

    share of h' = ‖J'‖ / (‖J‖ + ‖J'‖)    (Frobenius norms, estimated with random probes)

which equals α wherever φ is the map above with a fixed α.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fewtask import plotting
from fewtask.errors import RunError
from fewtask.methods.base import Method
from fewtask.methods.set_based import SetMethod
from fewtask.pool import TaskPool
from fewtask.sets.base import SetFunction

MOST_LABELS = 24


@dataclass(frozen=True)
class Shares:
    """labels [C]; share [C, C] of the column's class when a row of it is merged with one of the row's class."""

    labels: list[str]
    share: np.ndarray
    pairs: np.ndarray
    """Every single pair's share."""


def second_share(phi: SetFunction, first: Tensor, second: Tensor, probes: int = 8) -> Tensor:
    """Share of the second element of each pair: [S, d], [S, d] -> [S]."""
    first, second = first.detach().requires_grad_(), second.detach().requires_grad_()
    merged = phi(torch.stack([first, second], dim=1))
    squares = torch.zeros(2, len(first), dtype=first.dtype)
    for _ in range(probes):
        sign = torch.randint(2, merged.shape).to(merged) * 2 - 1
        slopes = torch.autograd.grad(merged, (first, second), sign, retain_graph=True)
        squares += torch.stack([s.pow(2).sum(1).cpu() for s in slopes])
    one, two = squares.sqrt()
    return two / (one + two).clamp_min(1e-30)


def class_shares(method: Method, pool: TaskPool, rows_a_pair: int = 6, seed: int = 0) -> Shares:
    """Shares for every pair of classes of a pool, averaged over random rows."""
    if not isinstance(method, SetMethod) or not method.outer():
        raise RunError(f"a {method.name} run has no learned set function to explain; meta-interpolation has one")
    method.eval()
    labels, members = _labels(pool)
    rng = np.random.default_rng(seed)
    table = np.full((len(labels), len(labels)), np.nan)
    singles = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for i, one in enumerate(members):
            for j in range(i, len(labels)):
                picked = [rng.choice(rows, rows_a_pair) for rows in (one, members[j])]
                with torch.no_grad():
                    h = [_features(method, pool, rows) for rows in picked]
                share = second_share(method.phi, h[0], h[1]).numpy()
                singles.append(share)
                table[i, j], table[j, i] = share.mean(), 1 - share.mean()
    return Shares(labels, table, np.concatenate(singles))


def _features(method: SetMethod, pool: TaskPool, rows: np.ndarray) -> Tensor:
    h = method.encoder.lower(pool.gather(rows), method.layer)
    return h[:, : -method.carried] if method.carried else h


def _labels(pool: TaskPool) -> tuple[list[str], list[np.ndarray]]:
    """Class names with their rows; tasks that share their class names (digits) are taken together."""
    shared = not pool.is_class_pool and len(pool.class_names) > MOST_LABELS
    rows: dict[str, list[np.ndarray]] = {}
    for task in pool.tasks:
        for label in task.classes:
            name = pool.class_names[label]
            key = name if shared or pool.is_class_pool else f"{task.name}: {name}"
            rows.setdefault(key, []).append(pool.class_rows[label])
    names = list(rows)[:MOST_LABELS]
    return names, [np.concatenate(rows[name]) for name in names]


def draw(shares: Shares, title: str, path: Path) -> None:
    """A map of the class pairs and the distribution over single pairs; the numbers go beside it as CSV."""

    def paint(plt: Any) -> Any:
        size = max(4.0, 0.34 * len(shares.labels) + 2.4)
        figure, (left, right) = plt.subplots(
            1, 2, figsize=(size + 4.2, size), width_ratios=[size, 3.2], constrained_layout=True
        )
        reach = max(0.02, float(np.nanmax(np.abs(shares.share - 0.5))))
        image = left.imshow(shares.share, cmap="RdBu_r", vmin=0.5 - reach, vmax=0.5 + reach)
        ticks = range(len(shares.labels))
        left.set_xticks(ticks, shares.labels, rotation=90, fontsize=8)
        left.set_yticks(ticks, shares.labels, fontsize=8)
        left.set(xlabel="class whose share is shown", ylabel="merged with", title="Mean share of each class in a pair")
        figure.colorbar(image, ax=left, shrink=0.7, label="share (0.5: an even mixture)")
        right.hist(shares.pairs, bins=30, color=plotting.BACKGROUND)
        right.axvline(0.5, color=plotting.FOREGROUND, linewidth=1.5)
        right.set(xlabel="share of the second element", ylabel="pairs of rows", title="Single pairs")
        figure.suptitle(title, fontsize=11)
        return figure

    plotting.draw(paint, path)
    with path.with_suffix(".csv").open("w", newline="", encoding="utf-8") as handle:
        writer = csv.writer(handle)
        writer.writerow(["merged with", *shares.labels])
        for label, line in zip(shares.labels, shares.share):
            writer.writerow([label, *(f"{value:.4f}" for value in line)])
