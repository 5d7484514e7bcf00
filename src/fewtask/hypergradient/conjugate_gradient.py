"""Conjugate gradients (Hestenes and Stiefel 1952; for hypergradients Pedregosa, ICML 2016, and Rajeswaran et al.,
Meta-Learning with Implicit Gradients, NeurIPS 2019).

q products give the best p in the space that they span, whatever the step: far nearer to H^-1 v than q terms of a
series. It is made for positive curvature and stops where it meets another.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fewtask.hypergradient.base import Estimator, Report, System, warn
from fewtask.hypergradient.vectors import add, dot, norm, scaled


class ConjugateGradient(Estimator):
    name = "conjugate-gradient"
    summary = "conjugate gradients with q Hessian products"

    def solve(self, system: System, report: Report) -> list[Tensor]:
        rest = [v.clone() for v in system.right]
        found = [torch.zeros_like(v) for v in rest]
        direction, length = [r.clone() for r in rest], norm(rest)
        # Below this nothing but rounding is left.
        smallest = 4 * torch.finfo(rest[0].dtype).eps * length
        norms, diverged = [length], False
        while len(norms) <= system.terms and length > smallest:
            product = system.multiply(direction)
            curvature = dot(direction, product)
            if not curvature > 0:
                diverged = True
                warn(
                    "conjugate gradients met negative curvature and stopped there: θ is no minimum of the training "
                    "loss; more hyper.damping helps"
                )
                break
            size = length**2 / curvature
            add(found, direction, size)
            add(rest, product, -size)
            before, length = length, norm(rest)
            norms.append(length)
            direction = [r + (length / before) ** 2 * d for r, d in zip(rest, direction)]
        report.update(norms=norms, diverged=diverged)
        # Before the first product the step is all that is known of the curvature.
        return scaled(system.right, system.step) if len(norms) == 1 else found
