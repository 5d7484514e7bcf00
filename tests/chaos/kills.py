"""Commands killed at random moments: started again and again, they must end as if nothing had happened.

A command runs in a fork of this process, which has imported everything already: that makes a kill cheap, and what is
killed is a process like any other. Its workers are processes of their own and see to themselves, as after a real kill.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from victims import VICTIMS, Victim

from fewtask.workers import LocalExecutor

POLL_SECONDS = 0.003


@dataclass
class Kills:
    """What killing did: kills that hit a process, runs that were put through them, and runs that ended differently."""

    tried: int = 0
    runs: int = 0
    lost: int = 0
    seconds: float = 0.0


class FailedError(Exception):
    """A command that ended with an error."""


def start(argv: list[str], log: Path) -> int:
    """The number of a process that carries out a command of fewtask; what it prints goes to a file."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.setsid()
        with log.open("ab") as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        from fewtask.cli import main

        code = main(argv)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def ended(process: int, until: Callable[[], bool]) -> int | None:
    """Waits until something is so; the exit code of the process if it ended before that."""
    while True:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if until():
            return None
        time.sleep(POLL_SECONDS)


def finish(victim: Victim, folder: Path, log: Path) -> float:
    """Carries out a command to its end; the seconds it took, by the clock of the victim."""
    begun, argv = time.perf_counter(), victim.command(folder)
    _, status, usage = os.wait4(start(argv, log), 0)
    if status:
        said = log.read_text(errors="replace")[-1500:]
        raise FailedError(f"fewtask {' '.join(argv[:3])} ended with {os.waitstatus_to_exitcode(status)}: {said}")
    return time.perf_counter() - begun if victim.has_workers else usage.ru_utime + usage.ru_stime


def processor_seconds(process: int) -> float:
    """What a process has computed: on a busy machine a better measure of how far it is than the clock on the wall."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def start_and_kill(victim: Victim, folder: Path, log: Path, seconds: float) -> bool:
    """Starts a command and kills it after so many seconds, or at the next file it writes; False if it had ended."""
    process, begun = start(victim.command(folder), log), time.perf_counter()

    def now() -> bool:
        spent = time.perf_counter() - begun if victim.has_workers else processor_seconds(process)
        return spent >= seconds and (not victim.in_write or any(folder.glob("*/.*.part")))

    if ended(process, now) is not None:
        return False
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return True


class Forking(LocalExecutor):
    """Workers that are forks."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.context = multiprocessing.get_context("fork")  # type: ignore[assignment]


def warm_up(folder: Path) -> None:
    """Imports all that commands import, so that forks need not: a run is carried out in this process."""
    import torch

    import fewtask.auto.choosing
    import fewtask.cost
    import fewtask.workers
    from fewtask.cli import main

    torch.set_num_threads(1)
    # Workers of a grid need not import anything either. Those of a search must not inherit the lock that it holds.
    fewtask.workers.LocalExecutor = Forking  # type: ignore[misc]
    # What it measures takes longer than these runs.
    fewtask.cost.foretell = lambda *args, **named: ""  # type: ignore[assignment]
    with (folder / "warm-up.txt").open("w") as out, contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        for name in ("train", "tune"):
            (folder / name).mkdir()
            argv = VICTIMS[name].command(folder / name)
            if main([*argv, "--workers", "1"] if name == "tune" else argv):
                raise FailedError(f"fewtask {' '.join(argv)} fails without any kill")


def kill(
    victim: Victim, count: int, folder: Path, done: Kills, seed: int, kept: Callable[[Kills], None] = lambda done: None
) -> Kills:
    """Kills until there are `count` of them, going on from what is `done`; `kept` is told of every run that ended."""
    folder.mkdir(parents=True, exist_ok=True)
    whole, log = folder / "whole", folder / "log.txt"
    whole.mkdir()
    seconds = finish(victim, whole, log)
    wanted = victim.left(whole)
    while done.tried < count:
        begun = time.perf_counter()
        # A run's moments depend on its number alone: one that was lost can be looked at again.
        rng = random.Random(f"{seed} {victim.what} {done.runs}")
        out = folder / str(done.runs)
        out.mkdir()
        for _ in range(min(victim.per_run, count - done.tried)):
            started = time.perf_counter()
            if not start_and_kill(victim, out, log, rng.uniform(0, seconds)):
                # Measured when the machine was busier: kills would come too late again and again.
                seconds = min(seconds, time.perf_counter() - started) if victim.has_workers else seconds
                break
            done.tried += 1
        done.lost += not _ends_alike(victim, out, log, wanted)
        done.runs += 1
        done.seconds += time.perf_counter() - begun
        kept(done)
    return done


def _ends_alike(victim: Victim, out: Path, log: Path, wanted: dict[str, Any]) -> bool:
    try:
        finish(victim, out, log)
        found = victim.left(out)
    except (FailedError, OSError, ValueError) as error:
        print(f"lost: {victim.what}, {out}: {error}", flush=True)
        return False
    different = [key for key in wanted.keys() | found.keys() if wanted.get(key) != found.get(key)]
    if different:
        print(f"lost: {victim.what}, {out}: {', '.join(different)} differ", flush=True)
    return not different
