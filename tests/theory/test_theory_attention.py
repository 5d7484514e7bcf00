"""The set function of the analysis against a transcription of its definition in plain Python loops."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fewtask.errors import SettingsError
from fewtask.theory import AttentionLayer, AttentionSetFunction, random_set_function

widths = st.integers(1, 7)
seeds = st.integers(0, 2**31)
scales = st.sampled_from([0.1, 1.0, 3.0])
quick = settings(max_examples=60, deadline=None)


def drawn(d: int, seed: int, scale: float, *shape: int) -> tuple[AttentionSetFunction, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    phi = random_set_function(d, generator, scale=scale)
    return phi, torch.randn(*shape, d, generator=generator, dtype=torch.float64)


def attend(
    layer: AttentionLayer, asking: list[Tensor], elements: list[Tensor]
) -> tuple[list[list[float]], list[Tensor]]:
    """One attention layer, element by element: its probabilities and its output rows."""
    probabilities, outputs = [], []
    for row in asking:
        question = layer.query.T @ row + layer.query_bias
        scores = [float(question @ (layer.key.T @ e + layer.key_bias)) / math.sqrt(len(row)) for e in elements]
        exponentials = [math.exp(score - max(scores)) for score in scores]
        weights = [value / sum(exponentials) for value in exponentials]
        probabilities.append(weights)
        outputs.append(sum(w * (layer.value.T @ e + layer.value_bias) for w, e in zip(weights, elements)))
    return probabilities, outputs


def by_loops(phi: AttentionSetFunction, elements: list[Tensor]) -> tuple[Tensor, list[list[float]], list[list[float]]]:
    first, hidden = attend(phi.first, elements, elements)
    second, output = attend(phi.second, [phi.seed], hidden)
    return output[0], first, second


@quick
@given(widths, seeds, scales, st.integers(1, 5))
def test_the_set_function_is_its_definition(d: int, seed: int, scale: float, n: int) -> None:
    phi, elements = drawn(d, seed, scale, n)
    torch.testing.assert_close(phi(elements), by_loops(phi, list(elements))[0], rtol=1e-11, atol=1e-11)


@quick
@given(widths, seeds, scales)
def test_a_pair_is_mixed_as_the_closed_form_says(d: int, seed: int, scale: float) -> None:
    phi, (h, other) = drawn(d, seed, scale, 2)
    output, ((p1, _), (p1_tilde, _)), ((p2, _),) = by_loops(phi, [h, other])
    alpha = p2 * (1 - p1) + (1 - p2) * (1 - p1_tilde)
    W = (phi.first.value @ phi.second.value).T
    b = phi.second.value.T @ phi.first.value_bias + phi.second.value_bias
    torch.testing.assert_close(output, W @ (h + alpha * (other - h)) + b, rtol=1e-12, atol=1e-12 * (1 + scale**2))
    torch.testing.assert_close(phi.mixture(h, other), output, rtol=1e-12, atol=1e-12 * (1 + scale**2))
    assert float(phi.alpha(h, other)) == pytest.approx(alpha, abs=1e-13)
    attention = phi.pair_attention(h, other)
    found = [float(attention.p1), float(attention.p1_tilde), float(attention.p2)]
    assert found == pytest.approx([p1, p1_tilde, p2], abs=1e-13)


@quick
@given(widths, seeds, scales)
def test_a_singleton_is_mapped_by_w_and_b_alone(d: int, seed: int, scale: float) -> None:
    phi, (h,) = drawn(d, seed, scale, 1)
    torch.testing.assert_close(phi(h[None]), phi.weight @ h + phi.bias, rtol=1e-12, atol=1e-12 * (1 + scale**2))
    torch.testing.assert_close(phi.singleton(h), phi(h[None]), rtol=1e-12, atol=1e-12 * (1 + scale**2))


@quick
@given(widths, seeds, scales)
def test_swapping_a_pair_turns_alpha_into_one_minus_alpha(d: int, seed: int, scale: float) -> None:
    phi, (h, other) = drawn(d, seed, scale, 2)
    assert float(phi.alpha(other, h)) == pytest.approx(1 - float(phi.alpha(h, other)), abs=1e-13)
    assert 0 <= float(phi.alpha(h, other)) <= 1


def test_alpha_is_a_half_for_a_pair_of_equals_and_differs_between_pairs() -> None:
    phi, rows = drawn(4, 0, 1.0, 6)
    torch.testing.assert_close(phi.alpha(rows, rows), torch.full((6,), 0.5, dtype=torch.float64))
    assert float(phi.pairwise_alpha(rows[:3], rows[3:]).std()) > 0.01


def test_alpha_of_all_pairs_is_alpha_of_each() -> None:
    phi, rows = drawn(3, 1, 1.0, 7)
    found = phi.pairwise_alpha(rows[:3], rows[3:])
    expected = torch.stack([torch.stack([phi.alpha(h, other) for other in rows[3:]]) for h in rows[:3]])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)


@quick
@given(widths, seeds, scales, st.integers(1, 5))
def test_sets_of_any_size_are_mixed_by_shares_that_sum_to_one(d: int, seed: int, scale: float, n: int) -> None:
    phi, elements = drawn(d, seed, scale, n)
    shares = phi.shares(elements)
    assert float(shares.sum()) == pytest.approx(1, abs=1e-13)
    mixed = phi.weight @ (shares @ elements) + phi.bias
    torch.testing.assert_close(phi(elements), mixed, rtol=1e-12, atol=1e-12 * (1 + scale**2))
    if n == 2:
        assert float(shares[1]) == pytest.approx(float(phi.alpha(*elements)), abs=1e-13)


def test_identity_values_give_w_of_one_and_b_of_zero() -> None:
    phi = random_set_function(5, torch.Generator().manual_seed(0), values=False)
    assert torch.equal(phi.weight, torch.eye(5, dtype=torch.float64))
    assert torch.equal(phi.bias, torch.zeros(5, dtype=torch.float64))


def test_a_width_below_one_is_refused() -> None:
    with pytest.raises(SettingsError, match="at least 1"):
        random_set_function(0, torch.Generator())
