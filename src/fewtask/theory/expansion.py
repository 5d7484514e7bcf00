"""Theorem 1: the mixed loss as the singleton loss plus directional derivatives along Δ.

Source: Meta-Interpolation, Theorem 1 and its proof. With c the prototypes of the singletons, L_t the loss as
a function of prototypes, and g the layers after the interpolated one, the J-th order approximation of L_mix is

    L_mix ≈ L_singleton + Σ_{j=1..J} (1/j!) vec[∂^j L_t(c)]ᵀ Δ^{⊗j}
    Δ_k   = E_{i~μ_{t,k}, j~μ_{t',σ(k)}} [ α_ij ∂g(Wh_i + b) W(h'_j − h_i) ]

vec[∂^j L_t(c)]ᵀ Δ^{⊗j} is the j-th derivative of γ ↦ L_t(c + γΔ) at γ = 0. It is taken by differentiating
that scalar function j times, so that no tensor of (KD)^j numbers is ever built.

What the text gets wrong or leaves out:
- The assumption is ∂^r g = 0 for r ≥ 2 at the points Wh + b only. The proof's "L_t(c + Δ) = L_mix" needs more:
  g affine along each segment from Wh_i + b to φ({h_i, h'_j}). A ReLU network meets the assumption almost
  everywhere, but not the equation once a segment crosses a kink; for a smooth non-linear g the error is O(ε²)
  for every J.
- Δ_kᵀ in the statement is a column, Δ_k; N_{t',k} in the proof is N_{t',σ(k)}.
- The terms are directional derivatives of L_t ∘ g, not "of φ^l" as the sentence before the theorem says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fewtask.errors import SettingsError
from fewtask.theory.attention import AttentionSetFunction

ClassRows = Sequence[Tensor] | Tensor
"""Rows of each of K classes: K tensors [N_k, d] (sizes may differ), or one tensor [K, N, d]."""

Layers = Callable[[Tensor], Tensor]
"""g, the layers after the interpolated one: rows [..., d] -> [..., D], each row by itself."""

PrototypeLoss = Callable[[Tensor], Tensor]
"""L_t: prototypes [K, D] -> scalar."""


def squared_euclidean(queries: Tensor, prototypes: Tensor) -> Tensor:
    """Squared distances of queries [n, D] to prototypes [K, D] -> [n, K]."""
    return (queries[:, None, :] - prototypes[None, :, :]).square().sum(dim=-1)


def protonet_loss(
    queries: Tensor, labels: Tensor, distance: Callable[[Tensor, Tensor], Tensor] = squared_euclidean
) -> PrototypeLoss:
    """L_t(c), the mean cross-entropy of embedded queries [n, D] with labels [n]; c is [K, D]."""

    def loss(prototypes: Tensor) -> Tensor:
        return torch.nn.functional.cross_entropy(-distance(queries, prototypes), labels)

    return loss


def singleton_prototypes(phi: AttentionSetFunction, g: Layers, support: ClassRows) -> Tensor:
    """c_k = mean_i g(φ({h_i})), [K, D], by the set function itself and not by its closed form."""
    return torch.stack([g(phi(rows[:, None, :])).mean(dim=0) for rows in support])


def mixed_prototypes(
    phi: AttentionSetFunction, g: Layers, support: ClassRows, partner: ClassRows, sigma: Sequence[int]
) -> Tensor:
    """ĉ_k = mean over all pairs (i, j) of g(φ({h_i, h'_j})), class k with the partner's σ(k), [K, D]."""
    prototypes = []
    for rows, others in _paired(support, partner, sigma):
        pairs = torch.stack(torch.broadcast_tensors(rows[:, None, :], others[None, :, :]), dim=-2)
        prototypes.append(g(phi(pairs)).mean(dim=(0, 1)))
    return torch.stack(prototypes)


def delta_terms(
    phi: AttentionSetFunction, g: Layers, support: ClassRows, partner: ClassRows, sigma: Sequence[int]
) -> Tensor:
    """Δ_1, ..., Δ_K of Theorem 1, [K, D], by one Jacobian-vector product of g a class."""
    terms = []
    for rows, others in _paired(support, partner, sigma):
        alpha = phi.pairwise_alpha(rows, others)
        # ∂g is taken at Wh_i + b, the same for every j: the mean over j can go inside.
        step = (alpha[..., None] * (others[None, :, :] - rows[:, None, :])).mean(dim=1) @ phi.weight.T
        terms.append(torch.func.jvp(g, (phi.singleton(rows),), (step,))[1].mean(dim=0))
    return torch.stack(terms)


def directional_derivatives(loss: PrototypeLoss, at: Tensor, direction: Tensor, order: int) -> Tensor:
    """vec[∂^j L(c)]ᵀ Δ^{⊗j} for j = 0 to order -> [order + 1]; at is c and direction is Δ, both [K, D].

    The result can be differentiated further if c, Δ or the loss depend on tensors that require gradients.
    """
    if order < 1:
        raise SettingsError(f"an approximation of order {order} was asked for: the order J must be at least 1")
    attached = torch.is_grad_enabled() and (direction.requires_grad or loss(at).requires_grad)
    with torch.enable_grad():
        gamma = at.new_zeros(()).requires_grad_()
        derivative = loss(at + gamma * direction)
        derivatives = [derivative]
        for _ in range(order):
            if derivative.requires_grad:
                (slope,) = torch.autograd.grad(derivative, gamma, create_graph=True, allow_unused=True)
                # A derivative that no longer depends on γ (a polynomial loss) has none of its own.
                derivative = torch.zeros_like(gamma) if slope is None else slope
            else:
                derivative = torch.zeros_like(gamma)
            derivatives.append(derivative)
        stacked = torch.stack(derivatives)
    return stacked if attached else stacked.detach()


@dataclass(frozen=True)
class MixExpansion:
    """Theorem 1 on one pair of tasks.

    prototypes:  c, [K, D].
    delta:       Δ, [K, D].
    derivatives: [J + 1]; entry j is vec[∂^j L_t(c)]ᵀ Δ^{⊗j}, and entry 0 is L_singleton.
    """

    prototypes: Tensor
    delta: Tensor
    derivatives: Tensor

    @property
    def order(self) -> int:
        return self.derivatives.shape[0] - 1

    @property
    def singleton_loss(self) -> Tensor:
        return self.derivatives[0]

    def approximation(self, order: int | None = None) -> Tensor:
        """L_singleton + Σ_{j=1..order} (1/j!) vec[∂^j L_t(c)]ᵀ Δ^{⊗j}; all J terms unless told otherwise."""
        last = self.order if order is None else order
        if not 0 <= last <= self.order:
            raise SettingsError(f"this expansion has the orders 0 to {self.order}: order {last} is not among them")
        factorials = [math.factorial(j) for j in range(last + 1)]
        return (self.derivatives[: last + 1] / self.derivatives.new_tensor(factorials)).sum()


def expand_mix_loss(
    phi: AttentionSetFunction,
    g: Layers,
    loss: PrototypeLoss,
    support: ClassRows,
    partner: ClassRows,
    sigma: Sequence[int],
    order: int,
) -> MixExpansion:
    """The expansion of L_mix around L_singleton up to the given order J ≥ 1.

    support, partner: rows h of the tasks t and t' at the interpolated layer; sigma: class k of t is paired
    with class sigma[k] of t'.
    """
    prototypes = singleton_prototypes(phi, g, support)
    delta = delta_terms(phi, g, support, partner, sigma)
    return MixExpansion(prototypes, delta, directional_derivatives(loss, prototypes, delta, order))


def mix_loss(
    phi: AttentionSetFunction,
    g: Layers,
    loss: PrototypeLoss,
    support: ClassRows,
    partner: ClassRows,
    sigma: Sequence[int],
) -> Tensor:
    """L_mix itself, L_t(ĉ), with nothing approximated; arguments as for `expand_mix_loss`."""
    return loss(mixed_prototypes(phi, g, support, partner, sigma))


def _paired(support: ClassRows, partner: ClassRows, sigma: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
    """Rows of class k of t with the rows of class σ(k) of t', for each k."""
    if sorted(sigma) != list(range(len(support))) or len(partner) != len(support):
        raise SettingsError(
            f"sigma {list(sigma)} must be a permutation of 0 to {len(support) - 1}, and the partner task must "
            f"have {len(support)} classes, but it has {len(partner)}"
        )
    return [(rows, partner[other]) for rows, other in zip(support, sigma)]
