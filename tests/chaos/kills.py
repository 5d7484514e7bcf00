"""Runs and grids killed at random moments: started again and again, they must end as if nothing had happened."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHANGES = {
    "data.max_per_class": 12,
    "encoder.width": 8,
    "set_function.hidden": 16,
    "hyper.period": 4,
    "hyper.terms": 2,
    "train.validate_every": 20,
    "train.checkpoint_every": 5,
    "train.log_every": 5,
    "train.validation_episodes": 20,
    "evaluation.episodes": 20,
    "evaluation.query": 2,
}
TIMES = ("seconds", "steps_per_second", "test_seconds", "environment")


@dataclass
class Kills:
    """What killing did: kills that hit a process, runs that were put through them, and runs that ended differently."""

    tried: int = 0
    runs: int = 0
    lost: int = 0


def train_command(out: Path, steps: int) -> list[str]:
    flags = [f"--{key.replace('_', '-')}={value}" for key, value in CHANGES.items()]
    command = [sys.executable, "-m", "fewtask", "train", "rainbow-digits", "--method", "meta-interpolation"]
    return [*command, "--seed=3", "--threads=1", f"--train.steps={steps}", f"--out={out}", *flags]


def grid_command(folder: Path, steps: int) -> list[str]:
    command = [sys.executable, "-m", "fewtask", "compare", "rainbow-digits", "--methods", "protonet,metareg"]
    command += ["--seeds", "1", "--steps", str(steps), "--workers", "2", "--set"]
    command += [f"{key}={value}" for key, value in CHANGES.items() if key not in ("encoder.width",)]
    return [*command, "--ledger", str(folder / "ledger"), "--work-dir", str(folder / "work")]


def same(value: Any) -> Any:
    """A record without what differs from run to run."""
    if isinstance(value, dict):
        return {key: same(item) for key, item in value.items() if key not in TIMES}
    return [same(item) for item in value] if isinstance(value, list) else value


def records(folder: Path) -> dict[str, Any]:
    found = [folder / "result.json"] if (folder / "result.json").exists() else (folder / "ledger").glob("*.json")
    return {path.name: same(json.loads(path.read_text())) for path in found}


def finish(command: list[str]) -> float:
    """Runs a command to its end; the seconds it took."""
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[:6])} ended with {done.returncode}: {done.stderr[-500:]}")
    return time.perf_counter() - begun


def start_and_kill(command: list[str], seconds: float) -> bool:
    """Kills a command and all that it started after so many seconds; False if it had ended by then."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True
    return False


def kill(kind: str, count: int, folder: Path, steps: int = 120, per_run: int = 10, seed: int = 0) -> Kills:
    """`count` kills of `train` or of a grid, at most `per_run` of a run before it may end."""
    make = train_command if kind == "train" else grid_command
    rng, result = random.Random(seed), Kills()
    whole = folder / f"{kind}-whole"
    seconds = finish(make(whole, steps))
    wanted = records(whole)
    if not wanted:
        raise RuntimeError(f"{kind} leaves no record in {whole}")
    while result.tried < count:
        out = folder / f"{kind}-{result.runs}"
        for _ in range(min(per_run, count - result.tried)):
            if not start_and_kill(make(out, steps), rng.uniform(0.1, seconds)):
                break
            result.tried += 1
        result.runs += 1
        try:
            finish(make(out, steps))
        except RuntimeError as error:
            print(error)
            result.lost += 1
            continue
        result.lost += records(out) != wanted
    return result
