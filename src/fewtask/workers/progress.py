"""Progress of many jobs: bars on a terminal, a line a job elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from fewtask.workers.jobs import Job


class JobProgress:
    """Told by an executor what happens; shows it on the error stream."""

    def __init__(self, runs: int, show: bool = True, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.total, self.count, self.show = runs, 0, show
        self.started_at: dict[str, float] = {}
        self.tasks: dict[str, TaskID] = {}
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
            disable=not (show and self.console.is_terminal),
            transient=True,
        )
        self.all = self.bar.add_task("runs", total=runs)

    def __enter__(self) -> JobProgress:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

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
