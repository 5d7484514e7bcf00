"""No indirect part: λ follows ∂L_V/∂λ alone, at the cost of one backward pass."""

from __future__ import annotations

import torch
from torch import Tensor

from fewtask.hypergradient.base import Estimator, Options, Problem, Report


class Direct(Estimator):
    name = "direct"
    summary = "the validation loss's own gradient, without second derivatives"
    graph = False

    @classmethod
    def work(cls, terms: int) -> tuple[int, int]:
        return 0, 0

    def indirect(self, problem: Problem, options: Options, report: Report, memory: list[Tensor] | None) -> list[Tensor]:
        return [torch.zeros_like(x) for x in problem.lam]
