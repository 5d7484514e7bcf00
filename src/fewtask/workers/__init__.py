"""Carrying out many jobs at once: processes on this machine, or a Ray cluster."""

from __future__ import annotations

from fewtask.workers.jobs import Executor, Failure, InterruptedJobsError, Job
from fewtask.workers.local import LocalExecutor
from fewtask.workers.progress import JobProgress
from fewtask.workers.ray_cluster import RayExecutor

__all__ = ["Executor", "Failure", "InterruptedJobsError", "Job", "JobProgress", "LocalExecutor", "RayExecutor"]
