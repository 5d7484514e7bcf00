"""The Neumann series against closed forms, unrolled training and central differences, all in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import Quadratic
from torch import Tensor

from fewtask.episodes import Episode
from fewtask.errors import SettingsError
from fewtask.hypergradient import HypergradientWarning, hypergradient
from fewtask.hypergradient.vectors import products
from fewtask.methods import Method, make_method
from fewtask.settings import RunSettings, update


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**31))
def test_the_series_converges_to_the_closed_form_implicit_gradient(seed: int) -> None:
    q = Quadratic(seed)
    wanted = q.c - q.M.T @ torch.linalg.solve(q.A, q.slope())
    report: dict[str, Any] = {}
    found = hypergradient(
        "neumann", q.train_loss, q.validation_loss, q.theta, q.lam, step=1 / q.largest, terms=1000, report=report
    )
    assert [f.shape for f in found] == [x.shape for x in q.lam]
    assert float((torch.cat(found) - wanted).norm()) < 1e-6
    assert not report["diverged"]
    assert len(report["norms"]) == 1001
    assert report["direct"] == pytest.approx(float(q.c.norm()))
    assert report["indirect"] == pytest.approx(float((wanted - q.c).norm()), rel=1e-6)


@pytest.mark.parametrize("terms", [0, 1, 4])
def test_the_number_of_terms_counts_hessian_products(terms: int) -> None:
    """q products, q + 1 summands; q = 0 leaves the first."""
    q = Quadratic(1)
    found = hypergradient("neumann", q.train_loss, q.validation_loss, q.theta, q.lam, step=0.1, terms=terms)
    torch.testing.assert_close(torch.cat(found), q.partial(0.1, terms + 1))


def test_a_series_that_diverges_stops_and_says_so() -> None:
    q = Quadratic(2)
    q.A = torch.eye(6, dtype=torch.float64)
    report: dict[str, Any] = {}
    # Terms are (1 - 2.5)^j v: 1, 1.5 and then 2.25 times as long as the first.
    with pytest.warns(HypergradientWarning, match="diverges and was cut short"):
        found = hypergradient(
            "neumann", q.train_loss, q.validation_loss, q.theta, q.lam, step=2.5, terms=9, report=report
        )
    assert report["diverged"]
    length = float(q.slope().norm())
    assert report["norms"] == pytest.approx([length, 1.5 * length, 2.25 * length])
    torch.testing.assert_close(torch.cat(found), q.partial(2.5, 2))


def test_a_series_that_stops_being_a_number_stops_as_well() -> None:
    x, lam = torch.ones(1, dtype=torch.float64, requires_grad=True), torch.ones(1, requires_grad=True)
    report: dict[str, Any] = {}
    loss = (x - 1).abs().pow(1.5).sum() + (x * lam).sum()  # the second derivative is infinite at 1
    with pytest.warns(HypergradientWarning, match="diverges"):
        found = hypergradient("neumann", loss, x.sum(), [x], [lam], step=0.1, terms=5, report=report)
    assert report["diverged"]
    assert float(found[0]) == pytest.approx(-0.1)


def test_tensors_callables_and_a_given_gradient_make_no_difference() -> None:
    q = Quadratic(3)
    slopes = torch.autograd.grad(q.train_loss(), q.theta, create_graph=True)
    ways: list[list[Tensor]] = [
        hypergradient("neumann", train, validation, q.theta, q.lam, step=0.1, terms=3, train_grad=given_slopes)
        for train in (q.train_loss, q.train_loss())
        for validation in (q.validation_loss, q.validation_loss())
        for given_slopes in (None, slopes)
    ]
    for found in ways[1:]:
        torch.testing.assert_close(found, ways[0])
    # What the caller gave is still whole: its graph serves θ's step afterwards.
    torch.autograd.grad(slopes[0].sum(), q.theta)


def test_neither_parameters_nor_their_gradients_are_touched() -> None:
    q = Quadratic(4)
    before = [x.detach().clone() for x in (*q.theta, *q.lam)]
    found = hypergradient("neumann", q.train_loss, q.validation_loss, q.theta, q.lam, step=0.1, terms=3)
    assert all(torch.equal(a, b) for a, b in zip(before, (*q.theta, *q.lam)))
    assert all(x.grad is None for x in (*q.theta, *q.lam))
    assert not any(f.requires_grad for f in found)


def test_lambda_without_a_path_gets_zeros() -> None:
    q = Quadratic(5)
    idle = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    found = hypergradient("neumann", q.train_loss, q.validation_loss, q.theta, [*q.lam, idle], step=0.1, terms=2)
    assert torch.equal(found[-1], torch.zeros(2, 3, dtype=torch.float64))
    torch.testing.assert_close(torch.cat(found[:-1]), q.partial(0.1, 3))
    # Only direct, only indirect, and neither because the training loss has no second derivative.
    theta = [torch.ones(2, requires_grad=True)]
    lam = [torch.ones(2, requires_grad=True) for _ in range(3)]
    direct, indirect, none = lam
    found = hypergradient(
        "neumann",
        (theta[0].pow(2) * indirect).sum(),
        (theta[0] + 3 * direct).sum(),
        theta,
        lam,
        step=0.5,
        terms=0,
    )
    assert [f.tolist() for f in found] == [[3.0, 3.0], [-1.0, -1.0], [0.0, 0.0]]
    flat = hypergradient("neumann", theta[0].sum(), theta[0].sum(), theta, [none], step=0.5, terms=2)
    assert flat[0].tolist() == [0.0, 0.0]
    # A validation loss that does not know θ leaves the direct part.
    only = hypergradient("neumann", (theta[0].pow(2) * direct).sum(), direct.sum(), theta, [direct], step=0.5, terms=2)
    assert only[0].tolist() == [1.0, 1.0]


def test_an_estimator_that_does_not_exist_is_refused() -> None:
    q = Quadratic(6)
    with pytest.raises(SettingsError, match="unknown hypergradient estimator 'neuman': did you mean 'neumann'"):
        hypergradient("neuman", q.train_loss, q.validation_loss, q.theta, q.lam, step=0.1, terms=1)


class Network:
    """Regression by tanh(xW + b)u with an l2 coefficient a tensor and a weight an example as λ."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        self.x, self.y, self.x_val, self.y_val = normal(12, 3), normal(12), normal(8, 3), normal(8)
        self.theta = [normal(3, 4), normal(4), normal(4)]
        self.lam = [normal(3) * 0.3 - 1.0, normal(12) * 0.3]

    def output(self, theta: list[Tensor], x: Tensor) -> Tensor:
        return torch.tanh(x @ theta[0] + theta[1]) @ theta[2]

    def train_loss(self, theta: list[Tensor], lam: list[Tensor]) -> Tensor:
        errors = (self.output(theta, self.x) - self.y).pow(2)
        return (lam[1].exp() * errors).mean() + sum(c.exp() * t.pow(2).sum() for c, t in zip(lam[0], theta))

    def validation_loss(self, theta: list[Tensor], lam: list[Tensor]) -> Tensor:
        return (self.output(theta, self.x_val) - self.y_val).pow(2).mean() + 0.1 * lam[1].pow(2).sum()

    def converge(self) -> None:
        """Minimises L_tr over θ until nothing is left of its gradient."""
        theta = [t.requires_grad_() for t in self.theta]
        optimiser = torch.optim.LBFGS(
            theta, lr=1, max_iter=500, tolerance_grad=1e-13, tolerance_change=0, line_search_fn="strong_wolfe"
        )

        def closure() -> Tensor:
            optimiser.zero_grad()
            loss = self.train_loss(theta, self.lam)
            loss.backward()
            return loss

        optimiser.step(closure)
        # Newton's method takes what LBFGS leaves.
        shapes, sizes = [t.shape for t in theta], [t.numel() for t in theta]
        point = torch.cat([t.detach().flatten() for t in theta])

        def loss_at(point: Tensor) -> Tensor:
            return self.train_loss([x.view(shape) for x, shape in zip(point.split(sizes), shapes)], self.lam)

        for _ in range(3):
            slope, curvature = torch.func.grad(loss_at)(point), torch.func.hessian(loss_at)(point)
            assert float(torch.linalg.eigvalsh(curvature).min()) > 1e-3
            point = point - torch.linalg.solve(curvature, slope)
        self.theta = [x.view(shape) for x, shape in zip(point.split(sizes), shapes)]


