"""Inner and outer problems in float64 whose implicit gradient can be written down as a matrix."""

from __future__ import annotations

import torch
from torch import Tensor


class Quadratic:
    """L_tr = ½ θᵀAθ + θᵀMλ + bᵀθ and L_V = ½ ‖Cθ - t‖² + cᵀλ, with θ and λ in two tensors each."""

    def __init__(self, seed: int, n: int = 6, m: int = 5) -> None:
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        root = normal(n, n)
        self.A = root @ root.T / n + 0.3 * torch.eye(n, dtype=torch.float64)
        self.M, self.b, self.C, self.t, self.c = normal(n, m), normal(n), normal(n, n), normal(n), normal(m)
        self.theta = [normal(2).requires_grad_(), normal(n - 2).requires_grad_()]
        self.lam = [normal(1).requires_grad_(), normal(m - 1).requires_grad_()]
        self.largest = float(torch.linalg.eigvalsh(self.A).max())

    def train_loss(self) -> Tensor:
        theta, lam = torch.cat(self.theta), torch.cat(self.lam)
        return 0.5 * theta @ self.A @ theta + theta @ self.M @ lam + self.b @ theta

    def validation_loss(self) -> Tensor:
        return 0.5 * (self.C @ torch.cat(self.theta) - self.t).pow(2).sum() + self.c @ torch.cat(self.lam)

    def slope(self) -> Tensor:
        return (self.C.T @ (self.C @ torch.cat(self.theta) - self.t)).detach()

    def partial(self, step: float, powers: int) -> Tensor:
        """c - Mᵀ α Σ_{j < powers} (I - αA)^j v."""
        term = self.slope()
        total = torch.zeros_like(term)
        for _ in range(powers):
            total, term = total + term, term - step * self.A @ term
        return self.c - self.M.T @ (step * total)


class Classifier:
    """147 weights at the minimum of a training loss whose λ are an l2 coefficient a weight and a weight an example."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        self.x, self.x_val = normal(40, 6), normal(30, 6)
        self.y, self.y_val = (torch.randint(7, (n,), generator=generator) for n in (40, 30))
        self.shapes = [(6, 10), (10,), (10, 7), (7,)]
        self.sizes = [60, 10, 70, 7]
        point = 0.5 * normal(sum(self.sizes))
        self.lam = [(0.3 * normal(147) - 4.0).requires_grad_(), (0.3 * normal(40)).requires_grad_()]
        self.theta = [t.requires_grad_() for t in self.split(self.converged(point))]

    def split(self, point: Tensor) -> list[Tensor]:
        return [x.reshape(shape).detach() for x, shape in zip(point.split(self.sizes), self.shapes)]

    def losses(self, point: Tensor, x: Tensor, y: Tensor) -> Tensor:
        W, b, U, c = (p.view(shape) for p, shape in zip(point.split(self.sizes), self.shapes))
        return torch.nn.functional.cross_entropy(torch.tanh(x @ W + b) @ U + c, y, reduction="none")

    def inner(self, point: Tensor) -> Tensor:
        decay, weight = self.lam
        return (weight.exp() * self.losses(point, self.x, self.y)).mean() + (decay.exp() * point.pow(2)).sum()

    def train_loss(self) -> Tensor:
        return self.inner(torch.cat([t.reshape(-1) for t in self.theta]))

    def validation_loss(self) -> Tensor:
        point = torch.cat([t.reshape(-1) for t in self.theta])
        return self.losses(point, self.x_val, self.y_val).mean() + 0.01 * self.lam[1].pow(2).sum()

    def converged(self, point: Tensor) -> Tensor:
        """By LBFGS to where Newton's method takes over."""
        point = point.requires_grad_()
        optimiser = torch.optim.LBFGS([point], max_iter=300, tolerance_grad=1e-9, line_search_fn="strong_wolfe")

        def closure() -> Tensor:
            optimiser.zero_grad()
            loss = self.inner(point)
            loss.backward()
            return loss

        optimiser.step(closure)  # type: ignore[no-untyped-call]
        for x in self.lam:
            x.grad = None
        point = point.detach()
        for _ in range(3):
            slope, curvature = torch.func.grad(self.inner)(point), torch.func.hessian(self.inner)(point)
            point = point - torch.linalg.solve(curvature, slope).detach()
        return point


def exact(problem: Quadratic | Classifier, damping: float = 0.0) -> Tensor:
    """dL_V/dλ = ∂L_V/∂λ - vᵀ (H + δ)^-1 M by the whole matrices, column by column."""
    theta, lam = problem.theta, problem.lam
    slopes = torch.autograd.grad(problem.train_loss(), theta, create_graph=True)
    flat = torch.cat([s.reshape(-1) for s in slopes])
    lines = [flat_gradient(slope, [*theta, *lam]) for slope in flat]
    H, M = torch.stack(lines).split([len(flat), len(lines[0]) - len(flat)], dim=1)
    outer = flat_gradient(problem.validation_loss(), [*theta, *lam])
    v, direct = outer[: len(flat)], outer[len(flat) :]
    return direct - torch.linalg.solve(H + damping * torch.eye(len(H), dtype=H.dtype), v) @ M


def flat_gradient(output: Tensor, inputs: list[Tensor]) -> Tensor:
    found = torch.autograd.grad(output, inputs, retain_graph=True, allow_unused=True)
    return torch.cat([(torch.zeros_like(x) if f is None else f).flatten() for x, f in zip(inputs, found)])
