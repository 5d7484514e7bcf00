"""Logistic regression on the labelled rows of each task alone: what a user has without any other task.

It is the floor for everything that is trained, and what is given back where nothing that is trained beats it.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from fewtask.methods.adapted import Adapted, label_means
from fewtask.methods.base import Method
from fewtask.threads import computing_with

ROUNDS = 100
"""Newton's method needs about ten."""
EXACT = 1e-12
MANY = 600
"""Weights beyond which second derivatives cost more than they save."""


class Logistic(Method):
    """Cross-entropy of the support plus half the squared length of the weights, as scikit-learn has it with C = 1."""

    name = "logistic"
    title = "Logistic regression"
    cost = 0.0
    summary = "logistic regression on the few labelled rows of each task, nothing else learned"
    trained: ClassVar[bool] = False
    scaled: ClassVar[bool] = False

    def features(self, rows: Tensor) -> Tensor:
        return rows.flatten(1)

    def logits(self, support: Tensor, query: Tensor) -> Tensor:
        K, N = support.shape[1:3]
        labels = torch.arange(K, device=support.device).repeat_interleave(N)
        return torch.stack([regress(rows.flatten(0, 1), labels, K, asked) for rows, asked in zip(support, query)])

    def adapt(self, support: Tensor, labels: Tensor, classes: int) -> Adapted:
        prototypes = label_means(support, labels, classes)
        return Adapted(lambda query: regress(support, labels, classes, query), lambda query: query, prototypes)


@torch.no_grad()
@computing_with(1)
def regress(support: Tensor, labels: Tensor, classes: int, query: Tensor) -> Tensor:
    """Log-probabilities [M, K] of queries [M, D] from a support [S, D] with labels [S].

    The weights are a sum of support rows, so nothing is lost where all rows are first turned into the space that the
    support spans: as many numbers as there are rows, whatever their width.
    """
    axes = torch.linalg.svd(support.double(), full_matrices=False).Vh
    rows, asked = (_with_one(x.double() @ axes.T) for x in (support, query))
    wanted = torch.nn.functional.one_hot(labels, classes).double()
    weights = (_newton if rows.shape[1] * classes <= MANY else _descend)(rows, wanted)
    return torch.log_softmax(asked @ weights.T, dim=-1).to(query.dtype)


def _penalty(rows: Tensor, classes: int) -> Tensor:
    """[r + 1], none on the bias; of two classes scikit-learn penalises the difference of the weights: half as much."""
    penalty = rows.new_full((rows.shape[1],), 2.0 if classes == 2 else 1.0)
    penalty[-1] = 0.0
    return penalty


def _descend(rows: Tensor, wanted: Tensor) -> Tensor:
    """As `_newton`, by first derivatives."""
    from scipy.optimize import minimize

    K, penalty = wanted.shape[1], _penalty(rows, wanted.shape[1])

    def loss(flat: Any) -> tuple[float, Any]:
        w = torch.from_numpy(flat).to(rows).view(K, -1)
        scores = torch.log_softmax(rows @ w.T, dim=-1)
        slope = (scores.exp() - wanted).T @ rows + penalty * w
        value = (penalty * w**2).sum() / 2 - (wanted * scores).sum()
        return float(value), slope.flatten().cpu().numpy()

    start = torch.zeros(wanted.shape[1] * rows.shape[1], dtype=torch.float64).numpy()
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 1000, "ftol": 1e-12, "gtol": 1e-5})
    return torch.from_numpy(found.x).to(rows).view(K, -1)


def _newton(rows: Tensor, wanted: Tensor) -> Tensor:
    """The weights [K, r + 1] with the least loss on rows [S, r + 1], of which the last number is 1."""
    K, width = wanted.shape[1], rows.shape[1]
    penalty = _penalty(rows, K)
    # Biases may all grow alike without changing anything: that direction is closed, so that there is one solution.
    closed = torch.zeros(K, width, dtype=rows.dtype, device=rows.device)
    closed[:, -1] = 1.0
    shared = torch.outer(closed.flatten(), closed.flatten()) + torch.diag(penalty.repeat(K))
    weights = rows.new_zeros(K, width)

    def loss(w: Tensor) -> Tensor:
        return (penalty * w**2).sum() / 2 - (wanted * torch.log_softmax(rows @ w.T, dim=-1)).sum()

    for _ in range(ROUNDS):
        p = torch.softmax(rows @ weights.T, dim=-1)
        slope = (p - wanted).T @ rows + penalty * weights
        spread = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
        curve = torch.einsum("skl,si,sj->kilj", spread, rows, rows).reshape(K * width, K * width) + shared
        step = torch.linalg.solve(curve, slope.flatten()).view(K, width)
        # Half steps where a whole one would climb by more than rounding does.
        limit, length = loss(weights) * (1 + EXACT) + EXACT, 1.0
        while loss(weights - length * step) > limit and length > EXACT:
            length /= 2
        weights = weights - length * step
        if step.norm() <= EXACT * (1 + weights.norm()):
            break
    return weights


def _with_one(rows: Tensor) -> Tensor:
    return torch.cat([rows, rows.new_ones(len(rows), 1)], dim=1)
