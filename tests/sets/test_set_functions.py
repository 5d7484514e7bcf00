"""Set functions against a line-by-line transcription of the paper's appendix, one set and one head at a time."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from fewtask.errors import SettingsError
from fewtask.sets import DeepSets, Mean, SetFunction, SetTransformer, make_set_function
from fewtask.sets.set_transformer import AttentionBlock
from fewtask.settings import SetFunctionSettings

quick = settings(max_examples=40, deadline=None)
seeds = st.integers(0, 2**31)
NAMES = ("set-transformer", "deep-sets", "mean")


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """LayerNorm of each row."""
    rows = []
    for row in x:
        centred = row - row.sum() / len(row)
        rows.append(centred / torch.sqrt((centred * centred).sum() / len(row) + 1e-5) * weight + bias)
    return torch.stack(rows)


def softmax_rows(x: Tensor) -> Tensor:
    rows = [torch.exp(row - row.max().detach()) for row in x]
    return torch.stack([row / row.sum() for row in rows])


def head_weights(linear: nn.Linear, j: int, heads: int) -> tuple[Tensor, Tensor]:
    """W_j [in, d_k] and b_j [d_k] of one head, from the stacked weights of all."""
    d_k = linear.out_features // heads
    return linear.weight[j * d_k : (j + 1) * d_k].T, linear.bias[j * d_k : (j + 1) * d_k]


def attention(block: AttentionBlock, asking: Tensor, X: Tensor) -> Tensor:
    """O(X): Q from `asking`, K and V from X, LayerNorm for each head, heads side by side."""
    outputs = []
    for j in range(block.heads):
        W_Q, b_Q = head_weights(block.query, j, block.heads)
        W_K, b_K = head_weights(block.key, j, block.heads)
        W_V, b_V = head_weights(block.value, j, block.heads)
        Q, K, V = asking @ W_Q + b_Q, X @ W_K + b_K, X @ W_V + b_V
        d_k = W_Q.shape[1]
        A = layer_norm(Q + softmax_rows(Q @ K.T / math.sqrt(d_k)) @ V, block.head_weight[j], block.head_bias[j])
        outputs.append(A)
    return torch.cat(outputs, dim=1)


def skip(block: AttentionBlock, O: Tensor) -> Tensor:  # noqa: E741
    """LayerNorm(O + ReLU(O W + b))."""
    pre = O @ block.feed.weight.T + block.feed.bias
    return layer_norm(O + torch.where(pre > 0, pre, torch.zeros_like(pre)), block.norm.weight, block.norm.bias)


def transcription(phi: SetTransformer, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """g4 ∘ g3 ∘ g2 ∘ g1 of one set X [n, d], without dropout; also H2 and H3, which dropout is applied to."""
    g1 = skip(phi.block1, attention(phi.block1, X, X))
    H2 = skip(phi.block2, attention(phi.block2, g1, g1))
    H3 = skip(phi.pool, attention(phi.pool, phi.seed, H2))
    return (H3 @ phi.output.weight.T + phi.output.bias).squeeze(0), H2, H3


def transformer(d: int = 5, hidden: int = 24, heads: int = 4, dropout: float = 0.0, seed: int = 0) -> SetTransformer:
    """With every parameter random, also those that start at zero or one."""
    torch.manual_seed(seed)
    phi = SetTransformer(d, hidden, heads, dropout).double()
    with torch.no_grad():
        for parameter in phi.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.7)
    return phi


def assert_same(phi: SetTransformer, fast: Tensor, plain: Tensor, h: Tensor) -> None:
    """Values, and gradients with respect to the input and every parameter, of a random projection."""
    torch.testing.assert_close(fast, plain, rtol=1e-10, atol=1e-10)
    cotangent = torch.randn_like(fast)
    wanted_of = [h, *phi.parameters()]
    got = torch.autograd.grad(fast, wanted_of, cotangent, allow_unused=True)
    wanted = torch.autograd.grad(plain, wanted_of, cotangent, allow_unused=True)
    for a, b, x in zip(got, wanted, wanted_of):
        # Where the algebra cancels a parameter, the plain form leaves rounding.
        zero = torch.zeros_like(x)
        torch.testing.assert_close(zero if a is None else a, zero if b is None else b, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(("d", "hidden", "heads"), [(5, 24, 4), (3, 12, 3), (4, 6, 1)])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_the_set_transformer_is_the_appendix(n: int, d: int, hidden: int, heads: int) -> None:
    phi = transformer(d, hidden, heads)
    sets = torch.randn(3, n, d, dtype=torch.float64, requires_grad=True)
    plain = torch.stack([transcription(phi, X)[0] for X in sets])
    assert_same(phi, phi(sets), plain, sets)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_sets_merged_by_index_are_the_appendix(n: int) -> None:
    phi = transformer()
    h = torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    members = torch.stack([torch.randperm(7)[:n] for _ in range(6)])
    plain = torch.stack([transcription(phi, torch.stack([h[i] for i in line]))[0] for line in members])
    assert_same(phi, phi.merge(h, members), plain, h)


def test_singletons_are_the_appendix() -> None:
    phi = transformer()
    h = torch.randn(6, 5, dtype=torch.float64, requires_grad=True)
    plain = torch.stack([transcription(phi, row[None])[0] for row in h])
    assert_same(phi, phi.singletons(h), plain, h)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_singletons_and_sets_in_one_pass_are_the_appendix(n: int) -> None:
    phi = transformer()
    h = torch.randn(9, 5, dtype=torch.float64, requires_grad=True)
    alone, rows = h[:4], h[4:]
    members = torch.stack([torch.randperm(5)[:n] for _ in range(6)])
    single, merged = phi.both(alone, rows, members)
    plain = [transcription(phi, row[None])[0] for row in alone]
    plain += [transcription(phi, torch.stack([rows[i] for i in line]))[0] for line in members]
    assert (len(single), len(merged)) == (4, 6)
    assert_same(phi, torch.cat([single, merged]), torch.stack(plain), h)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_shared_rows_and_means_are_those_of_the_appendix(n: int) -> None:
    phi = transformer()
    h = torch.randn(9, 5, dtype=torch.float64, requires_grad=True)
    rows, alone = h[:6], torch.cat([h[:2], h[6:]])
    members = torch.stack([torch.randperm(6)[:n] for _ in range(4)])

    def averages(single: torch.Tensor, merged: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.cat([single[:2].mean(0, keepdim=True), single[2:]]), merged.view(2, 2, -1).mean(1)

    single, merged = phi.both(alone, rows, members, averages, shared=2)
    one = torch.stack([transcription(phi, row[None])[0] for row in alone])
    two = torch.stack([transcription(phi, torch.stack([rows[i] for i in line]))[0] for line in members])
    assert_same(phi, torch.cat([single, merged]), torch.cat(averages(one, two)), h)


def test_second_derivatives_of_the_short_forms_are_those_of_the_plain_one() -> None:
    phi = transformer()
    h = torch.randn(4, 5, dtype=torch.float64, requires_grad=True)
    members = torch.tensor([[0, 1], [2, 3], [0, 3]])
    cotangent, direction = torch.randn(3, 5, dtype=torch.float64), torch.randn(4, 5, dtype=torch.float64)
    products = []
    for out in (phi.merge(h, members), phi(h[members])):
        (slope,) = torch.autograd.grad((out.tanh() * cotangent).sum(), h, create_graph=True)
        products.append(torch.autograd.grad(slope, [h, phi.block2.value.weight, phi.seed], direction))
    torch.testing.assert_close(products[0], products[1], rtol=1e-8, atol=1e-9)


class Recorder(nn.Module):
    """Stands in for dropout, keeps what comes in and doubles it, so that a wrong place shows in the value."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(x)
        return 2 * x


