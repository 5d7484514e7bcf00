"""How much memory and time a training will take, before it starts.

Memory is counted: the activations of one step, which backpropagation keeps, or those of the rows that are embedded at
once in validation, whichever is more, and the weights with what the optimiser and averaging keep of them. Time is
measured on a few steps of a copy, whose random numbers do not touch the run's.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fewtask.errors import SettingsError
from fewtask.evaluation import evaluate, rows_at_once
from fewtask.methods import make_method
from fewtask.methods.set_based import SetMethod
from fewtask.pool import Dataset
from fewtask.protocol import selection_episodes
from fewtask.settings import RunSettings, update
from fewtask.training.loop import new_state, training_step

NUMBER = 4
"""Bytes of a float32."""
WEIGHT_COPIES = 7
"""The weight, its gradient, two moments of Adam, the average, the best so far, and one to save."""
PASSING = 2
"""A tensor of the size of each activation is made on the way back."""
SECOND_ORDER = 4
"""A graph that is differentiated twice keeps its first derivatives too."""
SET_WIDTHS = 24
"""Activations of the set function for each row, in multiples of its hidden width."""
USABLE = 0.85
TIMED_STEPS = 3
TIMED_EPISODES = 50


@dataclass(frozen=True)
class Estimate:
    """Bytes at the peak and seconds in all, and what is available."""

    memory: float
    available: float
    seconds: float

    def __str__(self) -> str:
        return f"this will take about {_size(self.memory)} of memory and {_duration(self.seconds)}"


def estimate(settings: RunSettings, dataset: Dataset) -> Estimate:
    """Refuses what does not fit, with the setting that would make it fit; else what it will take."""
    need, there = memory_needed(settings, dataset), available_memory()
    if need > USABLE * there:
        raise SettingsError(
            f"training would take about {_size(need)} of memory, and {_size(there)} are free: "
            f"{_what_fits(settings, dataset, USABLE * there)}"
        )
    return Estimate(need, there, seconds_needed(settings, dataset))


def memory_needed(settings: RunSettings, dataset: Dataset) -> float:
    """Bytes at the peak of a training."""
    with torch.random.fork_rng(devices=[]):
        method = make_method(settings, dataset.input_shape)
    e = settings.episode
    outputs = activations(method.encoder, dataset.input_shape)
    rows = e.batch * e.way * (e.shot + e.query)
    step = PASSING * rows * sum(outputs)
    if isinstance(method, SetMethod):
        step += PASSING * 2 * rows * SET_WIDTHS * settings.set_function.hidden
    if method.bilevel:
        step *= SECOND_ORDER
    pairs = [a + b for a, b in pairwise(outputs)] or outputs
    validation = rows_at_once(dataset.input_shape) * max(pairs)
    weights = sum(p.numel() for p in method.parameters())
    held = sum(pool.rows.numel() * pool.rows.element_size() for pool in dataset.splits.values())
    return float(held + NUMBER * (WEIGHT_COPIES * weights + max(step, validation)))


def activations(encoder: nn.Module, input_shape: tuple[int, ...]) -> list[int]:
    """Numbers that each innermost module puts out for one row, the input first."""
    try:
        # Shapes alone, without numbers: large networks are asked about as well.
        return _outputs(copy.deepcopy(encoder).to("meta"), torch.zeros(1, *input_shape, device="meta"))
    except (NotImplementedError, RuntimeError):
        return _outputs(copy.deepcopy(encoder), torch.zeros(1, *input_shape))


def _outputs(encoder: nn.Module, row: Tensor) -> list[int]:
    sizes: list[int] = [row.numel()]

    def note(module: nn.Module, args: Any, output: Any) -> None:
        if isinstance(output, Tensor):
            sizes.append(output.numel())

    for module in encoder.modules():
        if not list(module.children()):
            module.register_forward_hook(note)
    with torch.no_grad():
        encoder.eval()(row)
    return sizes


def _what_fits(settings: RunSettings, dataset: Dataset, room: float) -> str:
    """The mildest change of settings that makes it fit."""
    width = settings.encoder.width
    candidates: list[Mapping[str, Any]] = [{"episode": {"batch": b}} for b in (2, 1) if b < settings.episode.batch]
    candidates += [{"encoder": {"width": w}} for w in (256, 128, 64, 32, 16, 8) if w < width]
    candidates += [{"episode": {"batch": 1}, "encoder": {"width": w}} for w in (32, 16, 8) if w < width]
    for changes in candidates:
        if memory_needed(update(settings, changes), dataset) <= room:
            said = [f"{group}.{key}={value}" for group, values in changes.items() for key, value in values.items()]
            return f"set {' and '.join(said)}"
    return "use smaller images or fewer rows"


def available_memory() -> float:
    """Bytes that this process may still take: what the system has free, or its container."""
    free = float("inf")
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        lines = dict(line.split(":", 1) for line in meminfo.read_text(encoding="utf-8").splitlines() if ":" in line)
        free = float(lines["MemAvailable"].split()[0]) * 1024
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.exists() and used.exists() and limit.read_text(encoding="utf-8").strip() != "max":
        free = min(free, float(limit.read_text(encoding="utf-8")) - float(used.read_text(encoding="utf-8")))
    return free


def seconds_needed(settings: RunSettings, dataset: Dataset) -> float:
    """Seconds of all steps and validations, from a few of them; the run's own random numbers stay as they are."""
    with torch.random.fork_rng(devices=[]):
        method = make_method(settings, dataset.input_shape)
        if not method.trained:
            return 0.0
        few = update(settings, {"train": {"validation_episodes": TIMED_EPISODES}})
        pools = dataset.pools(settings.data, settings.episode.way)
        state = new_state(method, pools.train, pools.outer)
        training_step(state)
        started = time.perf_counter()
        for _ in range(TIMED_STEPS):
            training_step(state)
        step = (time.perf_counter() - started) / TIMED_STEPS
        started = time.perf_counter()
        evaluate(method, pools.selection, selection_episodes(few, pools))
        check = (time.perf_counter() - started) * settings.train.validation_episodes / TIMED_EPISODES
    hyper = (2 + settings.hyper.terms) / settings.hyper_period if method.bilevel else 0.0
    steps = settings.train.steps
    return steps * step * (1 + hyper) + steps / settings.train.validate_every * check


def _size(size: float) -> str:
    return f"{size / 2**30:.1f} GB" if size >= 2**30 else f"{max(1, round(size / 2**20))} MB"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
