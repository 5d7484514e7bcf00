"""Hypergradients: how the validation loss at the trained θ(λ) changes with λ.

    dL_V/dλ = ∂L_V/∂λ - ∂L_V/∂θ (∂²L_tr/∂θ²)^-1 ∂²L_tr/∂θ∂λ

An estimator is one file that approximates the second term, and one line in the registry.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from fewtask.errors import unknown
from fewtask.hypergradient.base import Loss, Problem, Report, evaluate, norm
from fewtask.hypergradient.neumann import neumann

__all__ = ["ESTIMATORS", "hypergradient"]

ESTIMATORS: dict[str, Callable[..., list[Tensor]]] = {
    "neumann": neumann,
}


def hypergradient(
    name: str,
    train_loss: Loss,
    validation_loss: Loss,
    theta: Sequence[Tensor],
    lam: Sequence[Tensor],
    *,
    step: float,
    terms: int,
    train_grad: Sequence[Tensor] | None = None,
    report: Report | None = None,
) -> list[Tensor]:
    """The gradient of the validation loss with respect to λ, shaped like λ.

    Parameters
    ----------
    name : str
        The estimator of the indirect term: "neumann".
    train_loss, validation_loss : scalar tensor or zero-argument callable
        A callable must replay the same batch and the same random state every time.
    theta, lam : list of tensors
        Inner and outer parameters. An outer parameter without any path to the losses gets zeros.
    step : float
        α, the inner learning rate, which scales the series.
    terms : int
        q, the number of Hessian products: q + 1 summands.
    train_grad : list of tensors, optional
        ∂L_tr/∂θ with its graph (create_graph=True), where the caller has it already.
    report : dict, optional
        Receives `norms` of the terms of the series, whether it `diverged`, and the lengths of the `direct` and
        the `indirect` part.
    """
    if name not in ESTIMATORS:
        raise unknown("hypergradient estimator", name, ESTIMATORS)
    theta, lam = list(theta), list(lam)
    if train_grad is None:
        found = torch.autograd.grad(evaluate(train_loss), theta, create_graph=True, allow_unused=True)
        train_grad = [torch.zeros_like(t) if g is None else g for t, g in zip(theta, found)]
    outer = evaluate(validation_loss)
    slopes: Sequence[Tensor | None] = [None] * (len(theta) + len(lam))
    if outer.requires_grad:
        slopes = torch.autograd.grad(outer, [*theta, *lam], retain_graph=True, allow_unused=True)
    filled = [torch.zeros_like(x) if s is None else s.detach() for x, s in zip([*theta, *lam], slopes)]
    validation_theta, direct = filled[: len(theta)], filled[len(theta) :]
    problem = Problem(train_loss, theta, lam, train_grad, validation_theta)
    indirect = ESTIMATORS[name](problem, step=step, terms=terms, report=report)
    if report is not None:
        report.update(direct=norm(direct), indirect=norm(indirect))
    return [a + b for a, b in zip(direct, indirect)]


class _CallableModule(ModuleType):
    """`from fewtask import hypergradient` finds this package, whose name it has: calling it calls the function."""

    def __call__(self, *arguments: Any, **named: Any) -> list[Tensor]:
        return hypergradient(*arguments, **named)


sys.modules[__name__].__class__ = _CallableModule
