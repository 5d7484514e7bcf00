"""Ctrl-C, heard between two steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fewtask.errors import StoppedError


class InterruptedRunError(StoppedError):
    """The state is saved, and the message says how to go on."""


@contextmanager
def ctrl_c() -> Iterator[Callable[[], bool]]:
    """Turns the first Ctrl-C into a request, so that no step is left half done; the second stops at once."""
    asked = threading.Event()

    def handler(number: int, frame: object) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)
