"""Theorem 1: the terms against brute force, and the order of the error measured."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fewtask.errors import SettingsError
from fewtask.theory import (
    AttentionSetFunction,
    delta_terms,
    directional_derivatives,
    expand_mix_loss,
    mix_loss,
    mixed_prototypes,
    protonet_loss,
    random_set_function,
    singleton_prototypes,
)

K, N, d, D, QUERIES = 3, 2, 4, 3, 8
SIGMA = (2, 0, 1)


class World:
    """Two tasks whose classes shrink towards shared centres, so that every h' − h is proportional to ε."""

    def __init__(self, seed: int, shot: int = N) -> None:
        generator = torch.Generator().manual_seed(seed)

        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        self.phi: AttentionSetFunction = random_set_function(d, generator)
        self.centres, self.spread, self.partner_spread = draw(K, 1, d), draw(K, shot, d), draw(K, shot, d)
        self.slope, self.shift = draw(D, d) / 2, draw(D)
        self.outer, self.inner = draw(D, 6) / 2, draw(6, d) / 2
        self.loss = protonet_loss(draw(QUERIES, D), torch.arange(QUERIES) % K)

    def affine(self, rows: Tensor) -> Tensor:
        return rows @ self.slope.T + self.shift

    def relu(self, rows: Tensor) -> Tensor:
        return torch.relu(rows @ self.inner.T) @ self.outer.T

    def tanh(self, rows: Tensor) -> Tensor:
        return torch.tanh(rows @ self.inner.T) @ self.outer.T

    def tasks(self, epsilon: float) -> tuple[Tensor, Tensor]:
        """Support of t and of t'; class σ(k) of t' lies about the centre of class k of t."""
        partner = torch.empty_like(self.partner_spread)
        partner[list(SIGMA)] = self.centres + epsilon * self.partner_spread
        return self.centres + epsilon * self.spread, partner

    def error(self, g: Callable[[Tensor], Tensor], epsilon: float, order: int) -> float:
        """Absolute error of the approximation of that order."""
        support, partner = self.tasks(epsilon)
        expansion = expand_mix_loss(self.phi, g, self.loss, support, partner, SIGMA, order)
        return abs(float(mix_loss(self.phi, g, self.loss, support, partner, SIGMA) - expansion.approximation()))


def error_order(name: str, order: int, shot: int = N, powers: range = range(6, 10)) -> float:
    """Slope of log error against log ε = −power log 2, by least squares, for the layers g of that name.

    The error is the root mean square over worlds: in a single one the leading coefficient may happen to be small,
    so that the error changes sign within the range of ε.
    """
    worlds = [World(seed, shot) for seed in range(12)]
    x, y = [], []
    for power in powers:
        squares = [world.error(getattr(world, name), 2.0**-power, order) ** 2 for world in worlds]
        x.append(-power * math.log(2))
        y.append(math.log(sum(squares) / len(squares)) / 2)
    return statistics.linear_regression(x, y).slope


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("shot", [1, 3])
def test_the_error_of_order_j_falls_with_the_power_j_plus_one(order: int, shot: int) -> None:
    assert error_order("affine", order, shot) == pytest.approx(order + 1, abs=0.1)


@pytest.mark.parametrize("order", [1, 2])
def test_a_relu_network_has_the_same_error_order_once_no_segment_crosses_a_kink(order: int) -> None:
    assert error_order("relu", order, powers=range(7, 11)) == pytest.approx(order + 1, abs=0.1)


@pytest.mark.parametrize("order", [2, 3])
def test_a_smooth_network_keeps_an_error_of_second_order(order: int) -> None:
    assert error_order("tanh", order) == pytest.approx(2, abs=0.1)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31))
def test_mixed_prototypes_are_singleton_prototypes_plus_delta_for_affine_layers(seed: int) -> None:
    world = World(seed)
    support, partner = world.tasks(1.0)
    mixed = mixed_prototypes(world.phi, world.affine, support, partner, SIGMA)
    single = singleton_prototypes(world.phi, world.affine, support)
    delta = delta_terms(world.phi, world.affine, support, partner, SIGMA)
    torch.testing.assert_close(mixed, single + delta, rtol=1e-11, atol=1e-11)


def test_a_segment_that_crosses_a_kink_breaks_the_proofs_equation() -> None:
    world = World(seed=1)
    support, partner = world.tasks(0.25)
    mixed = mixed_prototypes(world.phi, world.relu, support, partner, SIGMA)
    single = singleton_prototypes(world.phi, world.relu, support)
    delta = delta_terms(world.phi, world.relu, support, partner, SIGMA)
    assert float((mixed - single - delta).abs().max()) > 1e-2


