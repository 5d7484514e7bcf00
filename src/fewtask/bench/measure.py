"""Timing side by side, and counting of arithmetic.

The clock is the processor time of this process, with one thread: on a machine that others use too it measures the
work, not the waiting. What is compared runs in turns, a, b, c, a, b, c, ..., so that a slow spell hits all alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median

import torch

from fewtask.cost.trace import ArithmeticCounter
from fewtask.products import product

Work = Callable[[], object]


def interleaved(
    works: Mapping[str, Work], seconds: float, rounds: int = 50, warm: bool = True, least: int = 1
) -> dict[str, float]:
    """Median seconds of each, running in turns for so long (at least `least` rounds after a warm-up)."""
    times: dict[str, list[float]] = {name: [] for name in works}
    if warm:
        for work in works.values():
            work()
    end = time.perf_counter() + seconds
    for done in range(rounds):
        if done >= least and time.perf_counter() > end:
            break
        for name, work in works.items():
            # Short works several times a round: the clock has its grain, and medians like company.
            quick = bool(times[name]) and times[name][0] < 0.02
            for _ in range(5 if quick else 1):
                times[name].append(processor_seconds(work))
    return {name: median(values) for name, values in times.items()}


def processor_seconds(work: Work) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def matrix_product(side: int = 1024) -> tuple[Work, float]:
    """A product of two square matrices, and its arithmetic: the yardstick of the machine's rate."""
    a, b = torch.randn(side, side), torch.randn(side, side)
    return lambda: product(a, b), 2.0 * side**3


def arithmetic(work: Work) -> float:
    """Floating-point operations of one call."""
    with ArithmeticCounter() as counter:
        work()
    return counter.total


PARTS = {
    "matrix products": ("mm", "bmm", "addmm", "baddbmm", "convolution", "gemm", "linear_pointwise"),
    "random numbers": ("random_", "bernoulli", "uniform"),
    "normalisation": ("norm",),
    "optimiser": ("adam", "sgd"),
    "copies and gathers": ("copy", "index", "cat", "gather", "scatter", "fill", "zero"),
}


def profile(work: Work) -> dict[str, float]:
    """Shares of the processor time of one call by kind of operation."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as recorded

    with recorded(activities=[ProfilerActivity.CPU]) as record:
        work()
    spent = dict.fromkeys([*PARTS, "other"], 0.0)
    for event in record.key_averages():
        name = event.key.lower()
        part = next((part for part, words in PARTS.items() if any(word in name for word in words)), "other")
        spent[part] += event.self_cpu_time_total
    total = sum(spent.values())
    return {part: value / total for part, value in spent.items()}
