"""Nyström approximation of the Hessian (Hataya and Yamada, Nyström Method for Accurate and Scalable Implicit
Differentiation, AISTATS 2023).

k products with random directions Ω [n, k] give H ≈ Y W⁺ Yᵀ with Y = H Ω and W = Ωᵀ Y, whose inverse with damping is
written down. Exact at full rank, for any symmetric H. What the sketch has not seen counts as damping alone; without
damping nothing of v is taken from there.
"""

from __future__ import annotations

import torch
from torch import Tensor

from fewtask.hypergradient.base import Estimator, Report, System
from fewtask.hypergradient.vectors import flat, shaped

SEED = 0
"""Of the random directions: the same for every update, and torch's own random numbers stay untouched."""


class Nystrom(Estimator):
    name = "nystrom"
    summary = "inverse of a low-rank Hessian, its rank the number of terms"

    def solve(self, system: System, report: Report) -> list[Tensor]:
        v = flat(system.right)
        sketch = directions(len(v), max(1, min(system.terms, len(v)))).to(v)
        columns = [flat(system.curvature(shaped(w, system.right))) for w in sketch.t().contiguous()]
        values, vectors = low_rank(sketch, torch.stack(columns, dim=1))
        inside = vectors.t() @ v
        damping = system.options.damping
        found = vectors @ (inside / (values + damping))
        if damping:
            found += (v - vectors @ inside) / damping
        report.update(largest=float(values.abs().max()) if len(values) else 0.0, diverged=False)
        return shaped(found, system.right)


def directions(n: int, rank: int) -> Tensor:
    """[n, rank] random orthonormal columns."""
    generator = torch.Generator().manual_seed(SEED)
    return torch.linalg.qr(torch.randn(n, rank, generator=generator, dtype=torch.float64))[0]


def low_rank(sketch: Tensor, image: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues [r] and eigenvectors [n, r] of Y W⁺ Yᵀ, from Ω and Y [n, k]; r ≤ k are not zero."""
    basis, upper = torch.linalg.qr(image)
    core = sketch.t() @ image
    # Directions in which nothing but rounding was seen would be inverted to anything.
    inverse = torch.linalg.pinv(0.5 * (core + core.t()), rtol=len(core) * torch.finfo(core.dtype).eps, hermitian=True)
    values, turned = torch.linalg.eigh(upper @ inverse @ upper.t())
    kept = values.abs() > len(core) * torch.finfo(core.dtype).eps * values.abs().max()
    return values[kept], basis @ turned[:, kept]
