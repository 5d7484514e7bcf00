"""From planned runs to a filled ledger: the data first, then the runs, by an executor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fewtask.datasets.base import Progress, quiet
from fewtask.errors import FewtaskError
from fewtask.experiments.grid import PlannedRun
from fewtask.experiments.worker import Job
from fewtask.settings import DataSettings
from fewtask.workers import Executor, Failure, JobProgress


@dataclass(frozen=True)
class Places:
    """Where things are."""

    ledger: Path
    work: Path = Path("runs/grid")
    data: Path | None = None
    raw: Path | None = None

    def absolute(self) -> Places:
        """Processes elsewhere have another current folder."""
        return replace(
            self,
            ledger=self.ledger.expanduser().resolve(),
            work=self.work.expanduser().resolve(),
            data=self.data and self.data.expanduser().resolve(),
            raw=self.raw and self.raw.expanduser().resolve(),
        )


def carry_out(
    runs: Sequence[PlannedRun],
    places: Places,
    executor: Executor,
    *,
    test: bool = True,
    keep: bool = False,
    show: bool = True,
    data_progress: Progress = quiet,
) -> list[Failure]:
    """Carries out runs in their order; those that failed."""
    places = places.absolute()
    jobs = [Job(run, places.work, places.ledger, places.data, places.raw, test, keep) for run in runs]
    ready, failures = _with_data(jobs, places, data_progress)
    if ready:
        with JobProgress(len(ready), show) as progress:
            failures += executor.execute(ready, progress)
    return failures


def _with_data(jobs: Sequence[Job], places: Places, progress: Progress) -> tuple[list[Job], list[Failure]]:
    """Prepares every data set once, before workers would do so beside each other; jobs without data fail here."""
    from fewtask.datasets.cache import prepare

    problems: dict[tuple[str, DataSettings], str | None] = {}
    ready, failures = [], []
    for job in jobs:
        settings = job.run.settings
        key = (settings.dataset, settings.data)
        if key not in problems:
            try:
                prepare(settings.dataset, settings.data, data_dir=places.data, raw_dir=places.raw, progress=progress)
                problems[key] = None
            except FewtaskError as error:
                problems[key] = str(error)
        problem = problems[key]
        if problem is None:
            ready.append(job)
        else:
            failures.append(Failure(job, problem))
    return ready, failures
