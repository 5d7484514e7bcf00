"""One process at a time: locks on files, which the system lets go of when their process dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fewtask.errors import RunError


@contextmanager
def alone(path: Path, busy: str | None = None) -> Iterator[None]:
    """Within the block no other process has the lock of this file, which holds the number of the one that has it.

    busy: what to say, with {process} for that number, if another has it; unset: waits for it.
    """
    try:
        import fcntl
    except ImportError:
        yield
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot write in {path.parent}: {error.strerror}") from error
    while True:
        try:
            handle = path.open("a+")
        except OSError as error:
            raise RunError(f"cannot write in {path.parent}: {error.strerror}") from error
        with handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX if busy is None else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                handle.seek(0)
                raise RunError((busy or "").format(process=handle.read(20).strip() or "of unknown number")) from None
            if not _same_file(handle.fileno(), path):
                # Whoever had it has removed the file meanwhile: this lock is on nothing.
                continue
            handle.truncate(0)
            handle.write(str(os.getpid()))
            handle.flush()
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
            return


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.fstat(descriptor).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False
