"""Progress of many jobs: bars on a terminal, a line a job elsewhere."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import TaskID, TimeElapsedColumn

from fewtask.bars import Bars
from fewtask.workers.jobs import Job


class JobProgress(Bars):
    """Told by an executor what happens; shows it on the error stream."""

    def __init__(self, runs: int, show: bool = True, console: Console | None = None) -> None:
        console = console or Console(stderr=True)
        super().__init__(TimeElapsedColumn(), show=show and console.is_terminal, console=console)
        self.total, self.count, self.show = runs, 0, show
        self.started_at: dict[str, float] = {}
        self.tasks: dict[str, TaskID] = {}
        self.all = self.bar.add_task("runs", total=runs)

    def started(self, job: Job) -> None:
        self.started_at[job.name] = time.monotonic()
        if job.name not in self.tasks:
            self.tasks[job.name] = self.bar.add_task(f"  {job.label}", total=job.steps)

    def at_step(self, job: Job, step: int) -> None:
        if job.name in self.tasks:
            self.bar.update(self.tasks[job.name], completed=step)

    def finished(self, job: Job) -> None:
        self._end(job)
        seconds = time.monotonic() - self.started_at.get(job.name, time.monotonic())
        self._say(f"{self.count}/{self.total} {job.label}: done in {seconds:.0f} s")

    def failed(self, job: Job, reason: str) -> None:
        self._end(job)
        self._say(f"{self.count}/{self.total} {job.label}: failed: {reason.strip().splitlines()[-1]}")

    def retried(self, job: Job, reason: str) -> None:
        self._say(f"{job.label}: {reason}; starting it again from its checkpoint")

    def _end(self, job: Job) -> None:
        self.count += 1
        self.bar.advance(self.all)
        if job.name in self.tasks:
            self.bar.remove_task(self.tasks.pop(job.name))

    def _say(self, text: str) -> None:
        if self.show:
            self.bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
