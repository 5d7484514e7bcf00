"""`make check-datasets`: ProtoNet and Meta-Interpolation on all eight data sets at the paper's sizes.

Every run has a process of its own, so that its peak memory is its own. A run fails if its training loss does not
fall from the first to the last third of its steps by two standard errors, or if λ has not changed after two
hyper-updates.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import platform
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from fewtask.check import CheckRow, check
from fewtask.cli.common import make_console, progress_on
from fewtask.datasets.cache import prepare
from fewtask.errors import FewtaskError
from fewtask.files import write_json, write_text
from fewtask.presets import load_preset
from fewtask.threads import settle_threads

METHODS = ("protonet", "meta-interpolation")
LEAST_STEPS = 6
"""Two steps each in the first and the last third, and two hyper-updates with steps between them."""


@dataclass(frozen=True)
class Length:
    """Steps of ProtoNet and of Meta-Interpolation, enough for the loss to fall, and steps between hyper-updates."""

    protonet: int
    meta_interpolation: int
    period: int

    def steps(self, method: str) -> int:
        return self.protonet if method == "protonet" else self.meta_interpolation


# A hyper-update costs as much as 10 to 40 steps, so there are the two that are needed; small data sets first.
LENGTHS = {
    "metabolism": Length(90, 60, period=30),
    "tox21": Length(90, 60, period=30),
    "nci": Length(90, 60, period=30),
    # At the paper's learning rate of 3e-5 ProtoNet's loss stays at ln 2 for the first few hundred steps.
    "glue-scitail": Length(900, 600, period=300),
    "esc50": Length(90, 30, period=15),
    "rmnist": Length(90, 60, period=30),
    "cifar100-fs-1shot": Length(30, 20, period=10),
    "cifar100-fs-5shot": Length(30, 12, period=6),
    "mini-imagenet-s-1shot": Length(24, 6, period=3),
    "mini-imagenet-s-5shot": Length(24, 6, period=3),
}
TITLES = ("preset", "method", "steps", "loss at start", "at the end", "noise", "hyper-updates", "change of λ",
          "ms a step", "ms with hyper-update", "peak MB")  # fmt: skip


def main() -> int:
    options = arguments()
    if options.job:
        return work(json.loads(options.job))
    rows: list[CheckRow] = []
    failures: list[str] = []
    started = time.perf_counter()
    runs = [(preset, method) for preset in options.presets for method in options.methods]
    print(line(TITLES), flush=True)
    for preset, method in runs:
        row, reasons = measure(preset, method, options)
        failures += [f"{method} on {preset}: {reason}" for reason in reasons]
        if row is not None:
            rows.append(row)
            print(line(cells(row)), flush=True)
        minutes = (time.perf_counter() - started) / 60
        if options.record is not None:
            # After every run, so that whoever stops half-way keeps what was measured.
            record(options.record, rows, failures, f"{len(rows)} of {len(runs)} runs", minutes, options.note)
    print(f"{len(rows)} of {len(runs)} runs in {minutes:.1f} minutes")
    for failure in failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if failures else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--presets", nargs="+", default=list(LENGTHS), choices=list(LENGTHS), metavar="NAME")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS, metavar="NAME")
    parser.add_argument("--steps", type=int, help="steps of every run, instead of those chosen for each data set")
    parser.add_argument("--threads", type=int, default=1, help="threads of a run; 0: torch's own choice")
    parser.add_argument("--data-dir", type=Path, help="folder of prepared data (or FEWTASK_DATA)")
    parser.add_argument("--raw-dir", type=Path, help="folder of publishers' files (or FEWTASK_RAW)")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the table there, and its JSON beside it")
    parser.add_argument("--note", default="", help="a sentence for the record: how the numbers were taken")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.steps is not None and options.steps < LEAST_STEPS:
        parser.error(f"--steps must be at least {LEAST_STEPS}")
    return options


def measure(preset: str, method: str, options: argparse.Namespace) -> tuple[CheckRow | None, list[str]]:
    """The row of a run, where there is one, and what is wrong with it."""
    steps = options.steps or LENGTHS[preset].steps(method)
    job = {
        "preset": preset,
        "method": method,
        "steps": steps,
        "period": min(LENGTHS[preset].period, steps // 2),
        "threads": options.threads,
        "data_dir": None if options.data_dir is None else str(options.data_dir),
        "raw_dir": None if options.raw_dir is None else str(options.raw_dir),
    }
    # Preparation can need more memory than the run after it, and a child starts with its parent's peak on its
    # account: hence a process for each, and a parent that never loads any data.
    for stage in ("prepare", "run"):
        command = [sys.executable, str(Path(__file__).resolve()), "--job", json.dumps({"stage": stage, **job})]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            return None, [ending(done.returncode)]
    row = CheckRow(**json.loads(done.stdout))
    return row, row.problems()


def work(job: dict[str, str | int | None]) -> int:
    """What a child does: prepares the data, or runs a check and prints its row as JSON."""
    preset, method = str(job["preset"]), str(job["method"])
    data, raw = (Path(str(job[name])) if job[name] else None for name in ("data_dir", "raw_dir"))
    try:
        if job["stage"] == "prepare":
            settings = load_preset(preset, method)
            progress = progress_on(make_console(stderr=True))
            prepare(settings.dataset, settings.data, data_dir=data, raw_dir=raw, progress=progress)
            return 0
        settle_threads(int(job["threads"] or 0))
        steps, period = int(job["steps"] or 0), int(job["period"] or 0)
        row = check(preset, method, steps, period, data_dir=data, raw_dir=raw)
    except FewtaskError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(json.dumps(dataclasses.asdict(row)))
    return 0


def ending(code: int) -> str:
    if code == -signal.SIGKILL:
        return "its process was killed, most likely because memory ran out"
    return f"its process ended with {code}; what it said is above"


def cells(row: CheckRow) -> list[str]:
    return [
        row.preset,
        row.method,
        str(row.steps),
        f"{row.first_loss:.4g}",
        f"{row.last_loss:.4g}",
        f"{row.noise:.2g}",
        str(row.hyper_updates) if row.lambda_change is not None else "–",
        f"{row.lambda_change:.1e}" if row.lambda_change is not None else "–",
        f"{row.step_ms:.0f}",
        f"{row.hyper_ms:.0f}" if row.hyper_ms is not None else "–",
        f"{row.peak_mb:.0f}",
    ]


def line(values: tuple[str, ...] | list[str]) -> str:
    """A line of a Markdown table, padded so that it reads on a terminal too."""
    widths = [max(len(title), least) for title, least in zip(TITLES, (21, 18, *[0] * len(TITLES)))]
    return "| " + " | ".join(value.ljust(width) for value, width in zip(values, widths)) + " |"


def record(path: Path, rows: list[CheckRow], failures: list[str], done: str, minutes: float, note: str) -> None:
    """The page for people and the same numbers as JSON beside it."""
    threads = sorted({row.threads for row in rows})
    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "threads": threads}
    text = [
        "# Does every data set train at the paper's sizes?",
        "",
        "Written by `make check-datasets` (`benchmarks/check_datasets.py --record`). Each run uses its preset as it",
        "is; only `train.steps` and `hyper.period` are lowered. The loss is the mean training loss of the first and",
        "of the last third of the steps, `noise` the standard error of their difference. The change of λ is the",
        "largest of any of its numbers. Times are medians; a step with a hyper-update is timed as a whole. Peak",
        "memory is that of the run's own process, its data included. These runs show that the loss falls, not how",
        "well a method does.",
        "",
        f"{os.cpu_count()} cores, {platform.machine()}, {' or '.join(map(str, threads))} threads a run; "
        f"{done} in {minutes:.1f} minutes. {note}".rstrip(),
        "",
        line(TITLES),
        line(["---"] * len(TITLES)),
        *(line(cells(row)) for row in rows),
        "",
        *(f"- FAILED {failure}" for failure in failures),
    ]
    write_text(path, "\n".join(text).rstrip() + "\n")
    values = {"note": note, "done": done, "minutes": round(minutes, 2), **machine, "failures": failures}
    write_json(path.with_suffix(".json"), {**values, "rows": [dataclasses.asdict(row) for row in rows]})


if __name__ == "__main__":
    sys.exit(main())
