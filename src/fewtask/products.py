"""Matrix products by the faster of the two libraries that torch carries.

torch's own product calls MKL, which keeps AVX-512 to processors of its maker; on others oneDNN, which torch carries
for convolutions, takes half of the time or less. Which of the two a process uses follows from the processor and the
shapes alone, never from a measurement: a run that is continued must add up in the same order.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ONEDNN: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
SMALLEST = 1 << 20
"""Multiplications of a product below which the way there costs more than it saves."""
_torchs_own = False


@contextlib.contextmanager
def torchs_own() -> Iterator[None]:
    """Within the block torch computes as it does by itself: what others' code is compared with."""
    global _torchs_own
    before, _torchs_own = _torchs_own, True
    try:
        yield
    finally:
        _torchs_own = before


@functools.cache
def onednn_is_faster() -> bool:
    """Whether this processor has AVX-512 that MKL leaves alone, and torch the product that uses it."""
    if torch.backends.cpu.get_cpu_capability() != "AVX512" or not torch.backends.mkldnn.is_available():
        return False
    about = Path("/proc/cpuinfo")
    if not about.exists() or "GenuineIntel" in about.read_text():
        return False
    try:
        probe = torch.arange(6.0).view(2, 3)
        return torch.equal(_onednn(probe, probe, None), probe @ probe.t())
    except (AttributeError, RuntimeError, TypeError):
        return False  # another torch, that has it under another name


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b: [..., k], [n, k], [n] -> [..., n], with derivatives of any order."""
    if not _suits(x, weight):
        return F.linear(x, weight, bias)
    rows = _Linear.apply(x.reshape(-1, x.shape[-1]), weight, bias)
    return rows.view(*x.shape[:-1], weight.shape[0])


def product(a: Tensor, b: Tensor) -> Tensor:
    """a b: [m, k], [k, n] -> [m, n], with derivatives of any order."""
    return linear(a, b.t())


class Linear(nn.Linear):
    """nn.Linear, multiplied by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        return linear(x, self.weight, self.bias)


def multiply_faster(module: nn.Module) -> nn.Module:
    """A module with every nn.Linear in it made one of these, weights, hooks and all."""
    for layer in module.modules():
        if type(layer) is nn.Linear:
            layer.__class__ = Linear
    return module


class _Linear(torch.autograd.Function):
    """Its derivatives are made of products again, so that they have derivatives themselves."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _onednn(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        (slope,), (x, weight) = slopes, ctx.saved_tensors
        to_x, to_weight, to_bias = _asked_for(ctx)
        return (
            _laid_out_as(x, slope, weight) if to_x else None,
            _laid_out_as(weight, slope.t(), x) if to_weight else None,
            slope.sum(0) if to_bias else None,
        )


def _laid_out_as(like: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """a b, in memory by rows or by columns as `like` is: derivatives of one tensor add up slowly otherwise."""
    return product(a, b) if like.is_contiguous() else product(b.t(), a.t()).t()


def _asked_for(ctx: Any) -> list[bool]:
    """Which inputs' derivatives this backward pass leads to: torch's own product leaves the others out too.

    `needs_input_grad` says only which could be asked for; a product with θ's Hessian would compute λ's as well.
    """
    asked = list(ctx.needs_input_grad)
    for i, (node, _) in enumerate(ctx.next_functions):
        if asked[i] and node is not None:
            # Refused for a leaf whose derivative autograd.grad is to return: that is a yes.
            with contextlib.suppress(RuntimeError):
                asked[i] = torch._C._will_engine_execute_node(node)
    return asked


def _suits(x: Tensor, weight: Tensor) -> bool:
    if x.dtype != torch.float32 or weight.dtype != torch.float32 or x.device.type != "cpu":
        return False
    return x.numel() * weight.shape[0] >= SMALLEST and onednn_is_faster() and not left_to_torch()


def left_to_torch() -> bool:
    """Whether no short way may be taken here: it is not wanted, or this is within vmap or torch.func.grad, where
    tensors are not what they seem and torch has rules for its own functions alone."""
    return _torchs_own or torch._C._functorch.peek_interpreter_stack() is not None


def _onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    out: Tensor = ONEDNN(_dense(x), _dense(weight), bias, "none", [], "")
    return out


def _dense(x: Tensor) -> Tensor:
    """A matrix as it is where its rows or its columns lie in one piece, else a copy for which that holds."""
    return x if x.is_contiguous() or x.t().is_contiguous() else x.contiguous()
