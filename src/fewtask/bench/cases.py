"""What is measured: steps, hyper-updates, evaluation, growth, equality and memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn

from fewtask.bench import plain
from fewtask.bench.measure import Work, arithmetic, interleaved, matrix_product, processor_seconds, profile
from fewtask.bench.sizes import Size
from fewtask.encoders.image_block import ImageBlock
from fewtask.errors import RunError
from fewtask.evaluation import evaluate
from fewtask.methods import Method, make_method
from fewtask.methods.set_based import SetMethod
from fewtask.pool import TaskPool
from fewtask.products import torchs_own
from fewtask.protocol import EpisodeList, draw_episodes
from fewtask.training.loop import new_state, training_step
from fewtask.training.state import TrainingState

Changes = Mapping[str, Any]


def state_of(size: Size, pool: TaskPool, method: str = "meta-interpolation", **changes: Changes) -> TrainingState:
    """A run before its first step, with the preset's dropout unless `changes` say otherwise."""
    torch.manual_seed(0)
    made = make_method(size.settings(method, **changes), size.input_shape)
    made.train()
    return new_state(made, pool, pool)


def no_hyper() -> Changes:
    """A period so long that no step of a measurement is a hyper-update."""
    return {"period": 10**9}


def step_times(size: Size, seconds: float, least: int = 1, profiled: bool = True) -> dict[str, Any]:
    """Steps of (a) the plain transcription, (b) all pairs, (c) matched pairs, (d) ProtoNet, and their sampling."""
    pool = size.pool()
    a, b = state_of(size, pool), state_of(size, pool, hyper=no_hyper())
    c = state_of(size, pool, hyper=no_hyper(), interpolation={"pairs": "matched"})
    d = state_of(size, pool, "protonet")
    product, operations = matrix_product()

    @torchs_own()
    def plainly() -> None:
        plain.plain_step(cast(SetMethod, a.method), a.method.draw(a.sampler), a.optimiser)

    works = {
        "plain": plainly,
        "all": lambda: training_step(b),
        "matched": lambda: training_step(c),
        "protonet": lambda: training_step(d),
        "sampling": lambda: d.method.draw(d.sampler),
        "matrix product": product,
    }
    if any(isinstance(layer, ImageBlock) for layer in d.method.encoder.layers):
        works["convolutions"] = convolutions(d.method)
    # Counting is the warm-up.
    counted = {name: arithmetic(works[name]) for name in ("plain", "all", "matched", "protonet")}
    times = interleaved(works, seconds, warm=False, least=least)
    rate = operations / times["matrix product"]
    share = {name: counted[name] / times[name] / rate for name in counted}
    parts = {name: profile(works[name]) for name in (("all", "matched") if profiled else ())}
    return {"times": times, "operations": counted, "rate": rate, "share": share, "profile": parts}


def convolutions(method: Method) -> Work:
    """The convolutions of a ProtoNet step alone, forward and backward: what such a step cannot do without."""
    e = method.settings.episode
    passes: list[tuple[nn.Module, Tensor, list[Tensor]]] = []
    for shape, layer in zip(method.encoder.shapes, method.encoder.layers):
        assert isinstance(layer, ImageBlock)
        rows = torch.randn(e.batch * e.way * (e.shot + e.query), *shape).contiguous(memory_format=torch.channels_last)
        # Pictures need no gradient.
        rows.requires_grad_(bool(passes))
        passes.append((layer[0], rows, [*layer[0].parameters(), *([rows] if passes else [])]))

    def work() -> None:
        for convolution, rows, inputs in passes:
            made = convolution(rows)
            torch.autograd.grad(made, inputs, made.detach())

    return work


def hyper_times(size: Size, seconds: float) -> dict[str, Any]:
    """Hyper-updates; the product's makes a θ-step as well.

    α is tiny, because the product stops a series that diverges, and here both have to make all q products.
    """
    pool = size.pool()
    settings = size.settings(optimizer={"lr": 1e-9})
    a, b = state_of(size, pool), state_of(size, pool, hyper={"period": 1}, optimizer={"lr": 1e-9})
    e, terms, rate = settings.episode, settings.hyper.terms, settings.optimizer.lr

    @torchs_own()
    def plainly(q: int = terms) -> None:
        method = cast(SetMethod, a.method)
        validation = a.outer_sampler.sample(e.batch, e.way, e.shot, e.query)
        assert a.hyper_optimiser is not None
        plain.plain_hyper_step(method, method.draw(a.sampler), validation, a.hyper_optimiser, rate, q)

    # Without products, enough to have the memory at hand.
    plainly(0)
    times = interleaved({"plain": plainly, "product": lambda: training_step(b)}, seconds, warm=False)
    return {"times": times, "terms": float(terms)}


