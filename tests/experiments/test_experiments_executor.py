"""Processes on this machine: killed, failing, interrupted and started again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from grid_helpers import Heard, job, small, without_times

from fewtask.experiments.campaign import Places, carry_out
from fewtask.experiments.grid import PlannedRun, gather
from fewtask.experiments.ledger import Ledger
from fewtask.experiments.worker import Job, run_one
from fewtask.workers import Failure, LocalExecutor

# Ctrl-C is heard even where the tests themselves run in the background, with SIGINT ignored.
CALL = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from fewtask.cli import main; sys.exit(main(sys.argv[1:]))"
)


def wait_for(condition: Callable[[], Any], in_vain: Callable[[], bool] = lambda: False) -> None:
    """Until something has happened, however slow the machine is; or can no longer happen."""
    while not condition():
        assert not in_vain(), "waited in vain"
        time.sleep(0.005)


@contextmanager
def killed_once(wanted: Job) -> Iterator[list[int]]:
    """Within the block the process of a run is killed when it has saved its first checkpoint; gives its number."""
    folder = wanted.work_dir / wanted.run.folder
    killed: list[int] = []
    over = threading.Event()

    def kill() -> None:
        while not over.wait(0.005):
            if (folder / "checkpoint.safetensors").exists():
                killed.append(int(folder.with_name(f"{folder.name}.lock").read_text()))
                os.kill(killed[0], signal.SIGKILL)
                return

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield killed
    finally:
        over.set()
        killer.join()


def test_a_killed_worker_is_started_again_from_its_checkpoint_and_ends_with_the_same_record(
    tmp_path: Path, undisturbed: dict[str, dict[str, Any]]
) -> None:
    wanted = job(small("meta-interpolation"), tmp_path)
    heard = Heard(1)
    with killed_once(wanted) as killed:
        failures = LocalExecutor(workers=1).execute([wanted], heard)
    assert failures == []
    assert killed
    assert heard.again == [wanted.run.stem]
    # It went on rather than started over: no step is reported from before the checkpoint at step 5.
    steps = [step for _, step in heard.steps]
    assert steps.count(5) <= 1
    assert steps[-1] == 60
    record = Ledger(wanted.ledger_dir).read(wanted.run.settings)
    assert without_times(record) == undisturbed["meta-interpolation"]
    assert not (wanted.work_dir / wanted.run.folder).exists()


def test_a_run_that_keeps_dying_or_fails_is_reported_with_the_reason_and_the_rest_go_on(tmp_path: Path) -> None:
    dying = job(small(), tmp_path)
    wrong = job(small("meta-interpolation", changes={"interpolation": {"layer": 9}}), tmp_path)
    last = job(small("centroid"), tmp_path)
    heard = Heard(3)
    with killed_once(dying):
        failures = LocalExecutor(workers=2, retries=0).execute([dying, wrong, last], heard)
    reasons = {failure.job: failure.reason for failure in failures}
    assert set(reasons) == {dying, wrong}
    assert "died 1 times" in reasons[dying]
    assert "layer 9 does not exist" in reasons[wrong]
    assert heard.again == []
    assert heard.done == [last.run.stem]


class InProcess:
    """An executor without processes, for what does not need them."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def execute(self, jobs: Sequence[Job], progress: Any) -> list[Failure]:
        for one in jobs:
            self.jobs.append(one)
            run_one(one)
        return []


def test_finished_runs_are_not_done_again(tmp_path: Path) -> None:
    places = Places(tmp_path / "ledger", tmp_path / "work")
    short = {"train": {"steps": 5}}
    runs = [PlannedRun("rainbow-digits", small(seed=seed, changes=short)) for seed in (0, 1)]

    assert carry_out(runs[:1], places, InProcess(), show=False) == []
    ledger = Ledger(places.ledger)
    (path,) = places.ledger.glob("*.json")
    written = path.stat().st_mtime_ns
    lacking = [run for run in runs if gather(runs, ledger, 2).lacks(run, test=True)]
    assert lacking == runs[1:]
    # Nor by a worker that comes second, whoever sent it.
    assert carry_out(runs, places, InProcess(), show=False) == []
    assert path.stat().st_mtime_ns == written
    assert all(map(ledger.has, (run.settings for run in runs)))


