"""Proposition 1: in a linear two-class case the second-order term is c‖θ‖²_M with M = E[δδᵀ].

Source: Meta-Interpolation, Proposition 1 and its proof. The special case: rows are used as they are, W = I,
b = 0, g(x) = xᵀθ (so D = 1), and

    L_t = (1/n) Σ_i 1/(1 + exp(z_i)),    z_i = ⟨x_i − (c'_1 + c'_2)/2, θ⟩,    c'_k the mean of class k
    c   = (1/n) Σ_i (1/4) ψ(z_i)(ψ(z_i) − 1/2)/(1 + exp(z_i)),    ψ the logistic function
    δ   = Σ_{k=1,2} E_{i~μ_{t,k}, j~μ_{t',σ(k)}} [α_ij (x'_j − x_i)]

If α is balanced, E_{t',σ}[δ] = 0, then the second-order approximation of E_{t',σ}[L_mix] is
L_singleton + c θᵀ E_{t',σ}[δδᵀ] θ.

What the text gets wrong or leaves open:
- The statement prints δ as the average over the two classes. The proof's sum is right: with the average the
  term is a quarter of what it should be (`delta_as_printed`).
- "c > 0 if θ is no worse than the random guess" holds if every query has z_i > 0, the example given; it does
  not follow from a mean loss below that of θ = 0 (z = 4 and z = −1 give c < 0). Then the term rewards a large
  ‖θ‖_M.
- The loss has no label in it. Both classes are asked to have z_i > 0.
- ‖θ‖²_M is said to regularise ‖θ‖²_Σ, Σ = E[(x − x')(x − x')ᵀ]. No inequality between them holds in general:
  rank M is at most the number of draws of (t', σ), so with few tasks M leaves directions free that Σ does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fewtask.errors import SettingsError
from fewtask.theory.attention import AttentionSetFunction
from fewtask.theory.expansion import ClassRows, PrototypeLoss, delta_terms, expand_mix_loss, mix_loss


@dataclass(frozen=True)
class Draw:
    """One equally likely draw of (t', σ): the partner's rows of two classes; k is paired with sigma[k]."""

    partner: ClassRows
    sigma: tuple[int, int]


@dataclass(frozen=True)
class LinearCase:
    """The special case.

    phi:     set function with W = I and b = 0.
    theta:   [d].
    support: rows of the two classes of task t, two tensors [N_k, d].
    queries: [n, d].
    """

    phi: AttentionSetFunction
    theta: Tensor
    support: ClassRows
    queries: Tensor

    def __post_init__(self) -> None:
        if len(self.support) != 2:
            raise SettingsError(f"Proposition 1 is about two classes, but the support has {len(self.support)}")
        identity = torch.eye(self.theta.shape[0], dtype=self.theta.dtype)
        if not (
            torch.allclose(self.phi.weight, identity) and torch.allclose(self.phi.bias, torch.zeros(()).to(identity))
        ):
            raise SettingsError("Proposition 1 needs a set function with W = I and b = 0: make one with values=False")

    def embed(self, rows: Tensor) -> Tensor:
        """g(x) = xᵀθ: [..., d] -> [..., 1]."""
        return (rows @ self.theta)[..., None]

    def loss(self) -> PrototypeLoss:
        """L_t as a function of the prototypes c_k = θᵀc'_k, [2, 1] -> scalar."""
        return lambda prototypes: torch.sigmoid(-(self.queries @ self.theta - prototypes.mean())).mean()

    def margins(self) -> Tensor:
        """z_i = ⟨x_i − (c'_1 + c'_2)/2, θ⟩, [n]."""
        middle = (self.support[0].mean(dim=0) + self.support[1].mean(dim=0)) / 2
        return (self.queries - middle) @ self.theta

    def singleton_loss(self) -> Tensor:
        """L_singleton = (1/n) Σ_i 1/(1 + exp(z_i))."""
        return torch.sigmoid(-self.margins()).mean()

    def coefficient(self) -> Tensor:
        """c, the weight of the regulariser; negative where θ does badly."""
        return curvature(self.margins()).mean()


def curvature(z: Tensor) -> Tensor:
    """A query's part of c, (1/4) ψ(z)(ψ(z) − 1/2)/(1 + exp(z)), for margins z of any shape."""
    return torch.sigmoid(z) * (torch.sigmoid(z) - 0.5) * torch.sigmoid(-z) / 4


def delta(case: LinearCase, draw: Draw) -> Tensor:
    """δ_{t,t',σ} [d], the sum over the two classes (as in the proof)."""
    return delta_terms(case.phi, lambda rows: rows, case.support, draw.partner, draw.sigma).sum(dim=0)


def delta_as_printed(case: LinearCase, draw: Draw) -> Tensor:
    """δ of the proposition's statement [d], the average over the two classes: half of what is right."""
    return delta(case, draw) / 2


def imbalance(case: LinearCase, draws: Sequence[Draw]) -> Tensor:
    """E_{t',σ}[δ] [d] over equally likely draws; zero if α is balanced."""
    return torch.stack([delta(case, draw) for draw in draws]).mean(dim=0)


def delta_second_moment(case: LinearCase, draws: Sequence[Draw]) -> Tensor:
    """M = E_{t',σ}[δδᵀ] [d, d] over equally likely draws."""
    deltas = torch.stack([delta(case, draw) for draw in draws])
    return deltas.T @ deltas / len(draws)


def closed_form(case: LinearCase, draws: Sequence[Draw]) -> Tensor:
    """L_singleton + c‖θ‖²_M, the right-hand side of Proposition 1; right only if α is balanced."""
    return case.singleton_loss() + case.coefficient() * (case.theta @ delta_second_moment(case, draws) @ case.theta)


def second_order_expansion(case: LinearCase, draws: Sequence[Draw]) -> Tensor:
    """E_{t',σ} of Theorem 1's approximation of L_mix with J = 2, by differentiation."""
    return torch.stack(
        [
            expand_mix_loss(
                case.phi, case.embed, case.loss(), case.support, draw.partner, draw.sigma, order=2
            ).approximation()
            for draw in draws
        ]
    ).mean()


def expected_mix_loss(case: LinearCase, draws: Sequence[Draw]) -> Tensor:
    """E_{t',σ}[L_mix] with nothing approximated."""
    return torch.stack(
        [mix_loss(case.phi, case.embed, case.loss(), case.support, draw.partner, draw.sigma) for draw in draws]
    ).mean()
