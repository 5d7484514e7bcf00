"""Hypergradient estimators side by side on a small Meta-Interpolation problem whose exact hypergradient is known.

θ has been trained for a while on fresh episodes, as in a run; there the Hessian has a few negative eigenvalues, so
damping δ is added that makes the smallest of them positive. The implicit gradient of that,

    dL_V/dλ = ∂L_V/∂λ - vᵀ (H + δ)^-1 ∂²L_tr/∂θ∂λ,

is found from H written down column by column in float64, and all estimators are given δ too. What each costs at a real
size is the cost model's estimate for a preset.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fewtask.bench.report import Table
from fewtask.bench.sizes import get_size
from fewtask.cost import estimate_cost
from fewtask.cost.machine import Machine
from fewtask.cost.trace import Trace
from fewtask.episodes import Episode
from fewtask.hypergradient import hypergradient
from fewtask.hypergradient.base import gradient
from fewtask.hypergradient.vectors import flat, products, shaped
from fewtask.methods import Method, make_method
from fewtask.settings import RunSettings, update

LEARNING_RATE = 1e-3
STEPS = 150
SMALLEST = 0.1
"""Curvature that damping leaves at least."""
WIDTH, FEATURES = 8, 10


@dataclass(frozen=True)
class Trial:
    """An estimator with its options: `step` is the learning rate where it is not given."""

    name: str
    terms: int = 5
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        said = [f"q = {self.terms}"] if self.name not in ("direct", "t1t2") else []
        said += [f"{key} {value}" for key, value in self.options.items()]
        return f"{self.name} ({', '.join(said)})" if said else self.name


TRIALS = (
    Trial("direct"),
    Trial("t1t2"),
    Trial("neumann"),
    Trial("neumann", 5, {"step": "auto"}),
    Trial("neumann", 50, {"step": "auto"}),
    Trial("conjugate-gradient", 5),
    Trial("conjugate-gradient", 20),
    Trial("conjugate-gradient", 100),
    Trial("nystrom", 20),
    Trial("nystrom", 100),
    Trial("finite-difference", 0),
    Trial("finite-difference", 5),
    Trial("finite-difference", 5, {"step": "auto"}),
)


@dataclass(frozen=True)
class Problem:
    """A method in float64 that has been trained for a while, and two batches that it has not seen."""

    method: Method
    group: list[Episode]
    validation: Episode

    def train_loss(self) -> Tensor:
        return self.method.training_loss(self.group).loss

    def validation_loss(self) -> Tensor:
        return self.method.validation_loss(self.validation)


def small_problem(seed: int = 0) -> Problem:
    """Three-way tasks of Gaussian classes, whose network has learned them for a while."""
    generator = torch.Generator().manual_seed(seed)
    settings = update(
        RunSettings(),
        {
            "episode": {"way": 3, "shot": 3, "query": 5, "batch": 4},
            "encoder": {"name": "mlp", "width": WIDTH},
            "set_function": {"hidden": 16, "dropout": 0.0},
        },
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        method = make_method(settings, (FEATURES,)).double().train()

    def episode(query: int) -> Episode:
        centres = torch.randn(4, 3, 1, FEATURES, generator=generator, dtype=torch.float64)
        rows = centres + 0.7 * torch.randn(4, 3, 3 + query, FEATURES, generator=generator, dtype=torch.float64)
        nothing = torch.zeros(4, 3, dtype=torch.int64)
        return Episode(rows[:, :, :3], rows[:, :, 3:], nothing[:, 0], nothing)

    optimiser = torch.optim.Adam(method.inner(), lr=10 * LEARNING_RATE)
    for _ in range(STEPS):
        loss = method.training_loss([episode(5), episode(0)]).loss
        for parameter, slope in zip(method.inner(), gradient(loss, method.inner())):
            parameter.grad = slope
        optimiser.step()
    for parameter in method.inner():
        parameter.grad = None
    return Problem(method, [episode(5), episode(0)], episode(5))


def exact(problem: Problem) -> tuple[Tensor, Tensor, Tensor, float]:
    """The direct and the indirect part of the hypergradient [λ], the eigenvalues of H, and the damping."""
    theta, lam = problem.method.inner(), problem.method.outer()
    slopes = gradient(problem.train_loss, theta, graph=True)
    one = torch.eye(sum(t.numel() for t in theta), dtype=torch.float64)
    lines = []
    for row in one:
        vector = shaped(row, theta)
        lines.append(torch.cat([flat(products(slopes, theta, vector)), flat(products(slopes, lam, vector))]))
    H, M = torch.stack(lines).split([len(one), len(lines[0]) - len(one)], dim=1)
    curvature = torch.linalg.eigvalsh(0.5 * (H + H.T))
    damping = SMALLEST + max(0.0, -float(curvature.min()))
    outer = flat(gradient(problem.validation_loss, [*theta, *lam]))
    v, direct = outer[: len(one)], outer[len(one) :]
    return direct, -(torch.linalg.solve(0.5 * (H + H.T) + damping * one, v) @ M), curvature, damping


def study(trials: Sequence[Trial] = TRIALS, seed: int = 0, size: str = "esc50") -> dict[str, Any]:
    """For each estimator: cosines to the exact hypergradient and to its indirect part, length of the latter, seconds
    and memory here, and, at the size of a preset, time in training steps and memory by the cost model."""
    problem = small_problem(seed)
    direct, indirect, curvature, damping = exact(problem)
    rows = []
    for trial in trials:
        values: dict[str, Any] = {"step": LEARNING_RATE, **trial.options}
        report: dict[str, Any] = {}
        arguments = (problem.train_loss, problem.validation_loss, problem.method.inner(), problem.method.outer())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            started = time.process_time()
            found = flat(
                hypergradient(trial.name, *arguments, terms=trial.terms, damping=damping, report=report, **values)
            )
            seconds = time.process_time() - started
            with Trace() as trace:
                hypergradient(trial.name, *arguments, terms=trial.terms, damping=damping, **values)
        rest = found - direct
        rows.append(
            {
                "label": trial.label,
                "cosine": _cosine(found, direct + indirect),
                "indirect": _cosine(rest, indirect),
                "length": float(rest.norm() / indirect.norm()),
                "diverged": bool(report.get("diverged", False)),
                "seconds": seconds,
                "memory": trace.peak,
                **_real_size(trial, size),
            }
        )
    return {
        "rows": rows,
        "size": size,
        "weights": len(curvature),
        "lambda": len(direct),
        "curvature": [float(curvature.min()), float(curvature.max())],
        "damping": damping,
        "share": float(indirect.norm() / direct.norm()),
    }


def _real_size(trial: Trial, name: str) -> dict[str, float]:
    size = get_size(name)
    settings = size.settings(hyper={"estimator": trial.name, "terms": trial.terms})
    # A machine like the one that the cost model was fitted on: its seconds cancel in the ratio.
    cost = estimate_cost(settings, size.input_shape, machine=Machine(9e10, 9e10, 3e10, 1.2e-6))
    return {"steps": cost.update_seconds / cost.step_seconds, "gigabytes": (cost.state + cost.update) * 1e-9}


def _cosine(one: Tensor, other: Tensor) -> float:
    length = float(one.norm() * other.norm())
    return float(one @ other) / length if length else float("nan")


def estimators_table(results: dict[str, Any]) -> Table:
    title = get_size(results["size"]).title
    head = ["estimator", "cosine", "cosine, indirect part", "its length", "ms", "KB"]
    head += [f"{title}: steps' time", f"{title}: GB"]
    lines = []
    for row in results["rows"]:
        cosine = "-" if row["indirect"] != row["indirect"] else f"{row['indirect']:.4f}"
        lines.append(
            [
                row["label"] + (", cut short" if row["diverged"] else ""),
                f"{row['cosine']:.4f}",
                cosine,
                f"{row['length']:.3g}",
                f"{1e3 * row['seconds']:.0f}",
                f"{row['memory'] / 1e3:.0f}",
                f"{row['steps']:.1f}",
                f"{row['gigabytes']:.2f}",
            ]
        )
    low, high = results["curvature"]
    return (
        f"Estimators against the exact hypergradient ({results['weights']} weights, {results['lambda']} numbers of λ, "
        f"curvature {low:.2g} to {high:.2g}, damping {results['damping']:.2g}; the indirect part is "
        f"{results['share']:.2g} times as long as the direct one)",
        head,
        lines,
    )
