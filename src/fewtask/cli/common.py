"""What several commands share."""

from __future__ import annotations

import ctypes
import platform
from typing import TypeVar

import tyro

from fewtask.errors import SettingsError

T = TypeVar("T")


def parse(kind: type[T], argv: list[str], prog: str, description: str | None = None, default: T | None = None) -> T:
    """Flags from a dataclass; a wrong flag prints what is known and exits with 2."""
    if default is None:
        return tyro.cli(kind, args=argv, prog=prog, description=description)
    return tyro.cli(kind, args=argv, prog=prog, description=description, default=default)


def choose_device(name: str) -> str:
    """ "auto" is a GPU where there is one."""
    import torch

    if name == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "cpu"
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise SettingsError(f"device '{name}' cannot be used here ({reason}); try --device auto") from error
    return name


def settle_threads(threads: int) -> None:
    """Uses so many threads (0: torch's own choice), and keeps freed memory at hand.

    Steps allocate and free the same few megabytes again and again; glibc gives them back to the system each time
    and pays for fresh pages on the next step unless told otherwise.
    """
    import torch

    if threads:
        torch.set_num_threads(threads)
    if platform.system() == "Linux" and platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        m_trim_threshold, m_mmap_threshold = -1, -3
        libc.mallopt(m_mmap_threshold, 1 << 30)
        libc.mallopt(m_trim_threshold, (1 << 31) - 1)
