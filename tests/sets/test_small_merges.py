"""Merges with few numbers: the mean at the start, the identity on singletons, λ moved by the indirect gradient."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fewtask.episodes import Episode
from fewtask.hypergradient import hypergradient
from fewtask.methods import Method, make_method
from fewtask.sets import SetFunction, make_set_function
from fewtask.sets.small import RandomWeight
from fewtask.settings import RunSettings, SetFunctionSettings, update

NAMES = ("gate", "random-weight", "low-rank")
quick = settings(max_examples=25, deadline=None)


def built(name: str, d: int, seed: int = 0, moved: float = 0.0) -> SetFunction:
    """A merge in float64, its numbers moved away from the start."""
    torch.manual_seed(seed)
    phi = make_set_function(SetFunctionSettings(name=name, heads=3), d).double()
    with torch.no_grad():
        for parameter in phi.parameters():
            parameter.add_(moved * torch.randn_like(parameter))
    return phi


def seeded(phi: SetFunction, sets: Tensor) -> Tensor:
    torch.manual_seed(1)
    return phi(sets)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [2, 3, 5])
def test_it_starts_at_the_mean(name: str, n: int) -> None:
    phi = built(name, 4)
    sets = torch.randn(6, n, 4, dtype=torch.float64) * 3
    torch.testing.assert_close(phi.eval()(sets), sets.mean(dim=1))
    if name != "random-weight":
        torch.testing.assert_close(phi.train()(sets), sets.mean(dim=1))
    moved = built(name, 4, moved=1.0).train()
    assert float((seeded(moved, sets) - sets.mean(dim=1)).abs().max()) > 0.01


@pytest.mark.parametrize("name", NAMES)
@quick
@given(d=st.integers(1, 6), seed=st.integers(0, 2**31), scale=st.sampled_from([0.1, 1.0, 30.0]))
def test_a_singleton_stays_what_it_is_bit_for_bit(name: str, d: int, seed: int, scale: float) -> None:
    phi = built(name, d, seed, moved=2.0)
    h = torch.randn(5, d, dtype=torch.float64) * scale
    for mode in (True, False):
        phi.train(mode)
        assert torch.equal(phi(h[:, None]), h)
        assert torch.equal(phi.singletons(h), h)
        assert torch.equal(phi.merge(h, torch.arange(5)[:, None]), h)


@pytest.mark.parametrize("name", ["gate", "low-rank"])
@quick
@given(n=st.integers(1, 5), d=st.integers(1, 6), seed=st.integers(0, 2**31))
def test_the_order_does_not_count_and_sets_by_index_are_sets(name: str, n: int, d: int, seed: int) -> None:
    phi = built(name, d, seed, moved=1.0)
    h = torch.randn(7, d, dtype=torch.float64)
    members = torch.randint(7, (4, n))
    merged = phi.merge(h, members)
    torch.testing.assert_close(phi.merge(h, members[:, torch.randperm(n)]), merged)
    torch.testing.assert_close(phi(h[members]), merged)
    single, both = phi.both(h[:3], h, members)
    torch.testing.assert_close(both, merged)
    assert torch.equal(single, h[:3])


def test_definitions_element_by_element() -> None:
    X = torch.randn(3, 4, dtype=torch.float64)
    gate = built("gate", 4, moved=1.0)
    wanted = []
    for f in range(4):
        weights = [torch.exp(gate.gate[f] * x) for x in X[:, f]]
        wanted.append(sum(w * x for w, x in zip(weights, X[:, f])) / sum(weights))
    torch.testing.assert_close(gate(X[None])[0], torch.stack(wanted))
    # Two elements take another path.
    pair = X[:2]
    weight = torch.exp(gate.gate * pair[0]) / (torch.exp(gate.gate * pair[0]) + torch.exp(gate.gate * pair[1]))
    torch.testing.assert_close(gate(pair[None])[0], weight * pair[0] + (1 - weight) * pair[1])
    low = built("low-rank", 4, moved=1.0)
    m = (X[0] + X[1] + X[2]) / 3
    out = m.clone()
    for j in range(3):
        apart = sum(((x - m) @ low.apart[:, j]) ** 2 for x in X) / 3
        out = out + torch.log(1 + apart) * low.direction[j]
    torch.testing.assert_close(low(X[None])[0], out)


def test_random_weights_prefer_no_element_and_spread_as_they_say() -> None:
    phi = built("random-weight", 1)
    assert isinstance(phi, RandomWeight)
    noise = torch.randn(20_000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights = phi.weights(noise)
    torch.testing.assert_close(weights.sum(1), torch.ones(20_000, dtype=torch.float64))
    torch.testing.assert_close(phi.weights(noise.flip(1)), weights.flip(1))
    # Beta(2, 2) has mean 1/2 and variance 1/20.
    assert float(weights[:, 0].mean()) == pytest.approx(0.5, abs=0.01)
    assert float(weights[:, 0].var()) == pytest.approx(0.05, abs=0.02)
    with torch.no_grad():
        phi.spread.fill_(-20.0)
    assert float((phi.weights(noise) - 0.5).abs().max()) < 1e-6
    # The merged row is the weighted sum, with weights from torch's generator.
    sets = torch.randn(5, 3, 1, dtype=torch.float64)
    torch.manual_seed(1)
    wanted = (phi.weights(torch.randn(5, 3).double()).unsqueeze(-1) * sets).sum(1)
    torch.testing.assert_close(seeded(phi.train(), sets), wanted)


def method_of(name: str) -> tuple[Method, list[Episode]]:
    values = {
        "episode": {"way": 2, "shot": 2, "query": 2, "batch": 2},
        "encoder": {"name": "mlp", "width": 5},
        "set_function": {"name": name, "heads": 2},
    }
    torch.manual_seed(0)
    method = make_method(update(RunSettings(), values), (4,)).double().train()
    nothing = torch.zeros(2, dtype=torch.int64)
    group = []
    for queries in (2, 0):
        rows = torch.randn(2, 2, 2 + queries, 4, dtype=torch.float64)
        group.append(Episode(rows[:, :, :2], rows[:, :, 2:], nothing, nothing[:, None].expand(-1, 2)))
    return method, group


@pytest.mark.parametrize("name", NAMES)
def test_the_network_at_test_is_a_prototypical_network(name: str) -> None:
    method, group = method_of(name)
    plain = make_method(update(method.settings, {"method": "protonet"}), (4,)).double()
    plain.encoder.load_state_dict(method.encoder.state_dict())
    rows = group[0].query.flatten(0, 2)
    assert torch.equal(method.eval().embed(rows), plain.eval().embed(rows))


@pytest.mark.parametrize("name", NAMES)
def test_lambda_moves_by_the_indirect_gradient_alone_and_it_is_that_of_central_differences(name: str) -> None:
    method, group = method_of(name)
    theta, lam = method.inner(), method.outer()
    report: dict[str, float] = {}

    def training() -> Tensor:
        torch.manual_seed(2)
        return method.training_loss(group).loss

    options = {"step": 0.01, "terms": 2, "report": report}
    found = hypergradient("neumann", training, method.validation_loss(group[0]), theta, lam, **options)
    assert report["direct"] == 0.0
    assert report["indirect"] > 0.0
    first = found[-1] if name == "low-rank" else found[0]
    assert float(first.abs().max()) > 1e-8
    differences = hypergradient("finite-difference", training, method.validation_loss(group[0]), theta, lam, **options)
    for got, wanted in zip(found, differences):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-7)
