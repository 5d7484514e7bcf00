"""The series with first derivatives only: products as central differences of gradients along a direction.

    H x ≈ (∂L_tr/∂θ at θ + εx  -  at θ - εx) / 2ε,    xᵀ ∂²L_tr/∂θ∂λ likewise with ∂L_tr/∂λ

(Liu et al., DARTS, ICLR 2019, has the second.) No graph of a gradient is kept, so memory is that of a training step,
and layers without a second derivative (fused attention, compiled models) may be used. The training loss is computed
twice for each product: it must be a callable that replays its batch and random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fewtask.errors import SettingsError
from fewtask.hypergradient.base import Problem, gradient
from fewtask.hypergradient.neumann import Neumann
from fewtask.hypergradient.vectors import add, norm


@dataclass(frozen=True)
class Differences(Problem):
    """Second derivatives by differences; θ is moved in place and put back bit for bit."""

    def hessian(self, vector: Sequence[Tensor]) -> list[Tensor]:
        return self.along(vector, self.theta)

    def mixed(self, vector: Sequence[Tensor]) -> list[Tensor]:
        return self.along(vector, self.lam)

    def along(self, vector: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
        """How ∂L_tr/∂inputs changes along a direction of θ."""
        if isinstance(self.train_loss, Tensor):
            raise SettingsError("finite differences compute the training loss again: give it as a callable")
        length = norm(vector)
        if not 0 < length < float("inf"):
            return [torch.zeros_like(x) for x in inputs]
        # Half way, in digits, between the error of the difference (ε²) and that of rounding (1/ε).
        size = torch.finfo(self.theta[0].dtype).eps ** (1 / 3) * (1 + norm(self.theta)) / length
        ahead = self.moved(vector, size, inputs)
        behind = self.moved(vector, -size, inputs)
        # In place: λ may be larger than all that a training step needs.
        return [a.sub_(b).div_(2 * size) for a, b in zip(ahead, behind)]

    def moved(self, vector: Sequence[Tensor], size: float, inputs: Sequence[Tensor]) -> list[Tensor]:
        kept = [t.detach().clone() for t in self.theta]
        # Past autograd's eyes, which would count θ as changed although it comes back the same.
        theta = [t.data for t in self.theta]
        add(theta, vector, size)
        try:
            return gradient(self.train_loss, inputs)
        finally:
            for t, k in zip(theta, kept):
                t.copy_(k)


class FiniteDifference(Neumann):
    name = "finite-difference"
    summary = "the Neumann series from first derivatives only: little memory, any layer"
    graph = False
    problem = Differences
