"""The cost model: what it counts is what real tensors do, and runs that do not fit are refused with one that does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from fewtask.bench.cases import state_of
from fewtask.bench.measure import arithmetic
from fewtask.bench.sizes import SIZES
from fewtask.cli import main
from fewtask.cost import Cost, CostUnknownError, check_memory, describe, estimate_cost, fit
from fewtask.cost.machine import Machine, free_memory, held_memory, measure_machine, peak_memory
from fewtask.cost.trace import Trace
from fewtask.encoders.base import Encoder
from fewtask.errors import SettingsError
from fewtask.settings import RunSettings, update
from fewtask.training.loop import training_step

MACHINE = Machine(products=1e10, convolutions=1e10, bandwidth=1e10, overhead=1e-6)
METHODS = ("protonet", "metareg", "metamix", "mlti", "protonet-st", "meta-interpolation", "fomaml")


def settings_of(name: str, method: str = "meta-interpolation", **changes: dict[str, Any]) -> RunSettings:
    return SIZES[name].small().settings(method, **changes)


def cost_of(name: str, method: str = "meta-interpolation", **changes: dict[str, Any]) -> Cost:
    return estimate_cost(settings_of(name, method, **changes), SIZES[name].small().input_shape, machine=MACHINE)


def test_a_trace_counts_by_hand() -> None:
    """x [3, 5] W [5, 7]: one product forward, two back; at most x W, its square and the slope of both live."""
    with torch.device("meta"):
        x, w = torch.empty(3, 5, requires_grad=True), torch.empty(5, 7, requires_grad=True)
    with Trace() as trace:
        y = (x @ w).relu()
        assert trace.live == 3 * 7 * 4  # relu keeps its output alone
        assert trace.peak == 2 * 3 * 7 * 4
        assert trace.products == 2 * 3 * 5 * 7
        assert trace.moved == 2 * 3 * 7 * 4
        total = y.sum()
        slopes = torch.autograd.grad(total, [x, w])
    assert trace.products == 3 * 2 * 3 * 5 * 7
    assert trace.convolutions == 0
    del y, total
    assert trace.live == (3 * 5 + 5 * 7) * 4
    del slopes
    assert trace.live == 0


def test_views_cost_nothing_and_writing_in_place_costs_traffic() -> None:
    x = torch.empty(4, 6, device="meta")
    with Trace() as trace:
        x.view(24).unsqueeze(0).t()
        assert (trace.moved, trace.live, trace.operations) == (0, 0, 0)
        x.mul_(2)
    assert trace.moved == 2 * 24 * 4
    assert trace.live == 0


@pytest.mark.parametrize("name", ["tox21", "rmnist"])
@pytest.mark.parametrize("method", ["protonet", "meta-interpolation"])
def test_arithmetic_is_that_of_a_real_step_and_memory_that_of_its_tensors(name: str, method: str) -> None:
    size = SIZES[name].small()
    state = state_of(size, size.pool(), method, hyper={"period": 10**9})
    cost = cost_of(name, method)
    assert cost.operations == arithmetic(lambda: training_step(state))
    # The same passes with real tensors.
    for parameter in state.method.outer():
        parameter.requires_grad_(False)
    with Trace() as trace:
        episodes = state.method.draw(state.sampler)
        torch.autograd.grad(state.method.training_loss(episodes).loss, state.method.inner())
    assert cost.step / trace.peak == pytest.approx(1.3, rel=0.1)
    held = sum(t.numel() * t.element_size() for t in state.method.state_dict().values())
    moments = sum(
        v.numel() * v.element_size() for s in state.optimiser.state.values() for v in s.values() if v.dim() > 0
    )
    lam = sum(p.numel() * 4 for p in state.method.outer())
    assert cost.state == 2 * held + moments + 2 * lam


@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_estimated_and_nothing_else_notices(method: str) -> None:
    random = torch.get_rng_state()
    cost = cost_of("rmnist", method)
    assert torch.equal(torch.get_rng_state(), random)
    assert cost.step > 0
    assert cost.step_seconds > 0
    assert (cost.update > 0) == (method in ("metareg", "protonet-st", "meta-interpolation"))
    assert cost.memory == cost.state + max(cost.step, cost.update, cost.saving)
    assert cost_of("rmnist", method) == cost


def test_what_saves_memory_or_time_is_seen_to() -> None:
    whole = cost_of("esc50", model={"normalisation": "episode"}, episode={"batch": 8, "shot": 5})
    options = {"model": {"normalisation": "episode"}, "episode": {"batch": 8, "shot": 5}}
    pieces = cost_of("esc50", **options, train={"pieces": 4})
    assert pieces.step < 0.4 * whole.step
    assert pieces.update < 0.4 * whole.update
    assert pieces.operations == pytest.approx(whole.operations, rel=0.01)
    # Graphs of pieces are made anew for every product.
    assert pieces.update_seconds > 1.2 * whole.update_seconds
    differences = cost_of("esc50", **options, hyper={"estimator": "finite-difference"})
    assert differences.update < 0.6 * whole.update
    assert differences.step == whole.step
    estimators = {
        name: cost_of("esc50", hyper={"estimator": name}).update_seconds for name in ("direct", "t1t2", "neumann")
    }
    assert estimators["direct"] < estimators["t1t2"] < estimators["neumann"]
    terms = [cost_of("esc50", hyper={"terms": q}).update_seconds for q in (0, 5, 10)]
    assert terms[2] - terms[1] == pytest.approx(terms[1] - terms[0])
    # Coins are thrown over several steps.
    mixed, plain = (cost_of("tox21", "mlti", mixup={"cross_task": p, "within_task": 0.0}) for p in (1.0, 0.0))
    both = cost_of("tox21", "mlti", mixup={"cross_task": 0.5, "within_task": 0.0})
    assert plain.operations < both.operations < mixed.operations


def test_a_faster_machine_needs_less_time_and_as_much_memory() -> None:
    slow = cost_of("rmnist")
    settings, shape = settings_of("rmnist"), SIZES["rmnist"].small().input_shape
    fast = estimate_cost(settings, shape, machine=Machine(2e10, 2e10, 2e10, 0.5e-6))
    assert fast.step_seconds == pytest.approx(slow.step_seconds / 2)
    assert fast.update_seconds == pytest.approx(slow.update_seconds / 2)
    assert fast.memory == slow.memory


def test_this_machine_has_rates_and_memory() -> None:
    machine = measure_machine()
    assert min(machine.products, machine.convolutions, machine.bandwidth, machine.overhead) > 0
    free = free_memory()
    assert free is None or free > 0
    before = peak_memory()
    block = torch.ones(32 << 20)
    assert held_memory() > 4 * block.numel()
    assert peak_memory() >= max(before, 4 * block.numel())


def test_a_run_that_does_not_fit_is_refused_with_a_setting_that_would(monkeypatch: pytest.MonkeyPatch) -> None:
    settings, shape = settings_of("esc50"), SIZES["esc50"].small().input_shape
    cost = estimate_cost(settings, shape, machine=MACHINE)
    monkeypatch.setattr(fit, "free_memory", lambda device: cost.memory)
    check_memory(settings, shape, cost)
    # Joint BatchNorm forbids pieces, so the next smaller is named; and it does fit.
    smaller = update(settings, {"hyper": {"estimator": "finite-difference"}})
    need = estimate_cost(smaller, shape, machine=MACHINE).memory
    assert need < cost.memory
    monkeypatch.setattr(fit, "free_memory", lambda device: need)
    with pytest.raises(SettingsError, match=r"with --hyper\.estimator finite-difference it would need"):
        check_memory(settings, shape, cost)
    by_episode = update(settings, {"model": {"normalisation": "episode"}})
    need = estimate_cost(update(by_episode, {"train": {"pieces": 2}}), shape, machine=MACHINE).memory
    monkeypatch.setattr(fit, "free_memory", lambda device: need)
    with pytest.raises(SettingsError, match=r"with --train\.pieces 2 it would need"):
        check_memory(by_episode, shape, estimate_cost(by_episode, shape, machine=MACHINE))
    monkeypatch.setattr(fit, "free_memory", lambda device: 1000)
    with pytest.raises(SettingsError, match="a smaller encoder or fewer rows an episode"):
        check_memory(settings, shape, cost)
    monkeypatch.setattr(fit, "free_memory", lambda device: None)
    check_memory(settings, shape, cost)


def test_the_sentence_adds_steps_and_updates_up() -> None:
    cost = Cost(10**9, 2 * 10**9, 3 * 10**9, 10**9, step_seconds=0.5, update_seconds=10.0, operations=1.0)
    settings = update(RunSettings(), {"train": {"steps": 1000}, "hyper": {"period": 100}})
    text = describe(cost, settings)
    assert text == (
        "about 4.0 GB of memory, 500 ms a step, 10.0 s a hyper-update: 10.0 minutes for 1,000 steps, without validation"
    )


class Curious(nn.Module):
    """Looks at the numbers."""

    def forward(self, x: Tensor) -> Tensor:
        return x * float(x.abs().max())


def test_a_network_that_looks_at_numbers_has_no_cost_from_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fewtask.methods.base.make_encoder", lambda s, shape: Encoder([Curious()], [shape, shape]))
    with pytest.raises(CostUnknownError, match="cannot be told from its shapes"):
        cost_of("tox21", "protonet")


def test_a_dry_run_prints_the_cost_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["train", "rainbow-digits", "--out", str(tmp_path / "run"), "--data-dir", str(tmp_path / "data")]
    assert main([*arguments, "--dry-run"]) == 0
    assert "of memory" in capsys.readouterr().out
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr(fit, "free_memory", lambda device: 1000)
    assert main(arguments) == 1
    assert "1 MB are free" not in capsys.readouterr().out
    assert not (tmp_path / "run").exists()
