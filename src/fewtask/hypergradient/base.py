"""What every hypergradient estimator is given, and what it gives.

The indirect part is -pᵀ ∂²L_tr/∂θ∂λ with (H + δ) p = v, where v = ∂L_V/∂θ and H = ∂²L_tr/∂θ². An estimator solves
that system as well as its terms allow. Whatever they have in common is here: weight decay and damping δ, a scale of
the weights (a preconditioner), a step found from the data, and a start from the last solution.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from fewtask.hypergradient.vectors import add, norm, products, scaled

Loss = Tensor | Callable[[], Tensor] | Sequence[Callable[[], Tensor]]
"""A scalar, what computes it, or several of those whose sum it is: parts that are worked through one at a time."""
Report = dict[str, Any]
POWER_ROUNDS = 6
"""Products with H that the search for its norm takes: an estimate below half of it would let a series diverge."""


class HypergradientWarning(UserWarning):
    """An estimate that is not what was asked for: a series that diverged, a Hessian with negative curvature."""


@dataclass(frozen=True)
class Problem:
    """The inner problem at one point, and products with its second derivatives.

    train_loss:       the inner loss; a callable replays the same batch and random state.
    theta, lam:       lists of tensors.
    train_grad:       ∂L_tr/∂θ with its graph; empty for estimators that do not need it, and for a loss in parts,
                      whose graphs are made again for every product.
    validation_theta: ∂L_V/∂θ, detached.
    """

    train_loss: Loss
    theta: Sequence[Tensor]
    lam: Sequence[Tensor]
    train_grad: Sequence[Tensor]
    validation_theta: list[Tensor]

    def hessian(self, vector: Sequence[Tensor]) -> list[Tensor]:
        """H x, shaped like θ."""
        return self.product(vector, self.theta)

    def mixed(self, vector: Sequence[Tensor]) -> list[Tensor]:
        """xᵀ ∂²L_tr/∂θ∂λ, shaped like λ."""
        return self.product(vector, self.lam)

    def product(self, vector: Sequence[Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
        if self.train_grad:
            return products(self.train_grad, inputs, vector)
        total = [torch.zeros_like(x) for x in inputs]
        for part in parts(self.train_loss):
            add(total, products(gradient(part, self.theta, graph=True), inputs, vector))
        return total


@dataclass(frozen=True)
class Options:
    """How the system is solved.

    step:    α, or "auto": 1 / ‖H‖ by power iteration.
    terms:   q, the number of Hessian products.
    damping: δ, added to the (scaled) Hessian.
    decay:   weight decay of the inner optimiser, which is curvature too.
    scale:   diagonal of a preconditioner, shaped like θ: inner steps are θ - α P ∂L_tr/∂θ.
    """

    step: float | Literal["auto"]
    terms: int
    damping: float = 0.0
    decay: float = 0.0
    scale: Sequence[Tensor] | None = None


class System:
    """(H + δ) p = v in the coordinates in which the inner optimiser takes plain gradient steps.

    With a preconditioner P those are P^-½ θ: H becomes P^½ H P^½, v becomes P^½ v, and p is P^½ times the solution.
    """

    def __init__(self, problem: Problem, options: Options) -> None:
        self.problem, self.options = problem, options
        self.root = None if options.scale is None else [p.sqrt() for p in options.scale]
        self.right = self.stretch(problem.validation_theta)
        self.terms = options.terms

    def stretch(self, vector: list[Tensor]) -> list[Tensor]:
        """P^½ x."""
        return vector if self.root is None else [r * x for r, x in zip(self.root, vector)]

    def curvature(self, vector: Sequence[Tensor]) -> list[Tensor]:
        """H x, with weight decay and without damping."""
        inner = self.stretch(list(vector))
        product = self.problem.hessian(inner)
        if self.options.decay:
            add(product, inner, self.options.decay)
        return self.stretch(product)

    def multiply(self, vector: Sequence[Tensor]) -> list[Tensor]:
        """(H + δ) x."""
        product = self.curvature(vector)
        if self.options.damping:
            add(product, vector, self.options.damping)
        return product

    @cached_property
    def step(self) -> float:
        """α; where it is to be found, one over the largest curvature that power iteration from v sees."""
        if self.options.step != "auto":
            return self.options.step
        vector, largest = self.right, norm(self.right)
        for _ in range(POWER_ROUNDS):
            if not 0 < largest < float("inf"):
                return 0.0
            vector = self.multiply(scaled(vector, 1 / largest))
            largest = norm(vector)
        return 1 / largest if 0 < largest < float("inf") else 0.0


class Estimator:
    """One way to approximate the indirect part: a subclass says how the system is solved."""

    name: ClassVar[str]
    summary: ClassVar[str]
    graph: ClassVar[bool] = True
    """Whether it needs the graph of ∂L_tr/∂θ, which costs memory."""
    problem: ClassVar[type[Problem]] = Problem

    @classmethod
    def work(cls, terms: int) -> tuple[int, int]:
        """How many products with the Hessian and with the mixed derivative it takes."""
        return terms, 1

    def solve(self, system: System, report: Report) -> list[Tensor]:
        """p with (H + δ) p ≈ v, in the system's coordinates."""
        raise RuntimeError(f"{type(self).__name__} must define solve")

    def indirect(self, problem: Problem, options: Options, report: Report, memory: list[Tensor] | None) -> list[Tensor]:
        """-pᵀ ∂²L_tr/∂θ∂λ; `memory` holds the p to start from, if any, and then this one."""
        system = System(problem, options)
        if memory:
            # What the last solution leaves of v is solved for, and added to it.
            rest = system.multiply(memory)
            system.right = [v - r for v, r in zip(system.right, rest)]
        found = self.solve(system, report)
        if memory is not None:
            if memory:
                add(found, memory)
            memory[:] = found
        if options.step == "auto":
            report["step"] = system.step
        return [-m for m in problem.mixed(system.stretch(found))]


def parts(loss: Loss) -> list[Tensor | Callable[[], Tensor]]:
    return [loss] if isinstance(loss, Tensor) or callable(loss) else list(loss)


def warn(text: str) -> None:
    warnings.warn(text, HypergradientWarning, stacklevel=2)


def gradient(loss: Loss, inputs: Sequence[Tensor], graph: bool = False) -> list[Tensor]:
    """∂loss/∂inputs, with zeros where there is no path; `graph` keeps what a second derivative needs.

    A loss that is given as a tensor stays whole: it may be the caller's. One in parts has no graph of its gradient.
    """
    pieces = parts(loss)
    if len(pieces) > 1:
        total = [torch.zeros_like(x) for x in inputs]
        for piece in pieces:
            add(total, gradient(piece, inputs))
        return total
    value = pieces[0] if isinstance(pieces[0], Tensor) else pieces[0]()
    if not value.requires_grad:
        return [torch.zeros_like(x) for x in inputs]
    keep = graph or value is pieces[0]
    found = torch.autograd.grad(value, list(inputs), create_graph=graph, retain_graph=keep, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, found)]
