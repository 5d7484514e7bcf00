"""What workers take and give: a job is anything that can be sent to another process and run there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from fewtask.errors import StoppedError

RETRIES = 2


class Job(Protocol):
    """Work that leaves its results in files, and finds there what an earlier attempt has done already."""

    @property
    def name(self) -> str:
        """Another than that of any other job."""

    @property
    def label(self) -> str:
        """For people."""

    @property
    def steps(self) -> int:
        """How much there is to do, in the numbers that `on_step` hears."""

    def work(self, on_step: Callable[[int], None] | None = None) -> Any:
        """In the worker's process; what it returns is sent home."""

    def received(self, outcome: Any) -> None:
        """At home, when `work` is done: writes what is not there, where the worker's machine has another disk."""


class InterruptedJobsError(StoppedError):
    """Ctrl-C: what is finished is saved, and the rest can be resumed."""

    def __init__(self) -> None:
        super().__init__("stopped; what is finished is kept, the other runs are saved: run the same command to go on")


@dataclass(frozen=True)
class Failure:
    """A job that did not finish, and why: one sentence, or the traceback of a defect."""

    job: Job
    reason: str
