"""How a process computes: its threads and its memory."""

from __future__ import annotations

import ctypes
import platform


def settle_threads(threads: int) -> None:
    """Uses so many threads (0: torch's own choice), and keeps freed memory at hand.

    Steps allocate and free the same few megabytes again and again; glibc gives them back to the system each time
    and pays for fresh pages on the next step unless told otherwise. Large blocks still go back at once: kept, they
    would leave holes that nothing fits in.
    """
    import torch

    if threads:
        torch.set_num_threads(threads)
    if platform.system() == "Linux" and platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        m_trim_threshold, m_mmap_threshold = -1, -3
        libc.mallopt(m_mmap_threshold, 64 << 20)
        libc.mallopt(m_trim_threshold, (1 << 31) - 1)