def test_weights_wait_for_meta_test_where_it_was_left_out(tmp_path: Path) -> None:
    settings = small(changes={"train": {"steps": 20}})
    record = run_one(job(settings, tmp_path, test=False))
    assert "test" not in record
    weights = next((tmp_path / "work").glob("*/model.safetensors"))
    before = weights.stat().st_mtime_ns
    steps: list[int] = []
    tested = run_one(job(settings, tmp_path), on_step=steps.append)
    # Nothing was trained again.
    assert steps == []
    assert before
    assert tested["validation"] == record["validation"]
    assert tested["test"]["episodes"] == 40
    assert not weights.exists()
    whole = run_one(job(settings, tmp_path / "other"))
    assert without_times(whole) == without_times(tested)


def test_data_that_cannot_be_had_fail_their_runs_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fewtask.presets import load_preset

    monkeypatch.delenv("FEWTASK_RAW", raising=False)
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    places = Places(tmp_path / "ledger", tmp_path / "work", tmp_path / "data", nothing)
    runs = [
        PlannedRun("nci", load_preset("nci", "protonet")),
        PlannedRun("rainbow-digits", small("centroid")),
    ]
    failures = carry_out(runs, places, InProcess(), show=False)
    assert [failure.job.run for failure in failures] == runs[:1]
    assert Ledger(places.ledger).has(runs[1].settings)


def test_ctrl_c_saves_the_runs_under_way_which_go_on_to_the_same_record(
    tmp_path: Path, undisturbed: dict[str, dict[str, Any]]
) -> None:
    settings = small("meta-interpolation")
    ledger = Ledger(tmp_path / "ledger")
    changes = ["validate_every=20", "validation_episodes=24", "log_every=5", "checkpoint_every=5"]
    flags = [f"train.{change}" for change in changes] + ["evaluation.episodes=40", "hyper.period=10", "hyper.terms=2"]
    flags += ["encoder.width=8", "set_function.hidden=16"]
    command = [sys.executable, "-c", CALL, "compare", "rainbow-digits", "--methods", "meta-interpolation"]
    command += ["--seeds", "1", "--steps", "60", "--set", *flags]
    command += ["--ledger", str(ledger.folder), "--work-dir", str(tmp_path / "work")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: list((tmp_path / "work").glob("*/checkpoint.safetensors")), lambda: process.poll() is not None)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert "run the same command to go on" in errors
    assert not ledger.has(settings)
    assert list((tmp_path / "work").glob("*/checkpoint.safetensors"))
    steps: list[int] = []
    record = run_one(job(settings, tmp_path), on_step=steps.append)
    assert min(steps) > 5
    assert without_times(record) == undisturbed["meta-interpolation"]


def test_runs_under_way_save_their_state_and_stop_when_the_grid_is_killed(tmp_path: Path) -> None:
    flags = ["train.checkpoint_every=50", "train.validation_episodes=24", "evaluation.episodes=40"]
    command = [sys.executable, "-c", CALL, "compare", "rainbow-digits", "--methods", "protonet"]
    command += ["--seeds", "1", "--steps", "100000", "--workers", "1", "--set", *flags]
    command += ["--ledger", str(tmp_path / "ledger"), "--work-dir", str(tmp_path / "work")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: list((tmp_path / "work").glob("*/checkpoint.safetensors")), lambda: process.poll() is not None)
    lock = next((tmp_path / "work").glob("*.lock"))
    worker = int(lock.read_text())
    process.kill()
    process.wait()

    def gone() -> bool:
        try:
            os.kill(worker, 0)
        except ProcessLookupError:
            return True
        # An orphan that nobody waits for stays in the table as a zombie.
        status = Path(f"/proc/{worker}/stat")
        return status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z"

    wait_for(gone)
    assert Ledger(tmp_path / "ledger").all() == []
    assert list((tmp_path / "work").glob("*protonet*/checkpoint.safetensors"))
