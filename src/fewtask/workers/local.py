"""Carrying out jobs on this machine: processes with one thread each.

Each job has a process of its own. A process that dies (out of memory, killed) is started again and goes on from its
checkpoint; a job that fails is reported, and the rest go on; Ctrl-C lets those under way save their state.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from fewtask.errors import FewtaskError
from fewtask.threads import one_thread, usable_cores
from fewtask.workers.jobs import RETRIES, Failure, InterruptedJobsError, Job
from fewtask.workers.progress import JobProgress

SAVING_SECONDS = 60.0


@dataclass
class _Running:
    job: Job
    process: Any
    messages: Connection
    attempt: int
    ended: str | None = None
    reason: str = ""
    outcome: Any = None


class LocalExecutor:
    """Up to `workers` processes at a time."""

    def __init__(self, workers: int = 0, retries: int = RETRIES) -> None:
        self.workers = workers or usable_cores()
        self.retries = retries
        self.context = multiprocessing.get_context("spawn")

    def execute(self, jobs: Sequence[Job], progress: JobProgress) -> list[Failure]:
        waiting = [(job, 1) for job in jobs]
        running: list[_Running] = []
        failures: list[Failure] = []
        try:
            while waiting or running:
                while waiting and len(running) < self.workers:
                    running.append(self._start(*waiting.pop(0)))
                    progress.started(running[-1].job)
                self._listen(running, progress)
                for one in [r for r in running if not r.process.is_alive()]:
                    running.remove(one)
                    self._settle(one, waiting, failures, progress)
        except KeyboardInterrupt:
            self._stop(running)
            raise InterruptedJobsError from None
        finally:
            for one in running:
                if one.process.is_alive():
                    one.process.kill()
                    one.process.join()
        return failures

    def _start(self, job: Job, attempt: int) -> _Running:
        ours, theirs = self.context.Pipe(duplex=False)
        process = self.context.Process(target=_work, args=(job, theirs), name=job.name)
        with one_thread(), _ignoring_ctrl_c():
            process.start()
        theirs.close()
        return _Running(job, process, ours, attempt)

    def _listen(self, running: Sequence[_Running], progress: JobProgress) -> None:
        """Waits for word from any process, or for its end."""
        wait([one.process.sentinel for one in running] + [one.messages for one in running if not one.ended], 1.0)
        for one in running:
            # A dead process's last words are still in the pipe.
            with contextlib.suppress(EOFError, OSError):
                while not one.ended and one.messages.poll():
                    kind, value = one.messages.recv()
                    if kind == "step":
                        progress.at_step(one.job, value)
                    elif kind == "done":
                        one.ended, one.outcome = kind, value
                    else:
                        one.ended, one.reason = kind, value

    def _settle(
        self, one: _Running, waiting: list[tuple[Job, int]], failures: list[Failure], progress: JobProgress
    ) -> None:
        """What follows from the end of a process."""
        self._listen([one], progress)
        one.process.join()
        one.messages.close()
        if one.ended == "done":
            one.job.received(one.outcome)
            progress.finished(one.job)
        elif one.ended == "failed":
            failures.append(Failure(one.job, one.reason))
            progress.failed(one.job, one.reason)
        elif one.attempt <= self.retries:
            progress.retried(one.job, f"its process died (exit code {one.process.exitcode})")
            waiting.insert(0, (one.job, one.attempt + 1))
        else:
            reason = f"its process died {one.attempt} times, last with exit code {one.process.exitcode}"
            failures.append(Failure(one.job, reason))
            progress.failed(one.job, reason)

    def _stop(self, running: Sequence[_Running]) -> None:
        """Asks every process to save its state, and waits for that."""
        for one in running:
            if one.process.is_alive():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one.process.pid, signal.SIGINT)
        deadline = time.monotonic() + SAVING_SECONDS
        for one in running:
            one.process.join(max(0.0, deadline - time.monotonic()))


@contextlib.contextmanager
def _ignoring_ctrl_c() -> Iterator[None]:
    """Processes started within the block do not hear Ctrl-C until they ask to."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _work(job: Job, messages: Connection) -> None:
    """The life of a process: one job."""
    # Ctrl-C at the terminal reaches the parent alone, which passes it on once.
    if hasattr(os, "setsid"):
        os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_watch_parent, daemon=True).start()
    try:
        outcome = job.work(on_step=lambda step: messages.send(("step", step)))
        messages.send(("done", outcome))
    except KeyboardInterrupt:
        return
    except FewtaskError as error:
        messages.send(("failed", str(error)))
    except BrokenPipeError:
        return
    except Exception:
        messages.send(("failed", traceback.format_exc()))


def _watch_parent() -> None:
    """Without its parent a job saves its state and stops, so that the next start finds the field clear."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGINT)
