"""A real Ray cluster of two workers on this machine, one of which is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from grid_helpers import Heard, job, small, without_times
from test_experiments_executor import killed_once

from fewtask.errors import RunError
from fewtask.experiments.ledger import Ledger
from fewtask.workers import RayExecutor

pytest.importorskip("ray", reason="the package ray is not installed")


def test_ray_survives_a_killed_worker_reports_a_failure_and_gives_the_same_records_as_local_processes(
    tmp_path: Path, undisturbed: dict[str, dict[str, Any]]
) -> None:
    wanted = [job(small(method), tmp_path) for method in undisturbed]
    wrong = job(small("meta-interpolation", changes={"interpolation": {"layer": 9}}), tmp_path)
    heard = Heard(3)
    with killed_once(wanted[1]) as killed:
        failures = RayExecutor(workers=2).execute([*wanted, wrong], heard)
    assert killed
    assert [failure.job for failure in failures] == [wrong]
    assert "layer 9 does not exist" in failures[0].reason
    assert sorted(heard.done) == sorted(one.run.stem for one in wanted)
    ledger = Ledger(tmp_path / "ledger")
    for method, record in undisturbed.items():
        assert without_times(ledger.read(small(method))) == record


def test_a_cluster_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"127\.0\.0\.1:1"):
        RayExecutor(address="127.0.0.1:1").execute([job(small(), tmp_path)], Heard(1))
