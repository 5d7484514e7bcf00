"""python benchmarks/hyper_update.py [SIZE]: one hyper-update at the size of a preset.

Memory is what the process held at most, seconds are processor time with one thread. For first derivatives also, at the
size of CIFAR-100-FS with one episode, how near their products come to exact ones in float32.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import torch

from fewtask.bench.cases import state_of
from fewtask.bench.sizes import get_size
from fewtask.cost.machine import peak_memory
from fewtask.hypergradient import hypergradient
from fewtask.hypergradient.vectors import flat
from fewtask.threads import settle_threads
from fewtask.training.loop import training_step
from fewtask.training.replay import Replay


def nearness(terms: int) -> float:
    """Cosine between the indirect parts by differences and by second derivatives."""
    size = get_size("cifar100-fs").changed(episode={"batch": 1}, set_function={"hidden": 64})
    state = state_of(size, size.pool())
    method, e = state.method, state.method.settings.episode
    for _ in range(5):
        training_step(state)
    replay = Replay(method, method.draw(state.sampler))
    validation = state.outer_sampler.sample(e.batch, e.way, e.shot, e.query)
    for parameter in method.outer():
        parameter.requires_grad_(True)
    random = torch.get_rng_state()

    def indirect(name: str) -> torch.Tensor:
        torch.set_rng_state(random)
        options: dict[str, Any] = {"step": method.settings.optimizer.lr, "terms": terms}
        arguments = (replay, lambda: method.validation_loss(validation), method.inner(), method.outer())
        whole = flat(hypergradient(name, *arguments, **options))
        torch.set_rng_state(random)
        return whole - flat(hypergradient("direct", *arguments, **options))

    one, other = indirect("finite-difference").double(), indirect("neumann").double()
    return float(one @ other / (one.norm() * other.norm()))


def update(name: str, estimator: str, terms: int, pieces: int) -> tuple[float, float, float]:
    """Seconds of a step and of a step with its update, and gigabytes at most."""
    size = get_size(name)
    if pieces > 1:
        size = size.changed(train={"pieces": pieces}, model={"normalisation": "episode"})
    state = state_of(size, size.pool(), hyper={"estimator": estimator, "terms": terms, "period": 2})
    times = []
    for _ in range(2):
        started = time.process_time()
        training_step(state)
        times.append(time.process_time() - started)
    return times[0], times[1], peak_memory() * 1e-9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("size", nargs="?", default="mini-imagenet-s")
    parser.add_argument("--estimator", default="finite-difference")
    parser.add_argument("--terms", type=int, default=0)
    parser.add_argument("--pieces", type=int, default=1, help="parts of the batch, with BatchNorm by episode")
    options = parser.parse_args()
    settle_threads(1)
    step, whole, memory = update(options.size, options.estimator, options.terms, options.pieces)
    print(
        f"{get_size(options.size).title}, {options.estimator}, q = {options.terms}, {options.pieces} pieces: a step "
        f"{step:.1f} s, with its hyper-update {whole:.1f} s, {memory:.2f} GB",
        flush=True,
    )
    if options.estimator != "finite-difference":
        return
    for terms in (0, 5):
        print(f"cosine of the indirect part to that by second derivatives, q = {terms}: {nearness(terms):.5f}")


if __name__ == "__main__":
    main()
