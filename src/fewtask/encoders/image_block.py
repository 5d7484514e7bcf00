"""Convolution, BatchNorm, pooling and ReLU as one layer, with a short way for the layer that sees the pictures.

There a convolution of three channels is cheap, and what it makes is large: at 84x84 pixels normalising and pooling it
took five times as long as the arithmetic, waiting for memory. The short way never has it whole. A few pictures at a
time are convolved, measured and pooled while they are in the cache, and convolved again for the gradient:

* BatchNorm is x ↦ s x + t with s = γ/σ, and the maximum of a window commutes with it where s is positive. Filters of
  channels with γ < 0 are turned round, so that s = |γ|/σ, and normalising comes after pooling, on a quarter.
* With g the gradient of the normalised maxima m̂ and n numbers a channel, that of the convolution is
  s (g at its maxima − Σg/n − x̂ Σ(g m̂)/n): the sums are over a quarter too.

A gradient that is itself to be differentiated takes the plain way.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fewtask.encoders.normalisation import EpisodeBatchNorm
from fewtask.products import left_to_torch

AT_A_TIME = 1 << 19
"""Numbers that a convolution makes at a time: two megabytes, which caches hold."""
POOLED = [2, 2]


class ImageBlock(nn.Sequential):
    """Convolution [C', 3, 3], BatchNorm, 2x2 pooling where there is room, ReLU: [M, C, H, W] -> [M, C', H', W']."""

    def __init__(self, channels: int, width: int, pooled: bool) -> None:
        super().__init__(
            nn.Conv2d(channels, width, 3, padding=1),
            EpisodeBatchNorm(width),
            # The appendix has ReLU first; the maximum and ReLU commute, and this way ReLU sees a quarter.
            nn.MaxPool2d(2) if pooled else nn.Identity(),
            nn.ReLU(),
        )

    def forward(self, x: Tensor) -> Tensor:
        if not self._short_way(x):
            return super().forward(x)
        convolution, norm = self[0], self[1]
        assert isinstance(convolution, nn.Conv2d)
        assert isinstance(norm, EpisodeBatchNorm)
        out, mean, var = _Pooled.apply(x, convolution.weight, convolution.bias, norm.weight, norm.bias, norm.eps)
        if norm.update:
            norm.move(mean, var, x.shape[0] * x.shape[2] * x.shape[3])
        return out

    def _short_way(self, x: Tensor) -> bool:
        norm = self[1]
        assert isinstance(norm, EpisodeBatchNorm)
        return (
            not x.requires_grad
            # Without numbers too, where costs are reckoned.
            and x.device.type in ("cpu", "meta")
            and isinstance(self[2], nn.MaxPool2d)
            and x.shape[2] % 2 == 0 == x.shape[3] % 2
            and norm.of_this_batch
            and x.shape[0] * norm.features * x.shape[2] * x.shape[3] > AT_A_TIME
            and not left_to_torch()
        )


class _Pooled(torch.autograd.Function):
    """ReLU(max(BatchNorm(x * W + b))) of pictures that need no gradient; mean and variance go along, as constants."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, gamma: Tensor, beta: Tensor, eps: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        sign = torch.where(gamma < 0, -1.0, 1.0).to(gamma.dtype)
        filters, offset = _turned(weight, sign), bias * sign
        parts: list[tuple[Tensor, ...]] = []
        for part in x.split(_at_a_time(x, weight)):
            made = torch.conv2d(part, filters, offset, padding=1)
            parts.append((*torch.ops.aten.max_pool2d_with_indices(made, POOLED), *_statistics(made)))
        maxima, places, means, variances = zip(*parts)
        share = x.new_tensor([len(some) / len(x) for some in maxima]).unsqueeze(1)
        each = torch.stack(means)
        mean = (share * each).sum(0)
        var = (share * (torch.stack(variances) + (each - mean) ** 2)).sum(0)
        inverse = torch.rsqrt(var + eps)
        scale = gamma.abs() * inverse
        joined = torch.cat(maxima)
        out = torch.addcmul(_wide(beta - mean * scale), joined, _wide(scale)).relu_()
        ctx.save_for_backward(x, weight, bias, gamma, beta, mean, inverse, joined, out, *places)
        ctx.eps = eps
        mean = mean * sign
        ctx.mark_non_differentiable(mean, var)
        return out, mean, var

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, ...]:
        slope = slopes[0]
        x, weight, bias, gamma, beta, mean, inverse, joined, out, *places = ctx.saved_tensors
        if torch.is_grad_enabled():
            plain = F.batch_norm(torch.conv2d(x, weight, bias, padding=1), None, None, gamma, beta, True, 0.0, ctx.eps)
            found = torch.autograd.grad(
                F.max_pool2d(plain, 2).relu(), (weight, bias, gamma, beta), slope, create_graph=True
            )
            return (None, *found, None)
        sign = torch.where(gamma < 0, -1.0, 1.0).to(gamma.dtype)
        filters, offset, scale = _turned(weight, sign), bias * sign, gamma.abs() * inverse
        slope = torch.ops.aten.threshold_backward(slope, out, 0.0)
        to_beta = slope.sum((0, 2, 3))
        to_gamma = ((slope * joined).sum((0, 2, 3)) - mean * to_beta) * inverse
        count = x.shape[0] * x.shape[2] * x.shape[3]
        slant = -scale * to_gamma * inverse / count
        level = -scale * to_beta / count - slant * mean
        slope = slope * _wide(scale)
        to_filters = torch.zeros_like(filters)
        rows = _at_a_time(x, weight)
        for part, part_slope, place in zip(x.split(rows), slope.split(rows), places):
            made = torch.conv2d(part, filters, offset, padding=1)
            to_made = torch.ops.aten.max_pool2d_with_indices_backward(
                part_slope, made, POOLED, POOLED, [0, 0], [1, 1], False, place
            )
            to_made.add_(made.mul_(_wide(slant)).add_(_wide(level)))
            _, found, _ = torch.ops.aten.convolution_backward(
                to_made, part, filters, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [False, True, False]
            )
            to_filters += found
        # A constant that is added before normalising changes nothing.
        return None, to_filters * sign.view(-1, 1, 1, 1), torch.zeros_like(bias), to_gamma * sign, to_beta, None


def _turned(weight: Tensor, sign: Tensor) -> Tensor:
    return (weight * sign.view(-1, 1, 1, 1)).contiguous(memory_format=torch.channels_last)


def _at_a_time(x: Tensor, weight: Tensor) -> int:
    return max(1, AT_A_TIME // (weight.shape[0] * x.shape[2] * x.shape[3]))


def _statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of each channel: [M, C, H, W] -> [C], [C]."""
    if x.is_meta:
        # torch does not know the shapes of what is fastest with numbers.
        var, mean = torch.var_mean(x, (0, 2, 3), correction=0)
        return mean, var
    mean, var = torch.batch_norm_update_stats(x, None, None, 0.0)
    return mean, var


def _wide(channels: Tensor) -> Tensor:
    return channels.view(1, -1, 1, 1)
