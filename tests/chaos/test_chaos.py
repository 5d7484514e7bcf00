"""The short form of `make chaos`: changed files; kills are in test_resume and test_experiments_executor."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def test_no_reader_answers_a_changed_file_with_a_traceback(tmp_path: Path) -> None:
    for module in ("soundfile", "PIL", "rdkit"):
        pytest.importorskip(module)
    from fuzz import all_targets, fuzz

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        targets = all_targets(tmp_path)
        outcomes = fuzz(targets, 25 * len(targets), tmp_path, seed=1)
    assert {name: outcome.tracebacks for name, outcome in outcomes.items() if outcome.tracebacks} == {}
    assert all(outcome.tried == 25 for outcome in outcomes.values())
    assert sum(outcome.refused for outcome in outcomes.values()) > 100


def test_a_reader_with_a_fault_is_found_out(tmp_path: Path) -> None:
    from fuzz import Target, fuzz

    fragile = Target("fragile", "a.txt", b"12345", lambda path: int(path.read_bytes()))
    outcome = fuzz([fragile], 50, tmp_path)["fragile"]
    assert outcome.lost > 10
    assert outcome.lost + outcome.refused <= outcome.tried


def test_figures_go_between_the_marks_of_the_page_and_nowhere_else(tmp_path: Path) -> None:
    page = tmp_path / "trust.md"
    page.write_text("before\n<!-- chaos: begin -->\nold\n<!-- chaos: end -->\nafter\n")
    import importlib.util

    spec = importlib.util.spec_from_file_location("chaos_run", Path(__file__).parent / "run.py")
    assert spec is not None
    assert spec.loader is not None
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    run.write([("kills", 200, 1, "note")], page)
    text = page.read_text()
    assert "| kills | 200 | 1 | note |" in text
    assert "old" not in text
    assert text.startswith("before\n<!-- chaos: begin -->")
    assert text.endswith("<!-- chaos: end -->\nafter\n")