@pytest.mark.parametrize("name", ["affine", "relu", "tanh"])
def test_delta_is_the_mean_over_pairs_of_the_full_jacobian_in_the_formula(name: str) -> None:
    world = World(seed=1)
    g = getattr(world, name)
    generator = torch.Generator().manual_seed(2)
    support = [torch.randn(n, d, generator=generator, dtype=torch.float64) for n in (1, 2, 4)]
    partner = [torch.randn(n, d, generator=generator, dtype=torch.float64) for n in (3, 1, 2)]
    expected = []
    for k in range(K):
        terms = []
        for h, other in itertools.product(support[k], partner[SIGMA[k]]):
            W, b = world.phi.weight, world.phi.bias
            jacobian = torch.autograd.functional.jacobian(g, W @ h + b)
            terms.append(world.phi.alpha(h, other) * (jacobian @ W @ (other - h)))
        expected.append(torch.stack(terms).mean(dim=0))
    found = delta_terms(world.phi, g, support, partner, SIGMA)
    torch.testing.assert_close(found, torch.stack(expected), rtol=1e-12, atol=1e-12)


def test_directional_derivatives_equal_the_contracted_derivative_tensors() -> None:
    world = World(seed=3)
    generator = torch.Generator().manual_seed(4)
    at, direction = (torch.randn(K, D, generator=generator, dtype=torch.float64) for _ in range(2))

    def flat(vector: Tensor) -> Tensor:
        return world.loss(vector.reshape(K, D))

    gradient = torch.func.jacrev(flat)
    hessian = torch.func.jacrev(gradient)
    third = torch.func.jacrev(hessian)
    c, a = at.flatten(), direction.flatten()
    expected = torch.stack(
        [
            flat(c),
            gradient(c) @ a,
            torch.einsum("ij,i,j->", hessian(c), a, a),
            torch.einsum("ijk,i,j,k->", third(c), a, a, a),
        ]
    )
    found = directional_derivatives(world.loss, at, direction, order=3)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_derivatives_beyond_the_degree_of_a_polynomial_loss_are_zero() -> None:
    at, direction = torch.tensor([[3.0]], dtype=torch.float64), torch.tensor([[2.0]], dtype=torch.float64)
    square = directional_derivatives(lambda c: c.square().sum(), at, direction, order=5)
    assert square.tolist() == [9, 12, 8, 0, 0, 0]
    constant = directional_derivatives(lambda c: torch.ones((), dtype=c.dtype), at, direction, order=2)
    assert constant.tolist() == [1, 0, 0]


def test_the_expansion_has_the_gradient_of_the_regulariser_and_no_graph_without_need() -> None:
    at = torch.tensor([[3.0]], dtype=torch.float64)
    step = torch.tensor([[2.0]], dtype=torch.float64, requires_grad=True)
    derivatives = directional_derivatives(lambda c: c.square().sum(), at, step, order=2)
    (gradient,) = torch.autograd.grad(derivatives[2], step)
    assert gradient.tolist() == [[8.0]]
    assert not directional_derivatives(lambda c: c.square().sum(), at, step.detach(), order=2).requires_grad


def test_higher_orders_come_nearer_to_the_mixed_loss_and_order_zero_is_the_singleton_loss() -> None:
    world = World(seed=6)
    support, partner = world.tasks(0.1)
    expansion = expand_mix_loss(world.phi, world.affine, world.loss, support, partner, SIGMA, order=8)
    exact = mix_loss(world.phi, world.affine, world.loss, support, partner, SIGMA)
    errors = [abs(float(expansion.approximation(j) - exact)) for j in range(9)]
    single = world.loss(singleton_prototypes(world.phi, world.affine, support))
    assert float(expansion.singleton_loss) == pytest.approx(float(single), abs=1e-14)
    assert float(expansion.approximation(0)) == pytest.approx(float(single), abs=1e-14)
    assert errors[8] < 1e-6 * errors[0]


def test_the_partners_classes_are_taken_in_the_order_of_sigma() -> None:
    world = World(seed=7)
    support, partner = world.tasks(1.0)
    found = mixed_prototypes(world.phi, world.affine, support, partner, SIGMA)
    expected = mixed_prototypes(world.phi, world.affine, support, partner[list(SIGMA)], range(K))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)
    assert not torch.allclose(found, mixed_prototypes(world.phi, world.affine, support, partner, range(K)))


def test_the_protonet_loss_is_the_mean_negative_log_probability() -> None:
    queries = torch.tensor([[0.0, 0.0], [1.0, 2.0]], dtype=torch.float64)
    prototypes = torch.tensor([[0.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    first = -math.log(math.exp(-1) / (math.exp(-1) + math.exp(-2)))
    second = -math.log(math.exp(-1) / (math.exp(-2) + math.exp(-1)))
    loss = protonet_loss(queries, torch.tensor([0, 1]))(prototypes)
    assert float(loss) == pytest.approx((first + second) / 2, abs=1e-14)


def test_an_order_or_a_permutation_that_cannot_be_is_refused() -> None:
    world = World(seed=0)
    support, partner = world.tasks(1.0)
    with pytest.raises(SettingsError, match="at least 1"):
        expand_mix_loss(world.phi, world.affine, world.loss, support, partner, SIGMA, order=0)
    with pytest.raises(SettingsError, match="permutation"):
        delta_terms(world.phi, world.affine, support, partner, (0, 0, 1))
    with pytest.raises(SettingsError, match="has 2"):
        delta_terms(world.phi, world.affine, support, partner[:2], SIGMA)
    expansion = expand_mix_loss(world.phi, world.affine, world.loss, support, partner, SIGMA, order=1)
    with pytest.raises(SettingsError, match="order 2"):
        expansion.approximation(2)
