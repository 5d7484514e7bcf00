"""The short second derivative of layer normalisation is the true one."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch.autograd import gradcheck, gradgradcheck

from fewtask.sets.normalise import layer_norm


def test_values_are_those_of_torch() -> None:
    x = torch.randn(3, 4, 6, dtype=torch.float64)
    torch.testing.assert_close(layer_norm(x), F.layer_norm(x, (6,)))


def test_both_derivatives_agree_with_finite_differences() -> None:
    x = torch.randn(4, 2, 5, dtype=torch.float64, requires_grad=True)
    assert gradcheck(layer_norm, (x,))
    assert gradgradcheck(layer_norm, (x,))


def test_the_second_derivative_agrees_with_torch_when_the_input_is_used_elsewhere_too() -> None:
    x = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    direction = torch.randn_like(x)
    products = []
    for norm in (layer_norm, lambda z: F.layer_norm(z, (7,))):
        value = (norm(x * x.sin()).tanh() * x).sum()
        (slope,) = torch.autograd.grad(value, x, create_graph=True)
        products.append(torch.autograd.grad(slope, x, direction)[0])
    torch.testing.assert_close(products[0], products[1], rtol=1e-9, atol=1e-10)
