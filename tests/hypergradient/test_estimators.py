"""Every estimator against the exact implicit gradient, in float64."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from problems import Classifier, Quadratic, exact
from torch import Tensor, nn

from fewtask.errors import SettingsError
from fewtask.hypergradient import ESTIMATORS, HypergradientWarning, hypergradient

SOLVERS = ("neumann", "conjugate-gradient", "nystrom", "finite-difference")


def estimate(name: str, problem: Quadratic | Classifier, **options: Any) -> Tensor:
    found = hypergradient(
        name, problem.train_loss, problem.validation_loss, problem.theta, problem.lam, **{"step": 0.1, **options}
    )
    return torch.cat([f.flatten() for f in found])


def off(found: Tensor, wanted: Tensor) -> float:
    return float((found - wanted).norm() / wanted.norm())


def spectrum(values: list[float]) -> Quadratic:
    """A quadratic problem whose Hessian has these eigenvalues."""
    q = Quadratic(7, n=len(values))
    basis = torch.linalg.qr(q.A)[0]
    q.A = basis @ torch.diag(torch.tensor(values, dtype=torch.float64)) @ basis.T
    return q


@pytest.fixture(scope="module")
def network() -> Classifier:
    problem = Classifier()
    assert sum(t.numel() for t in problem.theta) == 147
    slopes = torch.autograd.grad(problem.train_loss(), problem.theta)
    assert max(float(s.abs().max()) for s in slopes) < 1e-12
    return problem


# Products that each takes to be exact up to `rel` on six unknowns.
@pytest.mark.parametrize(
    ("name", "terms", "rel"),
    [("neumann", 1000, 1e-9), ("conjugate-gradient", 6, 1e-9), ("nystrom", 6, 1e-9), ("finite-difference", 300, 1e-6)],
)
def test_on_a_quadratic_each_reaches_the_implicit_gradient(name: str, terms: int, rel: float) -> None:
    q = Quadratic(0)
    options = {"step": 1 / q.largest, "terms": terms}
    assert off(estimate(name, q, **options), exact(q)) < rel
    # And that of a damped Hessian, whether the damping is called that or weight decay.
    for what in ("damping", "decay"):
        step = 1 / (q.largest + 0.7)
        damped = estimate(name, q, **{**options, "step": step, what: 0.7})
        assert off(damped, exact(q, damping=0.7)) < rel
    assert off(exact(q, damping=0.7), exact(q)) > 0.01


def test_an_ill_conditioned_hessian_needs_more_than_a_series() -> None:
    """Condition 10⁶: a hundred terms see nothing of the flat directions, six steps of conjugate gradients do."""
    q = spectrum([1e-3, 1e-2, 0.1, 1.0, 10.0, 1e3])
    wanted = exact(q)
    assert off(estimate("neumann", q, step=1e-3, terms=100), wanted) > 0.5
    assert off(estimate("conjugate-gradient", q, terms=8), wanted) < 1e-5
    assert off(estimate("nystrom", q, terms=6), wanted) < 1e-6
    # Damping takes the flat directions out, and the series converges to what is left.
    damped = estimate("neumann", q, step=1e-3, terms=2000, damping=20.0)
    assert off(damped, exact(q, damping=20.0)) < 1e-9


def test_an_indefinite_hessian_is_noticed_and_damping_or_a_full_sketch_solves_it() -> None:
    q = spectrum([-1.0, -0.2, 0.5, 1.0, 2.0, 4.0])
    for name in ("neumann", "finite-difference"):
        with pytest.warns(HypergradientWarning, match="diverges"):
            estimate(name, q, step=0.25, terms=60)
    report: dict[str, Any] = {}
    with pytest.warns(HypergradientWarning, match="negative curvature"):
        found = estimate("conjugate-gradient", q, terms=6, report=report)
    assert report["diverged"]
    assert found.isfinite().all()
    assert off(estimate("nystrom", q, terms=6), exact(q)) < 1e-8
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, terms in (("conjugate-gradient", 6), ("neumann", 300), ("nystrom", 6), ("finite-difference", 300)):
            options = {"terms": terms, "damping": 1.5, "step": 1 / 5.5}
            assert off(estimate(name, q, **options), exact(q, damping=1.5)) < 1e-6


def test_negative_curvature_at_once_leaves_the_first_term_of_the_series() -> None:
    q = spectrum([-1.0] * 6)
    with pytest.warns(HypergradientWarning, match="negative curvature"):
        found = estimate("conjugate-gradient", q, terms=5)
    torch.testing.assert_close(found, q.partial(0.1, 1))


def test_a_real_network_is_solved_by_conjugate_gradients_long_before_the_series(network: Classifier) -> None:
    wanted = exact(network)
    assert off(estimate("conjugate-gradient", network, terms=300), wanted) < 1e-9
    assert off(estimate("nystrom", network, terms=147), wanted) < 1e-6
    step = estimate_step(network)
    series = off(estimate("neumann", network, step=step, terms=50), wanted)
    conjugate = off(estimate("conjugate-gradient", network, terms=20), wanted)
    assert conjugate < 0.5 * series
    # The series from first derivatives is the series.
    torch.testing.assert_close(
        estimate("finite-difference", network, step=step, terms=10),
        estimate("neumann", network, step=step, terms=10),
        rtol=1e-5,
        atol=1e-8,
    )
    low_rank = [off(estimate("nystrom", network, terms=k, damping=0.05), exact(network, 0.05)) for k in (5, 60, 147)]
    assert low_rank[0] > 2 * low_rank[1] > 4 * low_rank[2]


def estimate_step(problem: Quadratic | Classifier) -> float:
    report: dict[str, Any] = {}
    estimate("t1t2", problem, step="auto", terms=0, report=report)
    return float(report["step"])


def test_the_step_is_found_from_the_largest_curvature(network: Classifier) -> None:
    q = spectrum([0.1, 0.2, 0.3, 0.4, 0.5, 40.0])
    assert estimate_step(q) == pytest.approx(1 / 40.0, rel=1e-3)
    assert off(estimate("neumann", q, step="auto", terms=4000), exact(q)) < 1e-4
    H = torch.func.hessian(network.inner)(torch.cat([t.detach().flatten() for t in network.theta]))
    largest = float(torch.linalg.eigvalsh(H.detach()).max())
    # An estimate from below, near enough for the series to converge.
    assert 1 / largest <= estimate_step(network) < 1.5 / largest


def test_direct_leaves_the_indirect_part_out_and_t1t2_is_its_first_term() -> None:
    q = Quadratic(3)
    report: dict[str, Any] = {}
    assert torch.equal(estimate("direct", q, terms=5, report=report), q.c)
    assert report["indirect"] == 0.0
    torch.testing.assert_close(estimate("t1t2", q, terms=5), q.partial(0.1, 1))


@pytest.mark.parametrize("name", SOLVERS)
def test_a_preconditioner_changes_the_way_and_not_the_goal(name: str) -> None:
    q = Quadratic(4)
    generator = torch.Generator().manual_seed(0)
    scale = [torch.rand(t.shape, generator=generator, dtype=torch.float64) + 0.2 for t in q.theta]
    P = torch.cat(scale)
    largest = float(torch.linalg.eigvalsh(P.sqrt()[:, None] * q.A * P.sqrt()).max())
    terms = {"neumann": 1500, "finite-difference": 600}.get(name, 6)
    assert off(estimate(name, q, step=1 / largest, terms=terms, scale=scale), exact(q)) < 1e-5
    if name != "neumann":
        return
    # Few terms: the gradient through q + 1 preconditioned steps from where θ stands still.
    term, total = P * q.slope(), torch.zeros(6, dtype=torch.float64)
    for _ in range(3):
        total, term = total + term, term - 0.1 * P * (q.A @ term)
    torch.testing.assert_close(estimate(name, q, terms=2, scale=scale), q.c - q.M.T @ (0.1 * total))
    assert not torch.allclose(estimate(name, q, terms=2), estimate(name, q, terms=2, scale=scale))


@pytest.mark.parametrize("name", SOLVERS)
def test_a_warm_start_goes_on_where_the_last_solution_was(name: str) -> None:
    q = Quadratic(5)
    wanted = exact(q)
    memory: list[Tensor] = []
    options = {"step": 1 / q.largest, "terms": 3, "memory": memory, "damping": 0.0}
    cold = estimate(name, q, **options)
    assert [m.shape for m in memory] == [t.shape for t in q.theta]
    torch.testing.assert_close(cold, estimate(name, q, **{**options, "memory": None}))
    for _ in range(40):
        warm = estimate(name, q, **options)
    if name == "nystrom":
        # The sketch is the same every time, and what it does not see stays unseen.
        assert off(warm, wanted) <= off(cold, wanted) * 1.5
    else:
        assert off(warm, wanted) < 0.05 * off(cold, wanted)


def test_divergence_warns_without_a_report() -> None:
    q = Quadratic(2)
    with pytest.warns(HypergradientWarning, match="diverges and was cut short"):
        estimate("neumann", q, step=25.0, terms=9)


def test_a_lambda_without_a_direct_part_is_said_to_learn_nothing() -> None:
    theta, lam = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)

    def training() -> Tensor:
        return ((theta - lam) ** 2).sum()

    with pytest.warns(HypergradientWarning, match="direct gradient is zero"):
        hypergradient("direct", training, lambda: theta.sum(), [theta], [lam], step=0.1, terms=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hypergradient("direct", training, lambda: (theta * lam).sum(), [theta], [lam], step=0.1, terms=0)


def test_finite_differences_do_without_second_derivatives_and_leave_theta_as_it_was() -> None:
    """torch's fused attention has no second derivative; differences of its gradient are those of the plain form."""
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    weight = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    lam = torch.ones(4, dtype=torch.float64, requires_grad=True)

    def plain() -> Tensor:
        h = (x * lam) @ weight
        return (torch.softmax(h @ h.transpose(1, 2) / 2, dim=-1) @ h).pow(2).mean()

    def fused() -> Tensor:
        h = ((x * lam) @ weight).unsqueeze(1)
        return nn.functional.scaled_dot_product_attention(h, h, h).pow(2).mean()

    before = weight.detach().clone()
    outer = weight.pow(2).sum() + lam.sum()
    with pytest.raises(RuntimeError, match=r"derivative for .* is not implemented"):
        hypergradient("neumann", fused, outer, [weight], [lam], step=0.1, terms=3)
    got = hypergradient("finite-difference", fused, outer, [weight], [lam], step=0.1, terms=3)
    wanted = hypergradient("neumann", plain, outer, [weight], [lam], step=0.1, terms=3)
    torch.testing.assert_close(got, wanted, rtol=1e-6, atol=1e-8)
    assert torch.equal(weight, before)
    with pytest.raises(SettingsError, match="give it as a callable"):
        hypergradient("finite-difference", plain(), outer, [weight], [lam], step=0.1, terms=3)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_nothing_is_touched_and_nothing_unreachable_moves(name: str) -> None:
    q = Quadratic(6)
    idle = torch.randn(2, dtype=torch.float64, requires_grad=True)
    before = [x.detach().clone() for x in (*q.theta, *q.lam)]
    random = torch.get_rng_state()
    found = hypergradient(name, q.train_loss, q.validation_loss, q.theta, [*q.lam, idle], step="auto", terms=3)
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(a, b) for a, b in zip(before, (*q.theta, *q.lam)))
    assert all(x.grad is None for x in (*q.theta, *q.lam))
    assert not any(f.requires_grad for f in found)
    assert torch.equal(found[-1], torch.zeros_like(idle))
    # θ without a say in the validation loss: the direct part, and no division by its length.
    flat = hypergradient(name, q.train_loss, q.lam[0].sum(), q.theta, q.lam, step="auto", terms=3)
    assert [f.tolist() for f in flat] == [[1.0], [0.0] * 4]
