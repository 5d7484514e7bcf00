"""What pytest says in the end of tests that did not run."""

from __future__ import annotations

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

# By its file: other folders have a conftest too.
CONFTEST = runpy.run_path(str(Path(__file__).parent / "conftest.py"))
NO_FILES, summarise = CONFTEST["NO_FILES"], CONFTEST["pytest_terminal_summary"]


class Terminal:
    def __init__(self, *reports: Any) -> None:
        self.stats = {"skipped": list(reports)} if reports else {}
        self.lines: list[str] = []

    def section(self, title: str) -> None:
        self.lines.append(title)

    def line(self, text: str) -> None:
        self.lines.append(text)


def test_every_test_that_did_not_run_is_named_with_what_it_lacks() -> None:
    lacks = SimpleNamespace(nodeid="tests/a.py::one", longrepr=("a.py", 3, f"Skipped: {NO_FILES}"))
    other = SimpleNamespace(nodeid="tests/b.py::two", longrepr=("b.py", 9, "Skipped: Chromium is not installed"))
    shown = Terminal(lacks, other)
    summarise(shown)
    assert shown.lines[0] == "2 tests did not run"
    assert f"tests/a.py::one: {NO_FILES}" in shown.lines
    assert "tests/b.py::two: Chromium is not installed" in shown.lines
    assert shown.lines[-1].startswith("Set FEWTASK_RAW to a folder")
    quiet = Terminal()
    summarise(quiet)
    assert quiet.lines == []
