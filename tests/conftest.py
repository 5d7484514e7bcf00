"""What tests of real data share: the publishers' files, where they are at hand, and one cache a session."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Before torch is imported, here and in child processes: runs that are compared bit for bit must use as many threads,
# and the sizes of tests gain nothing from more than one.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def raw_dir() -> Path:
    """The publishers' files, one folder a data set, where FEWTASK_RAW says; tests that need them skip without it."""
    named = os.environ.get("FEWTASK_RAW")
    if not named:
        pytest.skip("FEWTASK_RAW names no folder of publishers' files")
    return Path(named)


@pytest.fixture(scope="session")
def prepared_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder for the whole session, so that each data set is prepared once."""
    return tmp_path_factory.mktemp("prepared")
