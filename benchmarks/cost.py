"""python benchmarks/cost.py [PRESET ...]: predicted and measured memory and seconds of the paper's ten presets.

Each preset runs in a process of its own, with one thread, on random rows: a few training steps, one hyper-update, one
checkpoint. Memory is what the process held at most beside what it held before the method was made. Seconds are
processor time, of the predictions' yardsticks too. Mini-ImageNet-S takes gigabytes and minutes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch

from fewtask.bench.sizes import SIZES
from fewtask.cost import estimate_cost
from fewtask.cost.machine import held_memory, measure_machine, peak_memory
from fewtask.methods import make_method
from fewtask.settings import update
from fewtask.threads import settle_threads
from fewtask.training.loop import new_state, training_step


def measure(name: str, method: str, estimator: str, steps: int = 3) -> dict[str, Any]:
    settle_threads(1)
    size = SIZES[name]
    never = {"hyper": {"estimator": estimator, "period": 10**9}}
    settings = update(size.settings(method), never)
    machine = measure_machine(clock=time.process_time)
    cost = estimate_cost(settings, size.input_shape, machine=machine)
    pool = size.pool()
    before = held_memory()
    made = make_method(settings, size.input_shape).train()
    state = new_state(made, pool, pool)
    training_step(state)
    times = []
    for _ in range(steps):
        started = time.process_time()
        training_step(state)
        times.append(time.process_time() - started)
    found: dict[str, Any] = {"step seconds": [cost.step_seconds, median(times)]}
    memory = {"step": [cost.state + cost.step, peak_memory() - before]}
    if made.bilevel:
        made.settings = update(settings, {"hyper": {"period": 1}})
        started = time.process_time()
        training_step(state)
        found["update seconds"] = [cost.update_seconds, time.process_time() - started]
        memory["update"] = [cost.state + max(cost.step, cost.update), peak_memory() - before]
    state.best.weights = {key: value.detach().clone() for key, value in made.state_dict().items()}
    with tempfile.TemporaryDirectory() as folder:
        state.save(Path(folder) / "checkpoint.safetensors")
    memory["run"] = [cost.memory, peak_memory() - before]
    found["memory"] = {key: [round(p / 1e9, 3), round(m / 1e9, 3)] for key, (p, m) in memory.items()}
    return {"base": round(before / 1e9, 3), **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("presets", nargs="*", default=list(SIZES))
    parser.add_argument("--method", default="meta-interpolation")
    parser.add_argument("--estimator", default="neumann")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(measure(options.presets[0], options.method, options.estimator)))
        return
    for name in options.presets:
        command = [sys.executable, __file__, name, "--child", "--method", options.method]
        done = subprocess.run([*command, "--estimator", options.estimator], capture_output=True, text=True)
        print(name, done.stdout.strip() or done.stderr.strip().splitlines()[-1:], flush=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
