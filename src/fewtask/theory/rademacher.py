"""Proposition 2: the Rademacher complexity of linear functions with a bounded ‖θ‖_Σ.

Source: Meta-Interpolation, Proposition 2 and its proof. For F_R = {x ↦ θᵀx : θᵀΣθ ≤ R}, E[x] = 0 and
Σ = E[(x − x')(x − x')ᵀ] with x, x' independent,

    R_n(F_R) = E_x E_ξ sup_{f in F_R} (1/n) Σ_i ξ_i f(x_i)  ≤  √R √rank(Σ) / √n

The supremum for given signs has a closed form, √R ‖v‖_{Σ†} with v = (1/n) Σ_i ξ_i x_i, if v lies in the range
of Σ; else it is infinite.

What the text leaves out:
- The bound is true, but not tight for any Σ ≠ 0: Σ = 2 Cov(x), so E[xᵀΣ†x] = rank(Σ)/2, and the same argument
  without the step x_i → x_i − x' gives √R √(rank(Σ)/2) / √n (`sharp_bound`), approached as the rank grows.
- It bounds the expectation over samples. Given one sample, the average over signs stays below it if Σ is that
  centred sample's own; with the population's Σ an unlucky sample may exceed it.
- E[x] = 0 is needed: rows with a common mean outside the range of Σ make the supremum infinite.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fewtask.errors import SettingsError


@dataclass(frozen=True)
class RademacherAverage:
    """A Monte-Carlo average over signs and the standard error of it."""

    mean: float
    standard_error: float


def difference_matrix(rows: Tensor) -> Tensor:
    """Σ = E[(x − x')(x − x')ᵀ] = 2 Cov(x), [d, d], x and x' independent draws from the rows [n, d]."""
    centred = rows - rows.mean(dim=0)
    return 2 * centred.T @ centred / rows.shape[0]


def rank(sigma: Tensor) -> int:
    """Numerical rank of a positive semi-definite matrix [d, d]."""
    return int(_spectrum(sigma)[0].shape[0])


def bound(R: float, sigma: Tensor, n: int) -> float:
    """√R √rank(Σ) / √n, the bound of Proposition 2."""
    _check(R, n)
    return math.sqrt(R * rank(sigma) / n)


def sharp_bound(R: float, sigma: Tensor, n: int) -> float:
    """√R √(rank(Σ)/2) / √n, what the proof gives without its detour over x'."""
    return bound(R, sigma, n) / math.sqrt(2)


def supremum(signs: Tensor, rows: Tensor, sigma: Tensor, R: float) -> Tensor:
    """sup over F_R of (1/n) Σ_i ξ_i θᵀx_i -> [...], for signs [..., n] and rows [n, d].

    Infinite where the signed mean of the rows is outside the range of Σ.
    """
    _check(R, rows.shape[0])
    values, vectors = _spectrum(sigma)
    means = signs.to(rows) @ rows / rows.shape[0]
    within = means @ vectors
    outside = (means - within @ vectors.T).norm(dim=-1)
    # Rounding leaves a part of this relative size outside a range that holds the rows.
    slack = math.sqrt(torch.finfo(rows.dtype).eps) * rows.norm(dim=-1).mean()
    sup = math.sqrt(R) * (within.square() / values).sum(dim=-1).sqrt()
    return torch.where(outside > slack, torch.full_like(sup, math.inf), sup)


def monte_carlo_average(
    rows: Tensor, sigma: Tensor, R: float, draws: int, generator: torch.Generator
) -> RademacherAverage:
    """Empirical Rademacher average of F_R on the rows [n, d], over so many draws of the signs."""
    if draws < 2:
        raise SettingsError(f"a Monte-Carlo average over {draws} draws has no standard error: take at least 2")
    signs = torch.randint(0, 2, (draws, rows.shape[0]), generator=generator) * 2 - 1
    sups = supremum(signs, rows, sigma, R)
    return RademacherAverage(mean=float(sups.mean()), standard_error=float(sups.std()) / math.sqrt(draws))


def exact_average(rows: Tensor, sigma: Tensor, R: float) -> float:
    """Empirical Rademacher average of F_R over all 2^n signs, for at most 16 rows [n, d]."""
    n = rows.shape[0]
    if n > 16:
        raise SettingsError(f"{n} rows have 2^{n} sign vectors: use monte_carlo_average beyond 16 rows")
    signs = torch.tensor(list(itertools.product((-1, 1), repeat=n)))
    return float(supremum(signs, rows, sigma, R).mean())


def _spectrum(sigma: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues [r] above rounding, and their eigenvectors [d, r], of a positive semi-definite [d, d]."""
    if sigma.ndim != 2 or sigma.shape[0] != sigma.shape[1]:
        raise SettingsError(f"Σ must be a square matrix, but its shape is {tuple(sigma.shape)}")
    values, vectors = torch.linalg.eigh(sigma)
    kept = values > values.abs().max() * sigma.shape[0] * torch.finfo(sigma.dtype).eps
    return values[kept], vectors[:, kept]


def _check(R: float, n: int) -> None:
    if R < 0 or n < 1:
        raise SettingsError(f"R = {R} and n = {n} were given: R must not be negative and n must be at least 1")
