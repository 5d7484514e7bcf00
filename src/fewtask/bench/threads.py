"""One thread against several on the paper's presets, by the clock on the wall: for a machine that is quiet."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from statistics import median
from typing import Any

import torch

from fewtask.bench.cases import no_hyper, state_of
from fewtask.bench.report import Table
from fewtask.bench.sizes import Size
from fewtask.threads import usable_cores
from fewtask.training.loop import training_step

METHODS = ("protonet", "meta-interpolation")


def compare_threads(sizes: Sequence[Size], seconds: float) -> dict[str, Any]:
    """Seconds of a step with one thread and with all cores, in turns: {size: {method: {threads: seconds}}}."""
    cores, before = usable_cores(), torch.get_num_threads()
    found: dict[str, Any] = {}
    try:
        for size in sizes:
            for method in METHODS:
                hyper = {"hyper": no_hyper()} if method == "meta-interpolation" else {}
                state = state_of(size, size.pool(), method, **hyper)
                times: dict[int, list[float]] = {1: [], cores: []}
                end = time.perf_counter() + seconds / len(sizes) / len(METHODS)
                # At least two rounds, of which the first is the warm-up.
                while len(times[1]) < 2 or time.perf_counter() < end:
                    for threads, own in times.items():
                        torch.set_num_threads(threads)
                        started = time.perf_counter()
                        training_step(state)
                        own.append(time.perf_counter() - started)
                found.setdefault(size.title, {})[method] = {str(n): median(own[1:]) for n, own in times.items()}
    finally:
        torch.set_num_threads(before)
    return {"cores": cores, "load": os.getloadavg()[0], "steps": found}


def threads_table(results: dict[str, Any]) -> Table:
    cores = str(results["cores"])
    lines = [
        [size, method, f"{1e3 * t['1']:.1f}", f"{1e3 * t[cores]:.1f}", f"{t['1'] / t[cores]:.2f}×"]
        for size, methods in results["steps"].items()
        for method, t in methods.items()
    ]
    title = f"A step with one thread and with {cores}, by the clock on the wall (load at the end {results['load']:.1f})"
    return title, ["size", "method", "1 thread, ms", f"{cores} threads, ms", "faster"], lines
