"""python -m fewtask.bench.memory SIZE: peak memory of this process in gigabytes before and after a hyper-update."""

from __future__ import annotations

import sys

from fewtask.bench.cases import state_of
from fewtask.bench.sizes import get_size
from fewtask.cost.machine import peak_memory
from fewtask.threads import settle_threads
from fewtask.training.loop import training_step


def main(name: str) -> None:
    settle_threads(1)
    size = get_size(name)
    state = state_of(size, size.pool(), hyper={"period": 1, "terms": 1})
    before = peak_memory()
    # One product: the graph is the same whatever their number. Twice, because the first makes λ's optimiser state.
    for _ in range(2):
        training_step(state)
    print(before * 1e-9, peak_memory() * 1e-9)


if __name__ == "__main__":
    main(sys.argv[1])
