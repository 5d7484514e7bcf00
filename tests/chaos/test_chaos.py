"""The short form of `make chaos`: changed files; kills are in test_resume and test_experiments_executor."""

from __future__ import annotations

import importlib.util
import json
import sys
import warnings
from pathlib import Path
from types import ModuleType

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="module")
def chaos() -> ModuleType:
    """The program, which has the name of another."""
    spec = importlib.util.spec_from_file_location("chaos_run", Path(__file__).parent / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_reader_answers_a_changed_file_with_a_traceback(tmp_path: Path) -> None:
    for module in ("soundfile", "PIL", "rdkit"):
        pytest.importorskip(module)
    from fuzz import fuzz
    from targets import all_targets

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


def test_fuzzing_goes_on_where_it_was_stopped(
    chaos: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import targets
    from fuzz import Target

    seen: list[bytes] = []
    fragile = Target("fragile", "a.txt", b"12345", lambda path: int(seen.append(path.read_bytes()) or seen[-1]))
    monkeypatch.setattr(targets, "all_targets", lambda folder: [fragile])
    monkeypatch.setattr(chaos, "AT_ONCE", 20)
    arguments = ["--only", "fuzz", "--state", str(tmp_path), "--no-page", "--fuzz"]
    assert chaos.main([*arguments, "30"]) == 1
    assert len(seen) == 30
    assert chaos.main([*arguments, "70"]) == 1
    assert len(seen) == 70
    assert seen[:20] != seen[30:50], "each portion has changes of its own"
    done = json.loads((tmp_path / "fuzz.json").read_text())
    assert done["tried"] == 70
    assert done["lost"] == sum(not content.strip().isdigit() for content in seen)
    assert list(tmp_path.glob("lost-fragile-*")), "what a reader fails on is kept"
    chaos.main([*arguments, "10", "--anew"])
    assert len(seen) == 80


def test_a_victim_that_forgets_what_it_had_is_found_out(tmp_path: Path) -> None:
    from kills import Kills, kill
    from victims import Victim

    counter = tmp_path / "starts"

    def command(folder: Path) -> list[str]:
        counter.write_text(counter.read_text() + "." if counter.exists() else ".")
        return ["--version"]

    forgetful = Victim("forgetful", command, lambda folder: {"starts": len(counter.read_text())})
    done = kill(forgetful, 1, tmp_path / "victims", Kills(), seed=0)
    assert done.lost == done.runs > 0
    faithful = Victim("faithful", command, lambda folder: {"always": 1})
    done = kill(faithful, 1, tmp_path / "others", Kills(), seed=0)
    assert done.tried == 1
    assert done.lost == 0


def test_figures_go_between_the_marks_of_the_page_and_nowhere_else(chaos: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "trust.md"
    page.write_text("before\n<!-- chaos: begin -->\nold\n<!-- chaos: end -->\nafter\n")
    kept = chaos.Kept(tmp_path / "state")
    kept.write("kills-train", {"tried": 200, "runs": 40, "lost": 1, "seconds": 1.0})
    kept.write("fuzz", {"portion": 1, "readers": 3, "tried": 1000, "refused": 900, "lost": 0, "seconds": 1.0})
    chaos.write(chaos.rows_of(kept), page)
    text = page.read_text()
    assert "| kills of `train`, at any moment | 200 | 199 | 1 |" in text
    assert "| changed files, 3 readers | 1,000 | 1,000 | 0 |" in text
    assert "old" not in text
    assert text.startswith("before\n<!-- chaos: begin -->")
    assert text.endswith("<!-- chaos: end -->\nafter\n")
