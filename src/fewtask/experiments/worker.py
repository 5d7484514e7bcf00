"""One run of a grid: the same code in a local process and on a Ray cluster.

The run lives in a folder of its own, so that one that was killed goes on from its checkpoint; when its record is in
the ledger the folder goes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fewtask.experiments.grid import PlannedRun, complete, counted_steps
from fewtask.experiments.ledger import Ledger
from fewtask.locks import alone
from fewtask.methods import AUTO

if TYPE_CHECKING:
    from fewtask.pool import Dataset


@dataclass(frozen=True)
class Job:
    """A run, where its files are, and what is wanted of it."""

    run: PlannedRun
    work_dir: Path
    ledger_dir: Path
    data_dir: Path | None = None
    raw_dir: Path | None = None
    test: bool = True
    keep: bool = False
    """Keep the run's folder with its weights when it is finished."""

    @property
    def name(self) -> str:
        return self.run.stem

    @property
    def label(self) -> str:
        return self.run.label

    @property
    def steps(self) -> int:
        settings = self.run.settings
        return counted_steps(settings)[0] if settings.method == AUTO else settings.train.steps

    def work(self, on_step: Callable[[int], None] | None = None) -> dict[str, Any]:
        record = run_one(self, on_step=on_step)
        return {"record": record, "map": Ledger(self.ledger_dir).read_map(self.run.settings)}

    def received(self, outcome: dict[str, Any]) -> None:
        ledger = Ledger(self.ledger_dir)
        if not complete(self.run, ledger, self.test):
            ledger.write(outcome["record"])
            if outcome["map"] is not None:
                ledger.write_map(self.run.settings, outcome["map"])


def run_one(job: Job, threads: int = 1, on_step: Callable[[int], None] | None = None) -> dict[str, Any]:
    """Trains or goes on, evaluates, writes the record and returns it; what is in the ledger is not done again."""
    from fewtask.threads import settle_threads

    settle_threads(threads)
    folder = job.work_dir / job.run.folder
    with alone(folder.with_name(f"{folder.name}.lock")):
        ledger = Ledger(job.ledger_dir)
        if complete(job.run, ledger, job.test):
            return ledger.read(job.run.settings)
        record = _run(job, folder, ledger, on_step)
        # Weights that have not met the test tasks are still needed for that.
        if job.test and not job.keep:
            shutil.rmtree(folder, ignore_errors=True)
        return record


def _run(job: Job, folder: Path, ledger: Ledger, on_step: Callable[[int], None] | None) -> dict[str, Any]:
    from fewtask.datasets.cache import load_dataset

    settings = job.run.settings
    begun = "auto.json" if settings.method == AUTO else "config.json"
    if folder.exists() and not (folder / begun).exists():
        # Killed before it had written anything of use.
        shutil.rmtree(folder)
    dataset = load_dataset(settings.dataset, settings.data, data_dir=job.data_dir, raw_dir=job.raw_dir)
    record = (_choose if settings.method == AUTO else _train)(job, dataset, folder, ledger, on_step)
    ledger.write(record)
    return record


def _choose(
    job: Job, dataset: Dataset, folder: Path, ledger: Ledger, on_step: Callable[[int], None] | None
) -> dict[str, Any]:
    from fewtask.auto.recorded import run_auto

    return run_auto(job.run.settings, dataset, folder, preset=job.run.preset, test=job.test, on_step=on_step)


def _train(
    job: Job, dataset: Dataset, folder: Path, ledger: Ledger, on_step: Callable[[int], None] | None
) -> dict[str, Any]:
    from fewtask.experiments.task_map import task_map
    from fewtask.run import execute

    settings = job.run.settings

    def heard(row: dict[str, Any]) -> None:
        if on_step is not None:
            on_step(int(row["step"]))

    result = execute(settings, dataset, folder, preset=job.run.preset, test=job.test, show_progress=False, on_row=heard)
    if job.run.task_map:
        ledger.write_map(settings, task_map(result.method, dataset.pools(settings.data, settings.episode.way).train))
    # A run that another preset began is this one's too.
    return result.record | {"preset": job.run.preset}
