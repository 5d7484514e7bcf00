"""The study of estimators: its exact hypergradient is one, and each row says how near it comes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from fewtask.bench.estimators import Trial, exact, small_problem, study
from fewtask.cli import main
from fewtask.hypergradient.vectors import flat, shaped


def test_the_exact_hypergradient_is_how_the_damped_minimiser_moves_with_lambda() -> None:
    """Along a random direction u of λ the damped minimiser moves by -(H + δ)^-1 M u: here by conjugate gradients on
    central differences of the gradient, none of which the study uses."""
    problem = small_problem()
    direct, indirect, curvature, damping = exact(problem)
    assert float(curvature.min()) + damping == pytest.approx(0.1)
    theta, lam = problem.method.inner(), problem.method.outer()
    generator = torch.Generator().manual_seed(1)
    u = torch.randn(len(direct), generator=generator, dtype=torch.float64)

    def slope() -> torch.Tensor:
        return flat(torch.autograd.grad(problem.train_loss(), theta)).detach()

    def moved(parameters: list[torch.nn.Parameter], along: torch.Tensor) -> torch.Tensor:
        """The change of ∂L_tr/∂θ along a direction, so near that no ReLU changes sides."""
        found, size = [], 1e-7 / float(along.norm())
        for sign in (1, -1):
            with torch.no_grad():
                for p, d in zip(parameters, shaped(along, parameters)):
                    p.add_(d, alpha=sign * size)
            found.append(slope())
            with torch.no_grad():
                for p, d in zip(parameters, shaped(along, parameters)):
                    p.add_(d, alpha=-sign * size)
        return (found[0] - found[1]) / (2 * size)

    right = -moved(lam, u)
    x, rest = torch.zeros_like(right), right.clone()
    d, old = rest.clone(), rest @ rest
    for _ in range(150):
        product = moved(theta, d) + damping * d
        alpha = old / (d @ product)
        x, rest = x + alpha * d, rest - alpha * product
        new = rest @ rest
        if new < 1e-16 * (right @ right):
            break
        d, old = rest + new / old * d, new
    v = flat(torch.autograd.grad(problem.validation_loss(), theta))
    assert float(v @ x) == pytest.approx(float(indirect @ u), rel=1e-2)


def test_rows_say_how_near_each_estimator_comes() -> None:
    found = study((Trial("direct"), Trial("neumann"), Trial("conjugate-gradient", 60), Trial("finite-difference")))
    rows = {row["label"]: row for row in found["rows"]}
    assert rows["conjugate-gradient (q = 60)"]["cosine"] == pytest.approx(1.0, abs=1e-6)
    assert rows["conjugate-gradient (q = 60)"]["length"] == pytest.approx(1.0, rel=1e-3)
    assert rows["direct"]["length"] == 0
    series, differences = rows["neumann (q = 5)"], rows["finite-difference (q = 5)"]
    assert differences["cosine"] == pytest.approx(series["cosine"], abs=1e-3)
    assert differences["gigabytes"] < series["gigabytes"]
    assert differences["memory"] < series["memory"]


def test_the_command_prints_and_writes_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    threads = torch.get_num_threads()
    try:
        assert main(["bench", "--estimators", "--small", "--out", str(tmp_path)]) == 0
    finally:
        torch.set_num_threads(threads)
    assert "Estimators against the exact hypergradient" in capsys.readouterr().out
    assert len(json.loads((tmp_path / "estimators.json").read_text())["rows"]) > 1
