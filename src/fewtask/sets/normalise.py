"""Layer normalisation whose second derivative is short, for the Hessian products of hyper-updates.

With y = (x - mean) / σ, the derivative of y is a symmetric map: J g = (g - mean(g) - y mean(g y)) / σ. Its own
derivative, that of <u, J g> with respect to x, needs nothing but J u, J g and three means of each row:

    -(mean(g y) J u + mean(u y) J g) / σ - c y / σ²,   c = mean(u g) - mean(u) mean(g) - mean(u y) mean(g y)

torch's own goes over the numbers some twenty times.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def layer_norm(x: Tensor, eps: float = 1e-5) -> Tensor:
    """(x - mean) / σ over the last axis, differentiable twice."""
    result: Tensor = _Normalise.apply(x, eps)
    return result


class _Normalise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float) -> Tensor:
        y, mean, rstd = torch.native_layer_norm(x, x.shape[-1:], None, None, eps)
        ctx.save_for_backward(x, y, mean, rstd)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _Slope.apply(grads[0], *ctx.saved_tensors), None


class _Slope(torch.autograd.Function):
    """J g at x."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, x: Tensor, y: Tensor, mean: Tensor, rstd: Tensor) -> Tensor:
        slope = _jacobian(g, x, mean, rstd)
        ctx.save_for_backward(g, x, y, mean, rstd, slope, _row_mean(g), _row_mean(g * y))
        return slope

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, u: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        g, x, y, mean, rstd, slope, g_mean, gy_mean = ctx.saved_tensors
        of_u = _jacobian(u, x, mean, rstd)
        uy_mean = _row_mean(u * y)
        c = _row_mean(u * g) - _row_mean(u) * g_mean - uy_mean * gy_mean
        of_x = torch.mul(of_u, -rstd * gy_mean).addcmul_(slope, -rstd * uy_mean).addcmul_(y, -c * rstd * rstd)
        return of_u, of_x, None, None, None


def _jacobian(g: Tensor, x: Tensor, mean: Tensor, rstd: Tensor) -> Tensor:
    found: Tensor = torch.ops.aten.native_layer_norm_backward(
        g.contiguous(), x, x.shape[-1:], mean, rstd, None, None, [True, False, False]
    )[0]
    return found


def _row_mean(x: Tensor) -> Tensor:
    return x.mean(-1, keepdim=True)
