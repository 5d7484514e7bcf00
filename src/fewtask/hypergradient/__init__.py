"""Hypergradients: how the validation loss at the trained θ(λ) changes with λ.

    dL_V/dλ = ∂L_V/∂λ - ∂L_V/∂θ (∂²L_tr/∂θ²)^-1 ∂²L_tr/∂θ∂λ

An estimator is one file that approximates the second term, and one line in the registry.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Literal

from torch import Tensor

from fewtask.hypergradient.base import Estimator, HypergradientWarning, Loss, Options, Report, gradient, parts, warn
from fewtask.hypergradient.conjugate_gradient import ConjugateGradient
from fewtask.hypergradient.direct import Direct
from fewtask.hypergradient.finite_difference import FiniteDifference
from fewtask.hypergradient.neumann import Neumann
from fewtask.hypergradient.nystrom import Nystrom
from fewtask.hypergradient.t1t2 import T1T2
from fewtask.hypergradient.vectors import norm
from fewtask.plugins import Registry

__all__ = ["ESTIMATORS", "Estimator", "HypergradientWarning", "get_estimator", "hypergradient"]

ESTIMATORS: Registry[type[Estimator]] = Registry(
    "hypergradient estimator",
    "fewtask.estimators",
    {estimator.name: estimator for estimator in (Direct, T1T2, Neumann, ConjugateGradient, Nystrom, FiniteDifference)},
)


NOTHING_DIRECT = (
    "λ acts on training alone, so that its direct gradient is zero and it learns nothing: use hyper.estimator "
    "neumann or conjugate-gradient"
)


def get_estimator(name: str) -> type[Estimator]:
    return ESTIMATORS.find(name)


def hypergradient(
    name: str,
    train_loss: Loss,
    validation_loss: Loss,
    theta: Sequence[Tensor],
    lam: Sequence[Tensor],
    *,
    step: float | Literal["auto"],
    terms: int,
    damping: float = 0.0,
    decay: float = 0.0,
    scale: Sequence[Tensor] | None = None,
    memory: list[Tensor] | None = None,
    train_grad: Sequence[Tensor] | None = None,
    report: Report | None = None,
) -> list[Tensor]:
    """The gradient of the validation loss with respect to λ, shaped like λ.

    An estimate that failed (a series that diverges, negative curvature) is a `HypergradientWarning`.

    Parameters
    ----------
    name : str
        The estimator of the indirect term, one of `ESTIMATORS`.
    train_loss, validation_loss : scalar tensor, zero-argument callable or a list of those
        A callable must replay the same batch and the same random state every time. A list holds parts whose sum is the
        loss: they are worked through one at a time, which takes less memory and, with second derivatives, more time.
    theta, lam : list of tensors
        Inner and outer parameters. An outer parameter without any path to the losses gets zeros.
    step : float or "auto"
        α, which scales the series: the inner learning rate, or one over the norm of the Hessian, which is found.
    terms : int
        q, the number of Hessian products: q + 1 summands of a series, q steps of conjugate gradients, rank q.
    damping : float
        Added to the Hessian's diagonal; keeps curvature away from zero.
    decay : float
        Weight decay of the inner optimiser: a part of its Hessian that the training loss does not hold.
    scale : list of tensors, optional
        Diagonal of the inner optimiser's preconditioner, shaped like θ; damping is then added to the scaled Hessian.
    memory : list of tensors, optional
        An empty list, or one from an earlier call: the linear system's solution to start from, then the new one.
    train_grad : list of tensors, optional
        ∂L_tr/∂θ with its graph (create_graph=True), where the caller has it already.
    report : dict, optional
        Receives `norms` of terms or residuals, whether it `diverged`, the `step` found, lengths `direct`, `indirect`.
    """
    estimator = get_estimator(name)()
    theta, lam = list(theta), list(lam)
    report = {} if report is None else report
    if not estimator.graph or (train_grad is None and len(parts(train_loss)) > 1):
        train_grad = []
    elif train_grad is None:
        train_grad = gradient(train_loss, theta, graph=True)
    filled = [s.detach() for s in gradient(validation_loss, [*theta, *lam])]
    validation_theta, direct = filled[: len(theta)], filled[len(theta) :]
    problem = estimator.problem(train_loss, theta, lam, train_grad, validation_theta)
    indirect = estimator.indirect(problem, Options(step, terms, damping, decay, scale), report, memory)
    report.update(direct=norm(direct), indirect=norm(indirect))
    if estimator.name == "direct" and lam and report["direct"] == 0:
        warn(NOTHING_DIRECT)
    return [a + b for a, b in zip(direct, indirect)]


class _CallableModule(ModuleType):
    """`from fewtask import hypergradient` finds this package, whose name it has: calling it calls the function."""

    def __call__(self, *arguments: Any, **named: Any) -> list[Tensor]:
        return hypergradient(*arguments, **named)


sys.modules[__name__].__class__ = _CallableModule
