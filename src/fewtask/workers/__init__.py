"""Carrying out many jobs at once: processes on this machine, or a Ray cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fewtask.workers.inline import InlineExecutor
from fewtask.workers.jobs import Failure, InterruptedJobsError, Job
from fewtask.workers.local import LocalExecutor
from fewtask.workers.progress import JobProgress
from fewtask.workers.ray_cluster import RayExecutor

__all__ = [
    "Executor",
    "Failure",
    "InlineExecutor",
    "InterruptedJobsError",
    "Job",
    "JobProgress",
    "LocalExecutor",
    "RayExecutor",
]


class Executor(Protocol):
    """Anything that can carry out jobs."""

    def execute(self, jobs: Sequence[Job], progress: JobProgress) -> list[Failure]:
        """Carries out all jobs and returns those that failed."""
