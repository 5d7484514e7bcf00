"""python -m fewtask.bench.memory SIZE: peak memory of this process in gigabytes before and after a hyper-update."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

from fewtask.bench.cases import state_of
from fewtask.bench.sizes import get_size
from fewtask.threads import settle_threads
from fewtask.training.loop import training_step


def peak() -> float:
    """Gigabytes that this process held at most; getrusage would count its parent's on Linux."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024e-9
    unit = 1e-9 if sys.platform == "darwin" else 1024e-9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main(name: str) -> None:
    settle_threads(1)
    size = get_size(name)
    state = state_of(size, size.pool(), hyper={"period": 1, "terms": 1})
    before = peak()
    # One product: the graph is the same whatever their number. Twice, because the first makes λ's optimiser state.
    for _ in range(2):
        training_step(state)
    print(before, peak())


if __name__ == "__main__":
    main(sys.argv[1])
