"""The demo is a comparison: its page, its records, and what it says where matplotlib is missing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from fewtask.cli import main
from fewtask.experiments.ledger import Ledger
from fewtask.experiments.statistics import over_seeds, paired_difference
from fewtask.workers import Failure, Job, JobProgress

ROOT = Path(__file__).parents[1]
SHORT = ["--steps", "2", "--seeds", "1"]


class InProcess:
    """Carries out jobs here: starting processes is tested elsewhere."""

    def __init__(self, workers: int) -> None:
        pass

    def execute(self, jobs: Sequence[Job], progress: JobProgress) -> list[Failure]:
        for job in jobs:
            job.received(job.work())
        return []


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("fewtask.workers.LocalExecutor", InProcess)
    monkeypatch.chdir(tmp_path)


def test_the_demo_compares_two_methods_and_leaves_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--out", "here", *SHORT]) == 0
    printed = capsys.readouterr().out
    assert "2 runs, 0 in the ledger, 2 to do" in printed
    assert "All of it: here/README.md" in printed
    page = Path("here/README.md").read_text()
    assert "| ProtoNet |" in page
    assert "| Meta-Interpolation |" in page
    assert Path("here/compare-rainbow-digits.png").exists()
    assert "compare-rainbow-digits.png" in page
    assert len(list(Path("here/records").glob("rainbow-digits-*.json"))) == 2
    assert main(["compare", "rainbow-digits", "--methods", "protonet", "--ledger", "here/records", *SHORT]) == 0
    assert "1 in the ledger, 0 to do" in capsys.readouterr().out, "its runs are runs like any other"


def test_the_demo_trains_whatever_records_a_checkout_has(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["demo", "--methods", "centroid", *SHORT]
    assert main(argv) == 0
    (record,) = Path("demo/records").glob("*.json")
    elsewhere = Path("experiments/rainbow-digits/one/records")
    elsewhere.mkdir(parents=True)
    record.rename(elsewhere / record.name)
    capsys.readouterr()
    assert main(argv) == 0
    assert "0 in the ledger, 1 to do" in capsys.readouterr().out


def test_without_matplotlib_the_demo_says_so_first_and_has_its_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *rest: None)
    assert main(["demo", "--methods", "centroid", *SHORT]) == 0
    printed = capsys.readouterr().out
    assert printed.index("Without matplotlib there will be no loss curves") < printed.index("1 runs")
    assert "| Centroid (untrained) |" in Path("demo/README.md").read_text()
    assert not list(Path("demo").glob("*.png"))


def test_the_readme_shows_the_committed_runs_of_the_demo() -> None:
    ledger = Ledger(ROOT / "docs" / "demo")
    block = (ROOT / "README.md").read_text().partition("<!-- demo:begin -->")[2].partition("<!-- demo:end -->")[0]
    runs = {
        method: {record["seed"]: record for record in ledger.all() if record["method"] == method}
        for method in ("protonet", "meta-interpolation")
    }
    assert [sorted(own) for own in runs.values()] == [[0, 1, 2]] * 2
    means = [over_seeds(own) for own in runs.values()]
    for mean in (*means, paired_difference(runs["meta-interpolation"], runs["protonet"])):
        assert mean is not None
        assert f"{100 * mean.value:.2f} ± {100 * mean.interval:.2f}" in block
