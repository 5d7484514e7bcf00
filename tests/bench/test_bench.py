"""The benchmark's plain transcription computes what the product computes, and the command prints its tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from fewtask.bench import plain
from fewtask.bench.cases import state_of
from fewtask.bench.measure import arithmetic, interleaved
from fewtask.bench.report import page_text
from fewtask.bench.sizes import SIZES
from fewtask.cli import main
from fewtask.episodes import Episode
from fewtask.hypergradient import hypergradient
from fewtask.methods.set_based import SetMethod

EXACT = {"set_function": {"dropout": 0.0}, "model": {"normalisation": "episode"}}


def prepared(name: str) -> tuple[SetMethod, list[Episode], Episode]:
    """A small method in float64 with a training group and a validation batch."""
    size = SIZES[name].small()
    state = state_of(size, size.pool(), **EXACT)
    method = state.method.double()
    assert isinstance(method, SetMethod)
    e = method.settings.episode
    validation = state.outer_sampler.sample(e.batch, e.way, e.shot, e.query)
    return method, [double(x) for x in method.draw(state.sampler)], double(validation)


def double(episode: Episode) -> Episode:
    return Episode(episode.support.double(), episode.query.double(), episode.tasks, episode.classes)


def slopes(loss: Tensor, method: SetMethod) -> list[Tensor]:
    return list(torch.autograd.grad(loss, [*method.inner(), *method.outer()], materialize_grads=True))


@pytest.mark.parametrize("name", SIZES)
def test_loss_and_gradients_of_a_step_equal_the_plain_transcription(name: str) -> None:
    method, episodes, _ = prepared(name)
    wanted = plain.plain_training_loss(method, episodes)
    wanted_slopes = slopes(wanted, method)
    got = method.training_loss(episodes).loss
    torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-10)
    for a, b in zip(slopes(got, method), wanted_slopes):
        torch.testing.assert_close(a, b, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("name", ["tox21", "esc50", "rmnist"])
def test_the_hypergradient_equals_the_plain_transcription(name: str) -> None:
    method, episodes, validation = prepared(name)
    wanted = plain.plain_hypergradient(method, episodes, validation, alpha=1e-4, terms=3)
    theta, lam = method.inner(), method.outer()
    training = torch.autograd.grad(method.training_loss(episodes).loss, theta, create_graph=True)
    outer = method.validation_loss(validation)
    got = hypergradient("neumann", outer, outer, theta, lam, step=1e-4, terms=3, train_grad=training)
    for a, b in zip(got, wanted):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-9)


def test_a_plain_step_moves_theta_and_leaves_gradients_in_lambda() -> None:
    size = SIZES["tox21"].small()
    state = state_of(size, size.pool())
    method = state.method
    assert isinstance(method, SetMethod)
    theta = [p.detach().clone() for p in method.inner()]
    lam = [p.detach().clone() for p in method.outer()]
    plain.plain_step(method, method.draw(state.sampler), state.optimiser)
    assert any(not torch.equal(a, b) for a, b in zip(theta, method.inner()))
    assert all(torch.equal(a, b) for a, b in zip(lam, method.outer()))
    assert all(p.grad is not None for p in method.outer())


def test_arithmetic_counts_products_forward_and_backward() -> None:
    x, w = torch.randn(3, 5, requires_grad=True), torch.randn(5, 7, requires_grad=True)
    assert arithmetic(lambda: x @ w) == 2 * 3 * 5 * 7
    assert arithmetic(lambda: torch.autograd.grad((x @ w).sum(), [x, w])) == 3 * 2 * 3 * 5 * 7


def test_works_run_in_turns() -> None:
    calls: list[str] = []
    times = interleaved({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 0.0, rounds=1)
    assert calls == ["a", "b", "a", "b"]
    assert set(times) == {"a", "b"}


def test_the_command_prints_a_row_for_each_size_and_writes_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    threads = torch.get_num_threads()
    written = tmp_path / "speed.md"
    written.write_text("# Mine\n<!-- bench:begin -->\nold\n<!-- bench:end -->\nby hand\n")
    try:
        assert main(["bench", "--small", "--seconds", "0", "--sizes", "tox21", "rmnist", "--out", str(tmp_path)]) == 0
    finally:
        torch.set_num_threads(threads)
    printed = capsys.readouterr().out
    for title in ("A training step", "Arithmetic", "hyper-update", "Goals", "Tox21", "RMNIST"):
        assert title in printed
    results = json.loads((tmp_path / "speed.json").read_text())
    assert set(results["sizes"]) == {"tox21", "rmnist"}
    assert results["sizes"]["tox21"]["equality"]["gradient64"] < 1e-10
    page = written.read_text()
    assert page.startswith("# Mine\n<!-- bench:begin -->\nMade by")
    assert page.endswith("|\n<!-- bench:end -->\nby hand\n")
    assert "old" not in page
    assert "| Tox21 |" in page
    assert "](speed.png)" in page
    assert (tmp_path / "speed.png").stat().st_size > 1000


def test_a_page_without_a_place_for_the_tables_is_refused_before_measuring(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("by hand")
    assert main(["bench", "--markdown", str(page)]) == 1
    assert "mark it with the lines <!-- bench:begin -->" in capsys.readouterr().err
    assert page.read_text() == "by hand"
    made = page_text({"sizes": {}}, None)
    assert made.startswith("# Speed\n\n<!-- bench:begin -->\nMade by")
    assert page_text({"sizes": {}}, None, made) == made


def test_an_unknown_size_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--sizes", "tox12"]) == 1
    assert "tox21" in capsys.readouterr().err