@pytest.mark.parametrize("terms", [0, 3, 20])
def test_at_a_converged_theta_it_is_the_gradient_through_an_unrolled_inner_loop(terms: int) -> None:
    """q + 1 steps of SGD from θ*(λ), which no longer move it, differentiated by autograd."""
    net, step = Network(), 0.05
    net.converge()
    theta, lam = ([x.clone().requires_grad_() for x in xs] for xs in (net.theta, net.lam))
    rest = torch.autograd.grad(net.train_loss(theta, lam), theta)
    assert max(float(r.abs().max()) for r in rest) < 1e-12
    found = hypergradient(
        "neumann",
        lambda: net.train_loss(theta, lam),
        lambda: net.validation_loss(theta, lam),
        theta,
        lam,
        step=step,
        terms=terms,
    )
    moving = theta
    for _ in range(terms + 1):
        slopes = torch.autograd.grad(net.train_loss(moving, lam), moving, create_graph=True)
        moving = [t - step * s for t, s in zip(moving, slopes)]
    wanted = torch.autograd.grad(net.validation_loss(moving, lam), lam)
    torch.testing.assert_close(found, list(wanted), rtol=1e-6, atol=1e-8)


def small_method(name: str, changes: dict[str, Any]) -> tuple[Method, list[Episode]]:
    values = {
        "episode": {"way": 2, "shot": 2, "query": 2, "batch": 2},
        "encoder": {"name": "mlp", "width": 5},
        "set_function": {"hidden": 12, "heads": 2, "dropout": 0.0},
        "adaptation": {"steps": 1, "lr": 0.1},
    }
    torch.manual_seed(0)
    method = make_method(update(update(RunSettings(method=name), values), changes), (4,)).double()
    with torch.no_grad():
        for parameter in method.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    group = []
    for queries in (2, 0):
        rows = torch.randn(2, 2, 2 + queries, 4, dtype=torch.float64)
        nothing = torch.zeros(2, dtype=torch.int64)
        group.append(Episode(rows[:, :, :2], rows[:, :, 2:], nothing, nothing[:, None].expand(-1, 2)))
    return method, group


