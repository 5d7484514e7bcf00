"""Memory and seconds of a step and of a hyper-update, from settings and the shape of a row."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from fewtask.cost.machine import Machine, measure_machine
from fewtask.cost.trace import Trace
from fewtask.episodes import Episode
from fewtask.errors import FewtaskError
from fewtask.hypergradient import get_estimator
from fewtask.hypergradient.base import gradient
from fewtask.hypergradient.vectors import products
from fewtask.methods import Method, make_method
from fewtask.sampler import EpisodeSampler
from fewtask.settings import RunSettings, update

SLOWER = {"products": 1.0, "convolutions": 1.5, "traffic": 2.0, "overhead": 40.0}
"""How many times longer parts of a training step take than the yardsticks say, found once over the paper's presets
(`benchmarks/cost.py`). Operations between others find nothing in the cache and a graph to be kept."""
SECOND_CONVOLUTIONS = 8.0
"""The same for convolutions under second derivatives, where BatchNorm is taken apart into many passes over images."""
COINS = 4
"""Steps that are traced of methods that decide at random what to do in a step."""
SLACK = 1.3
"""Memory that the allocator holds for each byte of tensors that live."""


class CostUnknownError(FewtaskError):
    """A network that asks for the numbers in its tensors cannot be followed by their shapes."""


@dataclass(frozen=True)
class Cost:
    """What a run costs: bytes beside what the process holds already, and seconds.

    state:  weights, optimisers' moments, averaged and selected weights: there all the time.
    step:   what a training step needs beside the state, at its fullest moment; update: a step with a hyper-update.
    saving: what writing a checkpoint needs beside the state.
    """

    state: int
    step: int
    update: int
    saving: int
    step_seconds: float
    update_seconds: float
    operations: float

    @property
    def memory(self) -> int:
        """Bytes at the fullest moment of the run."""
        return self.state + max(self.step, self.update, self.saving)


def estimate_cost(
    settings: RunSettings, input_shape: tuple[int, ...], *, device: str = "cpu", machine: Machine | None = None
) -> Cost:
    """What a run with these settings on rows of this shape will cost; nothing is computed, in a fraction of a second.

    machine: rates that were measured before; unset: they are measured now, with the threads that are set.
    """
    with torch.random.fork_rng(devices=[]):
        machine = machine or measure_machine(device)
    # One piece of a batch is in memory at a time; a step that interpolates is the dearest.
    pieces = min(max(1, settings.train.pieces), settings.episode.batch)
    piece = {"episode": {"batch": math.ceil(settings.episode.batch / pieces)}, "interpolation": {"share": 1.0}}
    try:
        with torch.random.fork_rng(devices=[]):
            with torch.device("meta"):
                method = make_method(update(settings, piece), input_shape).train()
            return _estimate(method, pieces, cast(EpisodeSampler, Shapes(input_shape)), machine)
    except (NotImplementedError, RuntimeError) as error:
        raise CostUnknownError(f"the cost of this network cannot be told from its shapes: {error}") from error


def _estimate(method: Method, pieces: int, sampler: EpisodeSampler, machine: Machine) -> Cost:
    state, saving = _states(method)
    if not method.trained:
        return Cost(state, 0, 0, 0, 0.0, 0.0, 0.0)
    traces = []
    # Where a step throws coins, several: their mean takes the time, the dearest the memory.
    for _ in range(COINS if "mixup" in method.groups else 1):
        traces.append(Trace())
        with traces[-1]:
            _step(method, sampler)
    step_peak, update_peak, update_seconds = max(trace.peak for trace in traces), 0, 0.0
    if method.bilevel:
        update_peak, update_seconds = _update(method, pieces, sampler, machine)
    return Cost(
        state=state,
        step=round(SLACK * step_peak),
        update=round(SLACK * update_peak),
        saving=saving,
        step_seconds=pieces * sum(seconds(trace, machine) for trace in traces) / len(traces),
        update_seconds=update_seconds,
        operations=pieces * sum(trace.total for trace in traces) / len(traces),
    )


def _states(method: Method) -> tuple[int, int]:
    """Bytes of all that stays, and of the copy that writing it makes."""
    settings = method.settings
    theta, lam = _bytes(method.inner()), _bytes(method.outer())
    buffers = _bytes(list(method.buffers()))
    moments = 0 if settings.optimizer.name == "sgd" else 2 * theta
    if lam and settings.hyper.name != "sgd":
        moments += 2 * lam
    averaged = theta if settings.train.average else 0
    # Weights in use and selected weights.
    state = 2 * (theta + lam + buffers) + moments + averaged
    return state, state


def _step(method: Method, sampler: EpisodeSampler) -> None:
    """The passes of a training step without a hyper-update."""
    theta, lam = method.inner(), method.outer()
    for parameter in lam:
        parameter.requires_grad_(method.joint)
    episodes = method.draw(sampler)
    gradient(lambda: method.training_loss(episodes).loss, [*theta, *lam] if method.joint else theta)


def _update(method: Method, pieces: int, sampler: EpisodeSampler, machine: Machine) -> tuple[int, float]:
    """Bytes at the fullest moment of a step with its hyper-update, and its seconds."""
    theta, lam, settings = method.inner(), method.outer(), method.settings
    estimator = get_estimator(settings.hyper.estimator)
    for parameter in lam:
        parameter.requires_grad_(True)
    vector = [torch.empty_like(t) for t in theta]
    slopes: Sequence[Tensor] = []
    trace, total = Trace(), 0.0

    def part(work: Callable[[], object], times: float = 1, second: bool = False) -> None:
        nonlocal total
        before = seconds(trace, machine, second)
        work()
        total += times * (seconds(trace, machine, second) - before)

    def training(inputs: Sequence[Tensor], graph: bool) -> None:
        nonlocal slopes
        episodes = method.draw(sampler)
        slopes = gradient(lambda: method.training_loss(episodes).loss, inputs, graph=graph)

    e, (hessians, mixed) = settings.episode, estimator.work(settings.hyper.terms)
    with trace:
        # The graphs of pieces are made again for every product.
        graphs = 1 + hessians + mixed if estimator.graph and pieces > 1 else 1
        part(lambda: training(theta, estimator.graph), graphs)
        validation = sampler.sample(e.batch, e.way, e.shot, e.query)
        part(lambda: gradient(lambda: method.validation_loss(validation), [*theta, *lam]))
        if estimator.graph:
            part(lambda: products(slopes, theta, vector), hessians, second=True)
            part(lambda: products(slopes, lam, vector), mixed, second=True)
        elif mixed:
            part(lambda: training(theta, False), 2 * hessians)
            part(lambda: training(lam, False), 2 * mixed)
    return trace.peak, pieces * total


class Shapes:
    """Episodes without numbers, as the sampler would give them."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def sample(self, batch: int, way: int, shot: int, query: int) -> Episode:
        return self.sample_groups(batch, way, shot, query, 1)[0]

    def sample_groups(
        self,
        batch: int,
        way: int,
        shot: int,
        query: int,
        size: int,
        partner_query: int = 0,
        aligned: bool = False,
    ) -> list[Episode]:
        index = torch.empty(batch, way, dtype=torch.int64, device="meta")
        group = []
        for queries in [query] + [partner_query] * (size - 1):
            rows = torch.empty(batch, way, shot + queries, *self.shape, device="meta")
            group.append(Episode(rows[:, :, :shot], rows[:, :, shot:], index[:, 0], index))
        return group


def seconds(trace: Trace, machine: Machine, second: bool = False) -> float:
    """second: of second derivatives."""
    return (
        SLOWER["products"] * trace.products / machine.products
        + (SECOND_CONVOLUTIONS if second else SLOWER["convolutions"]) * trace.convolutions / machine.convolutions
        + SLOWER["traffic"] * trace.moved / machine.bandwidth
        + trace.fresh / machine.fresh
        + SLOWER["overhead"] * trace.operations * machine.overhead
    )


def _bytes(tensors: Sequence[Tensor]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)
