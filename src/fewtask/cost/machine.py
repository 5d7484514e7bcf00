"""What this machine can do: its rates, measured in a fraction of a second, and its free memory."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

from fewtask.products import product
from fewtask.threads import KEPT, keep_memory

GROUP = Path("/sys/fs/cgroup")
"""Where Linux tells a container its limits."""


@dataclass(frozen=True)
class Machine:
    """Operations a second of matrix products and of convolutions, bytes a second of everything else, the seconds that
    an operation takes however small it is, and bytes a second of memory that the system has to find first."""

    products: float
    convolutions: float
    bandwidth: float
    overhead: float
    fresh: float = float("inf")


def measure_machine(device: str = "cpu", clock: Callable[[], float] = time.perf_counter) -> Machine:
    """Rates with as many threads as are set, at sizes like those of a training step.

    clock: of the wall; a benchmark on a busy machine takes that of the process.
    """
    side, rows = 512, 1 << 22
    a, b = (torch.randn(side, side, device=device) for _ in range(2))
    images = torch.randn(16, 32, 28, 28, device=device).contiguous(memory_format=torch.channels_last)
    filters = torch.randn(32, 32, 3, 3, device=device)
    long, short = torch.randn(rows, device=device), torch.randn(8, device=device)

    def tiny() -> None:
        for _ in range(100):
            torch.add(short, short)

    block = KEPT // 4 + 1
    # As a run does; on a GPU torch keeps blocks of any size itself.
    keep_memory()
    with torch.no_grad():
        return Machine(
            products=2 * side**3 / _seconds(lambda: product(a, b), clock, device),
            convolutions=2
            * images.numel()
            * filters[0].numel()
            / _seconds(lambda: F.conv2d(images, filters, padding=1), clock, device),
            bandwidth=3 * 4 * rows / _seconds(lambda: torch.add(long, long), clock, device),
            overhead=_seconds(tiny, clock, device) / 100,
            fresh=4 * block / _seconds(lambda: torch.empty(block).fill_(1.0), clock, device, rounds=3)
            if torch.device(device).type == "cpu"
            else float("inf"),
        )


def _seconds(work: Callable[[], object], clock: Callable[[], float], device: str, rounds: int = 7) -> float:
    """The median of a few calls, after one to warm up."""
    times = []
    for _ in range(rounds + 1):
        started = clock()
        work()
        if torch.device(device).type == "cuda":
            torch.cuda.synchronize(device)
        times.append(clock() - started)
    return sorted(times[1:])[rounds // 2]


def free_memory(device: str = "cpu") -> int | None:
    """Bytes that can still be had, or None where nobody says."""
    if torch.device(device).type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    found = []
    status = Path("/proc/meminfo")
    if status.exists():
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        found.append(int(lines["MemAvailable"].split()[0]) * 1024)
    try:
        limit, used = ((GROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
        if limit != "max":
            found.append(max(0, int(limit) - int(used)))
    except (OSError, ValueError):
        pass  # no container, or one of the older kind
    return min(found) if found else None


def peak_memory() -> int:
    """Bytes that this process held at most."""
    unit = 1 if sys.platform == "darwin" else 1024
    # On Linux getrusage counts the parent's until the child outgrows it.
    return _status("VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def held_memory() -> int:
    """Bytes that this process holds now, or held at most where nobody says."""
    return _status("VmRSS") or peak_memory()


def _status(what: str) -> int:
    status = Path("/proc/self/status")
    if not status.exists():
        return 0
    return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith(what)) * 1024