def shifted(parameters: list[Any], direction: list[Tensor], size: float, compute: Callable[[], Any]) -> Any:
    """What a computation gives with parameters moved along a direction."""
    kept = [p.detach().clone() for p in parameters]
    with torch.no_grad():
        for p, d in zip(parameters, direction):
            p.add_(d, alpha=size)
    try:
        return compute()
    finally:
        with torch.no_grad():
            for p, k in zip(parameters, kept):
                p.copy_(k)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("meta-interpolation", {}),
        ("meta-interpolation", {"interpolation": {"pairs": "matched", "layer": 2}}),
        ("meta-interpolation", {"model": {"normalisation": "episode"}, "set_function": {"name": "deep-sets"}}),
        ("protonet-st", {}),
        ("metareg", {}),
        ("fomaml-meta-interpolation", {}),
    ],
)
def test_hessian_and_mixed_products_are_central_differences_of_the_gradient(name: str, changes: dict[str, Any]) -> None:
    """Of fomaml only the mixed product: its gradient is of first order, so its Hessian is no symmetric matrix."""
    method, episodes = small_method(name, changes)
    theta, lam = method.inner(), method.outer()

    def gradient(graph: bool = False) -> list[Tensor]:
        found = torch.autograd.grad(method.training_loss(episodes).loss, theta, create_graph=graph, allow_unused=True)
        return [torch.zeros_like(t) if f is None else f for t, f in zip(theta, found)]

    size = 1e-7  # small, so that no ReLU changes sides in between
    for seed in range(3):
        torch.manual_seed(seed)
        v, u = ([torch.randn_like(x) for x in xs] for xs in (theta, lam))
        graph = gradient(graph=True)
        mixed, hessian = products(graph, lam, v), products(graph, theta, v)
        # v · ∂g/∂λ · u, from both sides.
        ahead, behind = (shifted(lam, u, sign * size, gradient) for sign in (1, -1))
        wanted = sum(float((x * (a - b)).sum()) for x, a, b in zip(v, ahead, behind)) / (2 * size)
        assert abs(wanted) > 1e-6
        assert sum(float((p * x).sum()) for p, x in zip(mixed, u)) == pytest.approx(wanted, rel=1e-5, abs=1e-7)
        if name.startswith("fomaml"):
            continue
        ahead, behind = (shifted(theta, v, sign * size, gradient) for sign in (1, -1))
        for got, a, b in zip(hessian, ahead, behind):
            torch.testing.assert_close(got, (a - b) / (2 * size), rtol=1e-4, atol=1e-6)


def test_the_series_on_meta_interpolation_is_the_implicit_gradient_of_its_damped_hessian() -> None:
    """The whole matrices H and M, column by column, in the sum that Algorithm 2 defines."""
    method, episodes = small_method("meta-interpolation", {"encoder": {"width": 3}})
    theta, lam = method.inner(), method.outer()
    slopes = torch.autograd.grad(method.training_loss(episodes).loss, theta, create_graph=True)
    flat = torch.cat([s.flatten() for s in slopes])

    def gradient(output: Tensor, inputs: list[Any]) -> Tensor:
        found = torch.autograd.grad(output, inputs, retain_graph=True, allow_unused=True)
        return torch.cat([(torch.zeros_like(x) if f is None else f).flatten() for x, f in zip(inputs, found)])

    everything = torch.stack([gradient(x, [*theta, *lam]) for x in flat])
    H, M = everything[:, : len(flat)], everything[:, len(flat) :]
    torch.testing.assert_close(H, H.T, rtol=1e-8, atol=1e-9)
    validation = method.validation_loss(episodes[0])
    v, direct = gradient(validation, theta), gradient(validation, lam)
    step, power = 0.01, torch.eye(len(flat), dtype=torch.float64)
    series = torch.zeros_like(H)
    for _ in range(6):
        series, power = series + power, power @ (torch.eye(len(flat), dtype=torch.float64) - step * H)
    found = hypergradient(
        "neumann", method.training_loss(episodes).loss, validation, theta, lam, step=step, terms=5, train_grad=slopes
    )
    wanted = direct - M.T @ (step * series @ v)
    torch.testing.assert_close(torch.cat([f.flatten() for f in found]), wanted, rtol=1e-7, atol=1e-9)
