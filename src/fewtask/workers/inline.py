"""Carrying out jobs in this very process, one after the other: where one worker is enough, no process is started."""

from __future__ import annotations

from collections.abc import Sequence

from fewtask.errors import FewtaskError, StoppedError
from fewtask.workers.jobs import Failure, Job
from fewtask.workers.progress import JobProgress


class InlineExecutor:
    def execute(self, jobs: Sequence[Job], progress: JobProgress) -> list[Failure]:
        failures = []
        for job in jobs:
            progress.started(job)
            try:
                outcome = job.work(lambda step, job=job: progress.at_step(job, step))  # type: ignore[misc]
            except StoppedError:
                raise
            except FewtaskError as error:
                failures.append(Failure(job, str(error)))
                progress.failed(job, str(error))
                continue
            job.received(outcome)
            progress.finished(job)
        return failures
