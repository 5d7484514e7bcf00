"""What `fewtask reproduce` and `fewtask compare` share: flags, running a grid, and saying how it went."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.console import Console

from fewtask.cli.common import PluginFiles
from fewtask.errors import SettingsError

if TYPE_CHECKING:
    from fewtask.experiments.grid import Changes, Gathered, PlannedRun
    from fewtask.experiments.ledger import Ledger
    from fewtask.workers import Failure

SHOWN_FAILURES = 10


@dataclass(frozen=True)
class GridFlags:
    """How many runs, by whom, and where the files are."""

    seeds: int | None = None
    """Runs with seeds 0 to N - 1 of each method; unset: as declared, or 5."""
    steps: int | None = None
    """Training steps instead of the preset's: other settings, so other runs."""
    changes: Annotated[tuple[str, ...], tyro.conf.arg(name="set", metavar="KEY=VALUE ...")] = ()
    """Settings to change in every run, for instance interpolation.pairs=matched."""
    executor: Literal["local", "ray"] = "local"
    """Processes on this machine, or a Ray cluster."""
    workers: int = 0
    """Runs at a time; 0: as many as there are cores."""
    address: str | None = None
    """Address of a Ray cluster (auto: the one on this machine); unset: one is started for the command."""
    ledger: Path | None = None
    """Folder for the records of finished runs; unset: the experiment's, or runs/records."""
    experiments: Path = Path("experiments")
    """Folder of declared experiments; records there are found too."""
    work_dir: Path = Path("runs/grid")
    """Folder of runs under way."""
    data_dir: Path | None = None
    """Folder of prepared data (or FEWTASK_DATA)."""
    raw_dir: Path | None = None
    """Folder of publishers' files (or FEWTASK_RAW)."""
    plugin: PluginFiles = ()
    """Script that registers methods, encoders, set functions, estimators or data sets of its own."""
    dry_run: bool = False
    """Say what is missing and about how long it takes, and run nothing."""
    run: bool = True
    """Run what is missing; --no-run shows what the ledger has."""
    test: bool = True
    """Evaluate on meta-test; without it tables show meta-validation, for choosing settings."""
    keep_runs: bool = False
    """Keep the folders of finished runs, with their weights, in the working folder."""


def names(text: str) -> list[str]:
    """a,b,c -> [a, b, c]."""
    return [part.strip() for part in text.split(",") if part.strip()]


def asked_changes(flags: GridFlags) -> list[Changes]:
    """The settings that the flags change, after a look at the other numbers."""
    from fewtask.changes import parse_changes

    if flags.seeds is not None and flags.seeds < 1:
        raise SettingsError(f"--seeds {flags.seeds}: at least one run is needed")
    if flags.steps is not None and flags.steps < 1:
        raise SettingsError(f"--steps {flags.steps}: at least one step is needed")
    if flags.workers < 0:
        raise SettingsError(f"--workers {flags.workers}: at least one worker is needed, or 0 for one a core")
    if flags.address and flags.executor != "ray":
        raise SettingsError("--address is for --executor ray")
    changes: list[Changes] = [parse_changes(flags.changes)]
    if flags.steps is not None:
        changes.append({"train": {"steps": flags.steps}})
    return changes


def open_ledger(flags: GridFlags, own: Path | None = None) -> Ledger:
    """The ledger that new records go to; `own`: that of an experiment."""
    from fewtask.experiments.ledger import Ledger

    return Ledger(flags.ledger or own or Path("runs/records"), flags.experiments)


def fill_ledger(
    flags: GridFlags, runs: Sequence[PlannedRun], gathered: Gathered, ledger: Ledger, console: Console
) -> list[Failure] | None:
    """Says what is missing, runs it and takes it in: those that failed, or None where nothing was to be run."""
    lacking = [run for run in runs if gathered.lacks(run, flags.test)]
    say_plan(flags, len(runs), lacking, ledger, console)
    if flags.dry_run:
        return None
    if not flags.run or not lacking:
        return []
    failures = run_grid(flags, lacking, ledger)
    gathered.add(lacking, ledger)
    return failures


def run_grid(flags: GridFlags, runs: Sequence[PlannedRun], ledger: Ledger) -> list[Failure]:
    """Carries out runs; raises InterruptedJobsError at Ctrl-C."""
    from fewtask.cli.data import progress_on
    from fewtask.experiments.campaign import Places, carry_out
    from fewtask.workers import Executor, LocalExecutor, RayExecutor

    executor: Executor
    if flags.executor == "ray":
        executor = RayExecutor(flags.address, flags.workers)
    else:
        executor = LocalExecutor(flags.workers)
    places = Places(ledger.folder, flags.work_dir, flags.data_dir, flags.raw_dir)
    errors = Console(stderr=True)
    return carry_out(runs, places, executor, test=flags.test, keep=flags.keep_runs, data_progress=progress_on(errors))


def say_plan(flags: GridFlags, total: int, lacking: Sequence[PlannedRun], ledger: Ledger, console: Console) -> None:
    """How many runs there are, how many are missing, and about how long those take; a dry run lists them."""
    from fewtask.experiments.grid import estimate
    from fewtask.experiments.render import duration
    from fewtask.threads import usable_cores

    text = f"{total} runs, {total - len(lacking)} in the ledger, {len(lacking)} to do"
    if lacking:
        workers = flags.workers or usable_cores()
        cost = estimate(lacking, ledger.all(), workers)
        source = "measured" if cost.known == cost.runs else f"{cost.known} measured, the others a rough guess"
        text += f": about {duration(cost.seconds)} of computing, {duration(cost.wall_seconds)} with {workers} workers"
        text += f" ({source})"
    console.print(text, highlight=False, soft_wrap=True)
    for run in lacking if flags.dry_run else ():
        console.print(f"  {run.label}, {run.settings.train.steps} steps  [dim]{run.stem}[/dim]", highlight=False)


def say_failures(failures: Sequence[Failure], console: Console) -> int:
    """One line a failed run, the whole traceback of a defect; the exit code."""
    for failure in failures[:SHOWN_FAILURES]:
        console.print(f"failed: {failure.job.label}: {failure.reason.strip()}", markup=False, soft_wrap=True)
    if len(failures) > SHOWN_FAILURES:
        console.print(f"and {len(failures) - SHOWN_FAILURES} more failed")
    return 1 if failures else 0


def relative(path: Path) -> str:
    """A path as people would type it."""
    text = os.path.relpath(path)
    return str(path) if text.startswith("..") else text
