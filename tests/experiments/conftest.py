"""Undisturbed runs that the tests of both executors are compared with."""

from __future__ import annotations

from typing import Any

import pytest
from grid_helpers import Heard, job, small, without_times

from fewtask.experiments.ledger import Ledger
from fewtask.workers import LocalExecutor

METHODS = ("protonet", "meta-interpolation")


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Records, without their times, of small runs that nothing happened to: {method: record}."""
    folder = tmp_path_factory.mktemp("undisturbed")
    jobs = [job(small(method), folder) for method in METHODS]
    assert LocalExecutor(workers=2).execute(jobs, Heard(2)) == []
    ledger = Ledger(folder / "ledger")
    return {method: without_times(ledger.read(small(method))) for method in METHODS}