@pytest.mark.parametrize("way", ["forward", "merge", "singletons"])
def test_dropout_stands_after_the_second_block_and_after_the_pooling_only(way: str) -> None:
    phi = transformer()
    phi.dropout = recorder = Recorder()
    n = 1 if way == "singletons" else 2
    h = torch.randn(3 * n, 5, dtype=torch.float64)
    sets = h.view(3, n, 5)
    {
        "forward": lambda: phi(sets),
        "merge": lambda: phi.merge(h, torch.arange(3 * n).view(3, n)),
        "singletons": lambda: phi.singletons(h),
    }[way]()
    after_block_2, after_pooling = recorder.seen
    H2 = [transcription(phi, X)[1] for X in sets]
    # forward has [S, n, d_h], merge [n, S, d_h], singletons [S, d_h].
    wanted = torch.stack(H2, dim=1) if way == "merge" else torch.stack(H2)
    torch.testing.assert_close(after_block_2.reshape(wanted.shape), wanted)
    doubled = [skip(phi.pool, attention(phi.pool, phi.seed, 2 * x)) for x in H2]
    torch.testing.assert_close(after_pooling.reshape(3, -1), torch.cat(doubled))
    assert [m for m in phi.modules() if isinstance(m, nn.Dropout)] == []


def test_dropout_stands_in_the_same_places_where_singletons_and_pairs_share_a_pass() -> None:
    phi = transformer()
    phi.dropout = recorder = Recorder()
    h = torch.randn(8, 5, dtype=torch.float64)
    phi.both(h[:2], h[2:], torch.arange(6).view(3, 2))
    after_block_2, after_pooling = recorder.seen
    single, pairs = ([transcription(phi, X)[1] for X in sets] for sets in (h[:2, None], h[2:].view(3, 2, 5)))
    # Singletons, then the first elements of the pairs, then the second ones.
    wanted = torch.cat([*single, *(x[:1] for x in pairs), *(x[1:] for x in pairs)])
    torch.testing.assert_close(after_block_2, wanted)
    doubled = [skip(phi.pool, attention(phi.pool, phi.seed, 2 * x)) for x in (*single, *pairs)]
    torch.testing.assert_close(after_pooling, torch.cat(doubled))


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_dropout_keeps_the_share_that_it_says_and_the_mean(rate: float) -> None:
    torch.manual_seed(0)
    dropout = SetTransformer(3, 8, dropout=rate).dropout
    x = torch.full((201, 199), 3.0, dtype=torch.float64, requires_grad=True)
    out = dropout(x)
    kept = out != 0
    # Five standard deviations of a share of 39,999 independent draws.
    assert float(kept.double().mean()) == pytest.approx(1 - rate, abs=5 * (rate * (1 - rate) / x.numel()) ** 0.5)
    torch.testing.assert_close(out[kept], torch.full_like(out[kept], 3 / (1 - rate)), rtol=1e-4, atol=0)
    # Neighbours do not know of each other, in rows and in columns.
    for one, two in ((kept[:, 1:], kept[:, :-1]), (kept[1:], kept[:-1])):
        assert float((one & two).double().mean()) == pytest.approx((1 - rate) ** 2, abs=0.02)
    (slope,) = torch.autograd.grad(out.sum(), x)
    torch.testing.assert_close(slope, out.detach() / 3)
    torch.manual_seed(0)
    SetTransformer(3, 8, dropout=rate)
    assert torch.equal(dropout(x), out)
    assert torch.equal(dropout.eval()(x), x)