def evaluation_times(size: Size, episodes: int = 3000, alone: int = 5) -> dict[str, Any]:
    """The fixed list of test episodes at once, and one at a time (so many of them, extrapolated)."""
    pool = size.pool("test")
    settings = size.settings()
    e, v = settings.episode, settings.evaluation
    method = state_of(size, pool).method.eval()
    listed = draw_episodes(pool, episodes, e.way, e.shot, v.query, v.seed)

    def one_at_a_time() -> None:
        for i in range(alone):
            evaluate(method, pool, EpisodeList(listed.tasks[i : i + 1], listed.rows[i : i + 1], e.shot))

    one_at_a_time()
    single = processor_seconds(one_at_a_time) * episodes / alone
    return {"times": {"together": processor_seconds(lambda: evaluate(method, pool, listed)), "one by one": single}}


def equality(size: Size, whole: bool = False) -> dict[str, Any]:
    """Differences between transcription and product, without dropout, each episode normalised by itself.

    whole: on an episode of the preset's size; otherwise on a small one.
    loss: of the loss, relative to it. gradient: largest difference of θ's gradient, relative to its largest number.
    rounding: the same between the transcription in float32 and in float64, which says what float32 can give at all:
    where rounding carries a number over the kink of a ReLU, gradients jump.
    """
    exact = size.changed(set_function={"dropout": 0.0}, model={"normalisation": "episode"}, episode={"batch": 1})
    if not whole:
        exact = exact.changed(episode={"shot": min(size.settings().episode.shot, 3), "query": 2})
    state = state_of(exact, size.pool(), hyper=no_hyper())
    method = cast(SetMethod, state.method)
    drawn = method.draw(state.sampler)
    losses, slopes = {}, {}
    for bits, dtype in (("32", torch.float32), ("64", torch.float64)):
        method.to(dtype)
        episodes = [replace(e, support=e.support.to(dtype), query=e.query.to(dtype)) for e in drawn]
        for name in ("plain", "product"):
            if name == "plain":
                with torchs_own():
                    loss = plain.plain_training_loss(method, episodes)
            else:
                loss = method.training_loss(episodes).loss
            losses[name + bits] = loss.item()
            slopes[name + bits] = torch.cat([g.flatten() for g in torch.autograd.grad(loss, method.inner())]).double()

    def apart(one: str, other: str) -> float:
        return float((slopes[one] - slopes[other]).abs().max() / slopes["plain64"].abs().max())

    return {
        "whole": whole,
        "loss32": abs(losses["product32"] - losses["plain32"]) / abs(losses["plain64"]),
        "loss64": abs(losses["product64"] - losses["plain64"]) / abs(losses["plain64"]),
        "gradient32": apart("product32", "plain32"),
        "gradient64": apart("product64", "plain64"),
        "rounding": apart("plain32", "plain64"),
    }


def growth(size: Size, seconds: float) -> dict[str, dict[str, dict[str, float]]]:
    """Seconds of a step against shot, way and d_h, and of a hyper-update against q: {what: {value: times}}."""
    base = size.changed(set_function={"hidden": 256}, hyper=no_hyper())
    found: dict[str, dict[str, dict[str, float]]] = {}
    steps: dict[str, list[tuple[int, Size]]] = {
        "shot": [(n, base.changed(episode={"shot": n})) for n in (1, 5, 10)],
        "way": [(k, base.changed(episode={"way": k})) for k in (2, 5, 10)],
        "d_h": [(d, base.changed(set_function={"hidden": d})) for d in (256, 512, 1024)],
    }
    share = seconds / 4
    for what, variants in steps.items():
        works = {}
        for value, variant in variants:
            for pairs in ("all", "matched"):
                state = state_of(variant, variant.pool(), interpolation={"pairs": pairs})
                works[f"{value} {pairs}"] = lambda state=state: training_step(state)
        found[what] = _nested(interleaved(works, share, warm=False, least=2))
    works = {}
    for terms in (0, 5, 10):
        variant = base.changed(hyper={"period": 1, "terms": terms}, optimizer={"lr": 1e-9})
        state = state_of(variant, variant.pool())
        works[f"{terms} all"] = lambda state=state: training_step(state)
    found["q"] = _nested(interleaved(works, share, warm=False))
    return found


def _nested(times: Mapping[str, float]) -> dict[str, dict[str, float]]:
    nested: dict[str, dict[str, float]] = {}
    for name, value in times.items():
        number, pairs = name.split()
        nested.setdefault(number, {})[pairs] = value
    return nested


def start_memory(preset: str) -> subprocess.Popen[str]:
    """A process that makes a hyper-update and watches its memory."""
    command = [sys.executable, "-m", "fewtask.bench.memory", preset]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def peak_memory(process: subprocess.Popen[str]) -> dict[str, float]:
    """Gigabytes that the process held at most, before and after its hyper-update."""
    out, errors = process.communicate()
    if process.returncode:
        raise RunError(f"the measurement of memory failed: {errors.strip().splitlines()[-1:]}")
    before, after = (float(number) for number in out.split())
    return {"before": before, "peak": after}
