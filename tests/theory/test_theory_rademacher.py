"""Proposition 2: the supremum against optimisation, the average against the bounds."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fewtask.errors import SettingsError
from fewtask.theory import (
    difference_matrix,
    exact_average,
    monte_carlo_average,
    rademacher_bound,
    sharp_bound,
    supremum,
)
from fewtask.theory.rademacher import rank


def centred(generator: torch.Generator, n: int, width: int, within: int | None = None) -> Tensor:
    """Centred rows [n, width] with a random covariance, in a subspace of `within` dimensions if given."""
    inside = width if within is None else within
    rows = torch.randn(n, inside, generator=generator, dtype=torch.float64)
    rows = rows @ torch.randn(inside, width, generator=generator, dtype=torch.float64)
    return rows - rows.mean(dim=0)


def signs_of(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randint(0, 2, shape, generator=generator) * 2 - 1


def test_sigma_is_the_mean_over_all_pairs_of_rows() -> None:
    rows = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    expected = sum(torch.outer(x - y, x - y) for x in rows for y in rows) / 25
    torch.testing.assert_close(difference_matrix(rows), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("within", [1, 2, 3])
def test_the_supremum_is_attained_and_no_other_theta_does_better(within: int) -> None:
    generator = torch.Generator().manual_seed(within)
    rows = centred(generator, 8, 3, within)
    sigma, R = difference_matrix(rows), 2.5
    signs = signs_of(generator, 8)
    mean = (signs[:, None] * rows).mean(dim=0)
    best = float(supremum(signs, rows, sigma, R))
    maximiser = torch.linalg.pinv(sigma, rtol=1e-10, hermitian=True) @ mean
    maximiser = maximiser * math.sqrt(R / float(maximiser @ sigma @ maximiser))
    assert float(maximiser @ mean) == pytest.approx(best, rel=1e-9)
    thetas = torch.randn(5000, 3, generator=generator, dtype=torch.float64)
    thetas = thetas * (R / ((thetas @ sigma) * thetas).sum(dim=1, keepdim=True)).sqrt()
    assert float((thetas @ mean).max()) <= best * (1 + 1e-9)
    assert float((thetas @ mean).max()) > 0.95 * best


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 9), st.integers(1, 6), st.floats(0.01, 10))
def test_the_average_over_all_signs_stays_below_both_bounds(seed: int, n: int, width: int, R: float) -> None:
    rows = centred(torch.Generator().manual_seed(seed), n, width)
    sigma = difference_matrix(rows)
    average = exact_average(rows, sigma, R)
    assert average <= sharp_bound(R, sigma, n) * (1 + 1e-7) < rademacher_bound(R, sigma, n)


def test_the_mean_square_of_the_supremum_is_the_sharp_bound_squared() -> None:
    generator = torch.Generator().manual_seed(3)
    rows = centred(generator, 10, 4)
    sigma = difference_matrix(rows)
    every = torch.tensor([[(code >> bit & 1) * 2 - 1 for bit in range(10)] for code in range(2**10)])
    squares = supremum(every, rows, sigma, 3.0).square()
    assert float(squares.mean()) == pytest.approx(sharp_bound(3.0, sigma, 10) ** 2, rel=1e-9)


def test_whitened_rows_of_high_rank_reach_the_sharp_bound_and_stay_a_root_of_two_below_the_printed_one() -> None:
    generator = torch.Generator().manual_seed(4)
    rows = torch.randn(400, 100, generator=generator, dtype=torch.float64)
    rows = rows - rows.mean(dim=0)
    values, vectors = torch.linalg.eigh(rows.T @ rows / 400)
    rows = rows @ vectors / values.sqrt()
    sigma = difference_matrix(rows)
    torch.testing.assert_close(sigma, 2 * torch.eye(100, dtype=torch.float64), rtol=0, atol=1e-10)
    average = monte_carlo_average(rows, sigma, 1.0, draws=2000, generator=generator)
    assert average.mean / sharp_bound(1.0, sigma, 400) == pytest.approx(1, abs=0.01)
    assert average.mean / rademacher_bound(1.0, sigma, 400) == pytest.approx(1 / math.sqrt(2), abs=0.01)


def test_the_expectation_over_samples_of_a_known_distribution_stays_below_the_bound() -> None:
    generator = torch.Generator().manual_seed(5)
    n, width = 12, 5
    factor = torch.randn(width, width, generator=generator, dtype=torch.float64)
    sigma = 2 * factor.T @ factor
    averages = []
    for _ in range(200):
        rows = torch.randn(n, width, generator=generator, dtype=torch.float64) @ factor
        averages.append(monte_carlo_average(rows, sigma, 1.0, draws=200, generator=generator).mean)
    mean = sum(averages) / len(averages)
    assert 0.9 * sharp_bound(1.0, sigma, n) < mean < sharp_bound(1.0, sigma, n)
    assert mean < rademacher_bound(1.0, sigma, n)


def test_one_unlucky_sample_may_exceed_the_bound_of_the_population() -> None:
    sigma = torch.tensor([[2.0]], dtype=torch.float64)
    rows = torch.tensor([[3.0]], dtype=torch.float64)
    assert exact_average(rows, sigma, 1.0) > rademacher_bound(1.0, sigma, 1)


def test_the_monte_carlo_average_agrees_with_the_sum_over_all_signs() -> None:
    generator = torch.Generator().manual_seed(6)
    rows = centred(generator, 10, 3)
    sigma = difference_matrix(rows)
    average = monte_carlo_average(rows, sigma, 2.0, draws=20000, generator=generator)
    assert abs(average.mean - exact_average(rows, sigma, 2.0)) < 4 * average.standard_error
    assert 0 < average.standard_error < 0.01


def test_rows_with_a_mean_outside_the_range_of_sigma_make_the_supremum_infinite() -> None:
    generator = torch.Generator().manual_seed(7)
    rows = torch.cat([centred(generator, 6, 2), torch.ones(6, 1, dtype=torch.float64)], dim=1)
    sigma = difference_matrix(rows)
    assert rank(sigma) == 2
    assert float(supremum(torch.ones(6), rows, sigma, 1.0)) == math.inf
    balanced = torch.tensor([1, -1, 1, -1, 1, -1])
    assert math.isfinite(float(supremum(balanced, rows, sigma, 1.0)))


def test_the_bound_grows_with_the_rank_and_falls_with_the_number_of_rows() -> None:
    generator = torch.Generator().manual_seed(8)
    flat = difference_matrix(centred(generator, 20, 6, within=2))
    full = difference_matrix(centred(generator, 20, 6))
    assert rademacher_bound(4.0, flat, 8) == pytest.approx(1.0)
    assert rademacher_bound(4.0, full, 8) == pytest.approx(math.sqrt(3))
    assert rademacher_bound(4.0, full, 32) == pytest.approx(math.sqrt(3) / 2)


def test_what_has_no_meaning_is_refused() -> None:
    rows = torch.zeros(20, 2, dtype=torch.float64)
    with pytest.raises(SettingsError, match="not be negative"):
        rademacher_bound(-1.0, torch.eye(2), 3)
    with pytest.raises(SettingsError, match="square"):
        rademacher_bound(1.0, torch.zeros(2, 3), 3)
    with pytest.raises(SettingsError, match="16 rows"):
        exact_average(rows, torch.eye(2, dtype=torch.float64), 1.0)
    with pytest.raises(SettingsError, match="at least 2"):
        monte_carlo_average(rows, torch.eye(2, dtype=torch.float64), 1.0, 1, torch.Generator())