def test_dropout_is_at_work_in_training_only() -> None:
    phi = transformer(hidden=64, dropout=0.5)
    sets = torch.randn(4, 2, 5, dtype=torch.float64)
    assert not torch.allclose(phi.train()(sets), phi(sets))
    torch.testing.assert_close(phi.eval()(sets), phi.merge(sets.flatten(0, 1), torch.arange(8).view(4, 2)))


def built(name: str, d: int, seed: int) -> SetFunction:
    torch.manual_seed(seed)
    return make_set_function(SetFunctionSettings(name=name, hidden=24, dropout=0.0), d).double()


@pytest.mark.parametrize("name", NAMES)
@quick
@given(n=st.integers(1, 5), d=st.integers(1, 6), seed=seeds, scale=st.sampled_from([0.1, 1.0, 10.0]))
def test_a_set_has_no_order(name: str, n: int, d: int, seed: int, scale: float) -> None:
    phi = built(name, d, seed)
    sets = torch.randn(3, n, d, dtype=torch.float64) * scale
    order = torch.randperm(n)
    torch.testing.assert_close(phi(sets[:, order]), phi(sets), rtol=1e-9, atol=1e-9)
    rows, members = sets.flatten(0, 1), torch.arange(3 * n).view(3, n)
    torch.testing.assert_close(phi.merge(rows, members[:, order]), phi.merge(rows, members), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
@quick
@given(n=st.integers(1, 5), d=st.integers(1, 6), count=st.integers(1, 6), seed=seeds)
def test_short_forms_compute_what_forward_defines(name: str, n: int, d: int, count: int, seed: int) -> None:
    phi = built(name, d, seed)
    h = torch.randn(7, d, dtype=torch.float64)
    members = torch.randint(7, (count, n))  # the same row may come twice
    assert phi(h[members]).shape == (count, d)
    torch.testing.assert_close(phi.merge(h, members), phi(h[members]), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(phi.singletons(h), phi(h[:, None]), rtol=1e-9, atol=1e-9)
    single, merged = phi.both(h[:3], h, members)
    torch.testing.assert_close(single, phi(h[:3, None]), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(merged, phi(h[members]), rtol=1e-9, atol=1e-9)


def test_deep_sets_and_mean_are_their_definitions() -> None:
    phi = built("deep-sets", 4, 0)
    assert isinstance(phi, DeepSets)
    sets = torch.randn(3, 3, 4, dtype=torch.float64)
    for X, out in zip(sets, phi(sets)):
        total = torch.zeros(24, dtype=torch.float64)
        for x in X:
            hidden = phi.element[0].weight @ x + phi.element[0].bias
            total = total + phi.element[2].weight @ hidden.clamp_min(0) + phi.element[2].bias
        pooled = (phi.pooled[0].weight @ (total / 3) + phi.pooled[0].bias).clamp_min(0)
        torch.testing.assert_close(out, phi.pooled[3].weight @ pooled + phi.pooled[3].bias)
    torch.testing.assert_close(Mean(4)(sets), (sets[:, 0] + sets[:, 1] + sets[:, 2]) / 3)
    assert list(Mean(4).parameters()) == []


def test_settings_that_make_no_set_function_are_refused() -> None:
    with pytest.raises(SettingsError, match="unknown set function 'set-transfomer': did you mean 'set-transformer'"):
        make_set_function(SetFunctionSettings(name="set-transfomer"), 4)
    with pytest.raises(SettingsError, match="hidden width 10 must be a multiple of its 4 heads"):
        make_set_function(SetFunctionSettings(hidden=10), 4)
