"""Proposition 1 on tasks whose α is balanced by construction."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fewtask.errors import SettingsError
from fewtask.theory import (
    Draw,
    LinearCase,
    closed_form,
    delta,
    delta_second_moment,
    difference_matrix,
    random_set_function,
    second_order_expansion,
)
from fewtask.theory.proposition1 import curvature, delta_as_printed, expected_mix_loss, imbalance
from fewtask.theory.rademacher import rank

WIDTH = 4
PERMUTATIONS = ((0, 1), (1, 0))


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def sign_symmetric(seed: int, partners: int = 3) -> tuple[LinearCase, list[Draw]]:
    """Classes of t symmetric about the origin; with every (t', σ) also (−t', σ).

    Without query and key biases in layer 1, and with a seed that asks nothing, α(−h, −h') = α(h, h'): the δ of a
    draw and of its mirror image cancel. α still differs between pairs, through layer 1.
    """
    generator = torch.Generator().manual_seed(seed)
    phi = random_set_function(WIDTH, generator, values=False)
    zero = torch.zeros(WIDTH, dtype=torch.float64)
    first = dataclasses.replace(phi.first, query_bias=zero, key_bias=zero)
    second = dataclasses.replace(phi.second, query_bias=zero)
    phi = dataclasses.replace(phi, first=first, second=second, seed=zero)
    halves = normal(generator, 2, 2, WIDTH)
    support = torch.cat([halves, -halves], dim=1)
    case = LinearCase(phi, normal(generator, WIDTH), support, normal(generator, 6, WIDTH) + 0.5)
    draws = []
    for _ in range(partners):
        partner = normal(generator, 2, 3, WIDTH) + 1
        draws += [Draw(sign * partner, sigma) for sigma in PERMUTATIONS for sign in (1, -1)]
    return case, draws


def opposite_rows(case: LinearCase, h: Tensor, direction: Tensor) -> tuple[Tensor, Tensor]:
    """Rows h' on both sides of h along the direction whose α(h, h')(h' − h) cancel.

    Solves s α(h, h ± s·direction) = share on either side by bisection, for a share that both sides reach.
    """

    def moved(s: float, side: int) -> float:
        return s * float(case.phi.alpha(h, h + side * s * direction))

    grid = [step / 20 for step in range(1, 41)]
    furthest = {side: max(grid, key=lambda s, side=side: moved(s, side)) for side in (1, -1)}
    share = 0.8 * min(moved(s, side) for side, s in furthest.items())
    rows = []
    for side, high in furthest.items():
        low = 0.0
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (low, middle) if moved(middle, side) >= share else (middle, high)
        rows.append(h + side * high * direction)
    return rows[0], rows[1]


def any_attention(seed: int, partners: int = 3) -> tuple[LinearCase, list[Draw]]:
    """One shot, all weights, biases and the seed at random; with every (t', σ) also one on the other side of t.

    α differs between the two sides, and so must their distances from t for their δ to cancel.
    """
    generator = torch.Generator().manual_seed(seed)
    phi = random_set_function(WIDTH, generator, values=False)
    support = normal(generator, 2, 1, WIDTH)
    case = LinearCase(phi, normal(generator, WIDTH), support, normal(generator, 6, WIDTH) + 0.5)
    draws = []
    for sigma in PERMUTATIONS * partners:
        directions = normal(generator, 2, WIDTH)
        sides = [opposite_rows(case, support[k, 0], directions[k]) for k in range(2)]
        for side in range(2):
            partner = torch.empty_like(support)
            for k in range(2):
                partner[sigma[k], 0] = sides[k][side]
            draws.append(Draw(partner, sigma))
    return case, draws


@pytest.mark.parametrize("build", [sign_symmetric, any_attention])
@pytest.mark.parametrize("seed", range(4))
def test_the_closed_form_with_the_sum_is_the_second_order_expansion(build, seed: int) -> None:
    case, draws = build(seed)
    assert float(imbalance(case, draws).abs().max()) < 1e-13
    alphas = torch.cat([case.phi.pairwise_alpha(case.support[0], draw.partner[0]).flatten() for draw in draws])
    assert float(alphas.std()) > 1e-2, "a constant α would prove little"
    assert float(closed_form(case, draws)) == pytest.approx(float(second_order_expansion(case, draws)), abs=1e-13)
    assert abs(float(closed_form(case, draws) - case.singleton_loss())) > 1e-5


@pytest.mark.parametrize("build", [sign_symmetric, any_attention])
def test_the_printed_average_is_off_by_a_factor_of_four(build) -> None:
    case, draws = build(1)
    printed = torch.stack([delta_as_printed(case, draw) for draw in draws])
    term = case.coefficient() * (printed @ case.theta).square().mean()
    true_term = second_order_expansion(case, draws) - case.singleton_loss()
    assert float(true_term / term) == pytest.approx(4, rel=1e-8)


def test_without_balance_the_closed_form_misses_exactly_the_first_order_term() -> None:
    case, draws = sign_symmetric(2)
    draws = draws[::2]
    psi = torch.sigmoid(case.margins())
    first_order = (psi * (1 - psi) / 2).mean() * (case.theta @ imbalance(case, draws))
    assert abs(float(first_order)) > 1e-3
    missing = second_order_expansion(case, draws) - closed_form(case, draws)
    assert float(missing) == pytest.approx(float(first_order), abs=1e-13)


def test_delta_is_the_sum_over_classes_of_the_mean_over_pairs() -> None:
    case, draws = sign_symmetric(3)
    for draw in draws[:4]:
        expected = torch.zeros(WIDTH, dtype=torch.float64)
        for k in range(2):
            pairs = [(h, other) for h in case.support[k] for other in draw.partner[draw.sigma[k]]]
            expected += sum(case.phi.alpha(h, other) * (other - h) for h, other in pairs) / len(pairs)
        torch.testing.assert_close(delta(case, draw), expected, rtol=1e-12, atol=1e-12)


def test_the_singleton_loss_and_the_mixed_loss_follow_the_printed_formula() -> None:
    case, draws = sign_symmetric(4)

    def loss(prototypes: list[Tensor]) -> float:
        middle = (prototypes[0] + prototypes[1]) / 2
        return sum(1 / (1 + math.exp(float((x - middle) @ case.theta))) for x in case.queries) / len(case.queries)

    assert float(case.singleton_loss()) == pytest.approx(loss([rows.mean(dim=0) for rows in case.support]), abs=1e-14)
    mixed = []
    for draw in draws:
        prototypes = []
        for k in range(2):
            others = draw.partner[draw.sigma[k]]
            pairs = [case.phi(torch.stack([h, other])) for h in case.support[k] for other in others]
            prototypes.append(torch.stack(pairs).mean(dim=0))
        mixed.append(loss(prototypes))
    assert float(expected_mix_loss(case, draws)) == pytest.approx(sum(mixed) / len(mixed), abs=1e-13)


def test_a_short_theta_leaves_only_higher_orders_between_the_mixed_loss_and_the_closed_form() -> None:
    case, draws = sign_symmetric(0)
    errors, terms = [], []
    for length in (0.1, 0.05):
        short = dataclasses.replace(case, theta=case.theta * length)
        errors.append(abs(float(expected_mix_loss(short, draws) - closed_form(short, draws))))
        terms.append(abs(float(closed_form(short, draws) - short.singleton_loss())))
    assert errors[0] / errors[1] > 6
    assert all(error < term for error, term in zip(errors, terms))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(1e-3, 20), min_size=1, max_size=8))
def test_c_is_positive_if_every_query_does_better_than_a_guess(margins: list[float]) -> None:
    assert float(curvature(torch.tensor(margins, dtype=torch.float64)).mean()) > 0


def test_c_can_be_negative_although_the_mean_loss_is_better_than_a_guess() -> None:
    margins = torch.tensor([4.0, -1.0], dtype=torch.float64)
    assert float(torch.sigmoid(-margins).mean()) < 0.5
    assert float(curvature(margins).mean()) < 0


def test_one_partner_task_leaves_directions_free_that_sigma_constrains() -> None:
    generator = torch.Generator().manual_seed(0)
    phi = random_set_function(WIDTH, generator, values=False)
    case = LinearCase(phi, normal(generator, WIDTH), normal(generator, 2, 5, WIDTH), normal(generator, 3, WIDTH))
    partner = normal(generator, 2, 5, WIDTH)
    draws = [Draw(partner, sigma) for sigma in PERMUTATIONS]
    M = delta_second_moment(case, draws)
    Sigma = difference_matrix(torch.cat([case.support, partner]).reshape(-1, WIDTH))
    assert rank(M) == 2
    assert rank(Sigma) == WIDTH
    free = torch.linalg.eigh(M)[1][:, 0]
    assert float(free @ M @ free) < 1e-12
    assert float(free @ Sigma @ free) > 0.1


def test_three_classes_or_a_set_function_with_other_values_are_refused() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = normal(generator, 3, 2, WIDTH)
    identity = random_set_function(WIDTH, generator, values=False)
    with pytest.raises(SettingsError, match="two classes"):
        LinearCase(identity, rows[0, 0], rows, rows[0])
    with pytest.raises(SettingsError, match="W = I"):
        LinearCase(random_set_function(WIDTH, generator), rows[0, 0], rows[:2], rows[0])
