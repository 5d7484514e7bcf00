"""Neumann series: Algorithm 2 of the paper (Lorraine et al., Optimizing Millions of Hyperparameters by Implicit
Differentiation, AISTATS 2020).

p = α sum_{j=0..q} (I - α H)^j v approximates H^-1 v. One graph of ∂L_tr/∂θ serves all q products with H and the
mixed product at the end.
"""

from __future__ import annotations

from torch import Tensor

from fewtask.hypergradient.base import Estimator, Report, System, warn
from fewtask.hypergradient.vectors import add, norm, scaled

DIVERGED = 2.0
"""A term longer than this many times the first means α‖H‖ > 1: the series does not converge."""
# The same words every time, so that Python shows them once a run and not once an update.
DIVERGES = (
    "the series of the hypergradient diverges and was cut short: use hyper.step auto, more hyper.damping or a lower "
    "learning rate"
)


class Neumann(Estimator):
    name = "neumann"
    summary = "the paper's: a Neumann series with q Hessian products"

    def solve(self, system: System, report: Report) -> list[Tensor]:
        step, term = system.step, system.right
        total = [t.clone() for t in term]
        norms, diverged = [norm(term)], False
        for _ in range(system.terms):
            product = system.multiply(term)
            term = [t - step * p for t, p in zip(term, product)]
            norms.append(norm(term))
            if not norms[-1] <= DIVERGED * norms[0]:
                diverged = True
                warn(DIVERGES)
                break
            add(total, term)
        report.update(norms=norms, diverged=diverged)
        return scaled(total, step)
