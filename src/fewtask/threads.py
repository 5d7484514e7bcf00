"""How a process computes: its cores, its threads and its memory."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import platform
import warnings
from collections.abc import Iterator

from fewtask.errors import SettingsError

KEPT = 64 << 20
"""Bytes of the largest block of memory that is kept when it is freed."""
MOST_THREADS = 1_024
"""More than that ends the process, not only the run."""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
ALLOCATOR_VARIABLES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


def usable_cores() -> int:
    """Cores that this process may use, which in a container or a queue are fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Within the block, processes that are started compute with one thread, from torch's import on."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def settle_threads(threads: int) -> None:
    """Uses so many threads (0: torch's own choice), and keeps freed memory at hand."""
    import torch

    if not 0 <= threads <= MOST_THREADS:
        raise SettingsError(f"threads is {threads}: it must be at least 0 (all cores) and at most {MOST_THREADS}")
    if threads:
        torch.set_num_threads(threads)
    keep_memory()


@contextlib.contextmanager
def as_begun(threads: int | None, what: str, say: bool = True) -> Iterator[None]:
    """Within the block, so many threads as something began with: another number adds floats in another order.

    None, where that is not known, leaves them as they are.
    """
    import torch

    now = torch.get_num_threads()
    if threads is None or threads == now:
        yield
        return
    if say:
        warnings.warn(
            f"{what} began with threads = {threads} and goes on so, not with {now}, which would give another model: "
            "another --out begins anew",
            ThreadsWarning,
            stacklevel=3,
        )
    with computing_with(threads):
        yield


@contextlib.contextmanager
def computing_with(threads: int) -> Iterator[None]:
    """Within the block torch computes with so many threads.

    One for many small matrices: on a busy machine each waits longer for a second thread than it takes.
    """
    import torch

    now = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(now)


@functools.cache
def keep_memory() -> None:
    """Tells the allocator to keep what is freed; once a process, and not where its user has told it otherwise.

    Steps allocate and free the same few megabytes again and again; glibc gives them back to the system each time
    and pays for fresh pages on the next step unless told otherwise. Large blocks still go back at once: kept, they
    would leave holes that nothing fits in.
    """
    if platform.system() != "Linux" or platform.libc_ver()[0] != "glibc":
        return
    if any(name in os.environ for name in ALLOCATOR_VARIABLES):
        return
    libc = ctypes.CDLL(None)
    m_trim_threshold, m_mmap_threshold = -1, -3
    libc.mallopt(m_mmap_threshold, KEPT)
    libc.mallopt(m_trim_threshold, (1 << 31) - 1)


class ThreadsWarning(UserWarning):
    """Something goes on with the number of threads that it began with, not with the one asked for."""


class BusyWarning(UserWarning):
    """Several threads on a machine that others use too."""


def notice_others() -> None:
    """Warns where several threads would share too few cores: all wait for the one that has to wait.

    Two threads beside other work were ten times slower than one.
    """
    import torch

    threads, cores = torch.get_num_threads(), usable_cores()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if threads > 1 and load > cores:
        warnings.warn(
            f"this machine is busy (load {load:.1f} on {cores} cores), and {threads} threads wait for each other: "
            "one thread would be faster (--threads 1, torch.set_num_threads(1))",
            BusyWarning,
            stacklevel=2,
        )
