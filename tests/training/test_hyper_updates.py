"""λ's updates by settings: every estimator and option, batches in pieces, and steps that do not interpolate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from fewtask.episodes import Episode
from fewtask.errors import SettingsError
from fewtask.hypergradient import ESTIMATORS
from fewtask.methods import make_method
from fewtask.methods.meta_interpolation import MetaInterpolation
from fewtask.pool import TaskPool
from fewtask.record import hyper_summary
from fewtask.sampler import EpisodeSampler
from fewtask.settings import RunSettings, update
from fewtask.training.loop import new_state, training_step
from fewtask.training.optimisers import adam_scale, make_optimiser
from fewtask.training.state import TrainingState

# On random rows θ is no minimum, and some series diverge.
pytestmark = pytest.mark.filterwarnings("ignore::fewtask.hypergradient.HypergradientWarning")

SMALL = {
    "episode": {"way": 2, "shot": 2, "query": 3, "batch": 4},
    "encoder": {"name": "mlp", "width": 6},
    "set_function": {"hidden": 8, "heads": 2, "dropout": 0.0},
    "hyper": {"period": 1, "terms": 2},
    "model": {"normalisation": "episode"},
}


def pool() -> TaskPool:
    rows = torch.randn(60, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float32)
    index = torch.arange(60).view(3, 2, 10).numpy()
    return TaskPool.fixed(rows, {f"task {t}": {str(k): index[t, k] for k in range(2)} for t in range(3)})


class DoubleSampler(EpisodeSampler):
    """Episodes in float64."""

    def sample_groups(self, *given: Any, **named: Any) -> list[Episode]:
        group = super().sample_groups(*given, **named)
        return [replace(e, support=e.support.double(), query=e.query.double()) for e in group]


def started(method: str = "meta-interpolation", **changes: dict[str, Any]) -> TrainingState:
    settings = update(update(RunSettings(method=method), SMALL), changes)
    torch.manual_seed(0)
    made = make_method(settings, (4,)).double().train()
    tasks = pool()
    state = new_state(made, tasks, tasks)
    state.sampler, state.outer_sampler = DoubleSampler(tasks, 1), DoubleSampler(tasks, 2)
    return state


def numbers(state: TrainingState) -> Tensor:
    return torch.cat([v.flatten().double() for v in state.method.state_dict().values()])


def trained(steps: int = 3, method: str = "meta-interpolation", **changes: dict[str, Any]) -> Tensor:
    state = started(method, **changes)
    for _ in range(steps):
        training_step(state)
    return numbers(state)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_estimator_moves_lambda_and_leaves_theta_the_same_way(estimator: str) -> None:
    one, other = started(hyper={"estimator": estimator}), started(hyper={"estimator": "neumann"})
    before = [p.detach().clone() for p in one.method.outer()]
    row = training_step(one)
    training_step(other)
    assert row is not None
    assert row["hyper"]["direct"] > 0
    assert any(not torch.equal(a, b) for a, b in zip(before, one.method.outer()))
    for a, b in zip(one.method.inner(), other.method.inner()):
        torch.testing.assert_close(a, b)
    # Running statistics have seen the batch once, however often it was computed.
    for a, b in zip(one.method.buffers(), other.method.buffers()):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("option", [{"step": "auto"}, {"damping": 0.5}, {"precondition": True}, {"warm_start": True}])
def test_every_option_changes_what_lambda_becomes(option: dict[str, Any]) -> None:
    # SGD: Adam's first steps would show the sign of the gradient alone.
    plain = {"name": "sgd", "lr": 0.1, "period": 1, "terms": 3}
    assert not torch.allclose(trained(hyper={**plain, **option}), trained(hyper=plain), rtol=1e-9, atol=1e-12)


def test_weight_decay_counts_as_curvature_where_it_is_asked_to() -> None:
    plain = {"name": "sgd", "lr": 0.1}
    decay = {"weight_decay": 0.3}
    with_decay = trained(hyper={**plain, "decay": True}, optimizer=decay)
    assert not torch.allclose(with_decay, trained(hyper=plain, optimizer=decay), rtol=1e-9, atol=1e-12)
    # As much damping is the same.
    torch.testing.assert_close(with_decay, trained(hyper={**plain, "damping": 0.3}, optimizer=decay))
    torch.testing.assert_close(trained(hyper={**plain, "decay": True}), trained(hyper=plain))


def test_adams_scale_is_what_it_multiplies_slopes_with() -> None:
    weight = torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))
    optimiser = make_optimiser("adam", [weight], 0.01)
    assert adam_scale(optimiser) is None
    slopes = [torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64), torch.tensor([3.0, 0.1, 0.5], dtype=torch.float64)]
    for slope in slopes:
        weight.grad = slope.clone()
        optimiser.step()
    second = (0.001 * slopes[1] ** 2 + 0.999 * 0.001 * slopes[0] ** 2) / (1 - 0.999**2)
    scale = adam_scale(optimiser)
    assert scale is not None
    torch.testing.assert_close(scale[0], 1 / (second.sqrt() + 1e-8))
    assert adam_scale(make_optimiser("sgd", [weight], 0.01)) is None


def test_a_warm_start_is_saved_with_the_run(tmp_path: Path) -> None:
    options = {"hyper": {"warm_start": True, "name": "sgd", "lr": 0.1}}
    whole, first = started(**options), started(**options)
    for state in (whole, first):
        training_step(state)
    assert len(first.solution) == len(first.method.inner())
    first.save(tmp_path / "checkpoint.safetensors")
    again = started(**options)
    again.load(tmp_path / "checkpoint.safetensors")
    for state in (whole, again):
        training_step(state)
    assert torch.equal(numbers(whole), numbers(again))


@pytest.mark.parametrize("estimator", ["neumann", "finite-difference", "conjugate-gradient"])
@pytest.mark.parametrize("pieces", [2, 3, 9])
def test_pieces_compute_what_the_whole_batch_does(estimator: str, pieces: int) -> None:
    """Weights, λ and running statistics, over steps with hyper-updates; three parts of four episodes are unequal."""
    hyper = {"estimator": estimator, "name": "sgd", "lr": 0.1}
    whole, parts = trained(hyper=hyper), trained(hyper=hyper, train={"pieces": pieces})
    torch.testing.assert_close(parts, whole, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("method", ["protonet", "metareg", "fomaml"])
def test_pieces_serve_other_methods(method: str) -> None:
    torch.testing.assert_close(trained(method=method, train={"pieces": 2}), trained(method=method))


def test_pieces_are_refused_where_the_batch_is_normalised_as_a_whole() -> None:
    def check(method: str = "protonet", **changes: dict[str, Any]) -> None:
        started(method, **{"train": {"pieces": 2}, **changes}).method.check(pool(), pool())

    check()
    check("protonet", encoder={"name": "text-head"}, model={"normalisation": "joint"})
    check("fomaml", model={"normalisation": "joint"})
    with pytest.raises(SettingsError, match=r"set model\.normalisation to episode"):
        check(model={"normalisation": "joint"})
    with pytest.raises(SettingsError, match=r"train\.pieces"):
        check(train={"pieces": 0})


def test_only_a_share_of_the_steps_interpolates(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    plain, interpolated = MetaInterpolation.episode_loss, MetaInterpolation.interpolate

    def episode_loss(self: Any, *given: Any, **named: Any) -> Any:
        calls.append("plain")
        return plain(self, *given, **named)

    def interpolate(self: Any, *given: Any) -> Any:
        calls.append("interpolated")
        return interpolated(self, *given)

    monkeypatch.setattr(MetaInterpolation, "episode_loss", episode_loss)
    monkeypatch.setattr(MetaInterpolation, "interpolate", interpolate)
    trained(60, hyper={"period": 10**6}, interpolation={"share": 0.25})
    # Four standard deviations of 60 coins.
    assert calls.count("interpolated") == pytest.approx(15, abs=13)
    assert len(calls) == 60
    calls.clear()
    # A step that updates λ always does; its validation loss is a plain one.
    trained(3, hyper={"period": 1, "estimator": "direct"}, interpolation={"share": 0.0})
    assert [c for c in calls if c == "interpolated"] == ["interpolated"] * 3
    with pytest.raises(SettingsError, match=r"interpolation\.share"):
        started(interpolation={"share": 1.5}).method.check(pool(), pool())


@pytest.mark.parametrize(("name", "share"), [("gate", 1.0), ("random-weight", 0.5413)])
def test_the_way_of_lambda_is_a_share_of_its_start_or_a_distance_from_zero(name: str, share: float) -> None:
    settings = update(update(RunSettings(method="meta-interpolation"), SMALL), {"set_function": {"name": name}})
    torch.manual_seed(settings.seed)
    made = make_method(settings, (4,))
    (first, *_) = made.outer()
    with torch.no_grad():
        first.view(-1)[0] += 0.25
    summary = hyper_summary(made, [], (4,))
    assert summary is not None
    assert summary["moved"] == pytest.approx(0.25 / share, abs=1e-3)
