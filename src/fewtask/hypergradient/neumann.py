"""Neumann series: Algorithm 2 of the paper (Lorraine et al., Optimizing Millions of Hyperparameters by Implicit
Differentiation, AISTATS 2020).

p = sum_{j=0..q} (I - α H)^j v approximates (α H)^-1 v with v = ∂L_V/∂θ and H = ∂²L_tr/∂θ². One graph of
∂L_tr/∂θ serves all q products with H and the mixed product at the end.
"""

from __future__ import annotations

from torch import Tensor

from fewtask.hypergradient.base import Problem, Report, add, norm, products

DIVERGED = 2.0
"""A term longer than this many times the first means α‖H‖ > 1: the series does not converge."""


def neumann(problem: Problem, *, step: float, terms: int, report: Report | None) -> list[Tensor]:
    """-∂²L_tr/∂λ∂θ · α p, the indirect part of the hypergradient."""
    term = problem.validation_theta
    total = [t.clone() for t in term]
    norms, diverged = [norm(term)], False
    for _ in range(terms):
        product = products(problem.train_grad, problem.theta, term)
        term = [t - step * p for t, p in zip(term, product)]
        norms.append(norm(term))
        if not norms[-1] <= DIVERGED * norms[0]:
            diverged = True
            break
        add(total, term)
    if report is not None:
        report.update(norms=norms, diverged=diverged)
    mixed = products(problem.train_grad, problem.lam, [step * p for p in total])
    return [-m for m in mixed]
