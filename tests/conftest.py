"""What tests of data share: publishers' files, or small ones in their layouts, and one cache a session."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Before torch is imported, here and in child processes: runs that are compared bit for bit must use as many threads,
# and the sizes of tests gain nothing from more than one.
os.environ.setdefault("OMP_NUM_THREADS", "1")
NO_FILES = "FEWTASK_RAW names no folder of publishers' files"


@pytest.fixture(scope="session")
def raw_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The publishers' files where FEWTASK_RAW says, one folder a data set; elsewhere small ones in their layouts."""
    named = os.environ.get("FEWTASK_RAW")
    if named:
        return Path(named)
    from made_raw import make_all

    return make_all(tmp_path_factory.mktemp("raw") / "made")


@pytest.fixture(scope="session")
def publishers_dir() -> Path:
    """The publishers' files alone, for tests of what only they hold: counts of their rows, what a network heard."""
    named = os.environ.get("FEWTASK_RAW")
    if not named:
        pytest.skip(NO_FILES)
    return Path(named)


@pytest.fixture(scope="session")
def prepared_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder for the whole session, so that each data set is prepared once."""
    return tmp_path_factory.mktemp("prepared")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Names every test that did not run, and what it lacked."""
    skipped = terminalreporter.stats.get("skipped", [])
    if not skipped:
        return
    terminalreporter.section(f"{len(skipped)} tests did not run")
    for report in skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        terminalreporter.line(f"{report.nodeid}: {reason.removeprefix('Skipped: ')}")
    if any(NO_FILES in str(report.longrepr) for report in skipped):
        terminalreporter.line("Set FEWTASK_RAW to a folder with the publishers' files, one sub-folder a data set.")
