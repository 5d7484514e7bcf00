"""T1-T2 (Luketina et al., Scalable Gradient-Based Tuning of Continuous Regularization Hyperparameters, ICML 2016).

The inverse Hessian is taken for α I: one inner step is differentiated. The Neumann series with q = 0.
"""

from __future__ import annotations

from torch import Tensor

from fewtask.hypergradient.base import Estimator, Report, System
from fewtask.hypergradient.vectors import scaled


class T1T2(Estimator):
    name = "t1t2"
    summary = "one mixed product, with the learning rate for the inverse Hessian (q = 0)"

    @classmethod
    def work(cls, terms: int) -> tuple[int, int]:
        return 0, 1

    def solve(self, system: System, report: Report) -> list[Tensor]:
        return scaled(system.right, system.step)
