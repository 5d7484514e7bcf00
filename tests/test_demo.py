"""The demo is a comparison: its page, its records, and what it says where matplotlib is missing."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from fewtask.cli import main
from fewtask.cli.demo import METHODS, SEEDS, demo_table, findings, readme_table
from fewtask.experiments.declared import find_experiment
from fewtask.experiments.grid import cell_settings
from fewtask.experiments.ledger import Ledger, run_digest
from fewtask.experiments.statistics import Mean
from fewtask.experiments.summary import CellResult, Summary
from fewtask.presets import load_preset
from fewtask.workers import Failure, Job, JobProgress

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


def test_the_demo_compares_best_with_best_at_few_tasks_and_at_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--out", "here", *SHORT]) == 0
    printed = capsys.readouterr().out
    assert "8 runs, 0 in the ledger, 8 to do" in printed
    assert "All of it: here/README.md" in printed
    for tasks in ("4 training tasks of 5 rows", "16 training tasks of all rows"):
        untrained = rf"With {tasks}, against ProtoNet: Centroid \(untrained\) is \w+ by \d"
        assert re.search(untrained, printed)
    page = Path("here/README.md").read_text()
    assert page.index("## 4 training tasks of 5 rows") < page.index("## 16 training tasks of all rows")
    for title in ("Centroid (untrained)", "ProtoNet", "Mean interpolation", "Meta-Interpolation"):
        assert page.count(f"| {title} |") == 2
    assert Path("here/demo.png").exists()
    assert "(demo.png)" in page
    records = Ledger("here/records").all()
    assert sorted(record["settings"]["data"]["train_tasks"] or 16 for record in records) == [4] * 4 + [16] * 4
    chosen = load_preset("rainbow-digits-best", "protonet")
    assert {
        record["settings"]["optimizer"]["weight_decay"] for record in records if record["method"] == "protonet"
    } == {chosen.optimizer.weight_decay}
    argv = ["compare", "rainbow-digits-best", "--methods", "protonet", "--ledger", "here/records", *SHORT]
    assert main([*argv, "--set", "train.validate_every=250"]) == 0
    assert "1 in the ledger, 0 to do" in capsys.readouterr().out, "its runs are runs like any other"


def test_the_runs_of_the_demo_are_those_of_its_declared_experiment() -> None:
    experiment = find_experiment("rainbow-digits/demo", Path(__file__).parents[1] / "experiments")
    assert experiment is not None
    assert experiment.seeds == SEEDS
    declared = [run_digest(cell_settings(cell, 2)) for table in experiment.tables for cell in table.cells]
    assert [run_digest(cell_settings(cell, 2)) for cell in demo_table(list(METHODS)).cells] == declared


def test_the_demo_says_who_is_ahead_and_whether_it_is_clear() -> None:
    table = demo_table(["protonet", "mean-interpolation"])
    behind = (None, Mean(-0.04, 0.01, 3, "seeds"), None, Mean(0.02, 0.03, 3, "seeds"))
    accuracy = Mean(0.8, 0.1, 3, "seeds")
    results = [CellResult(cell, 3, accuracy, own, {}, *[None] * 6) for cell, own in zip(table.cells, behind)]
    summary = Summary(table, "test", tuple(results), 3)
    few = (
        "With 4 training tasks of 5 rows, against ProtoNet: Mean interpolation is ahead by 4.00 ± 1.00 points, clearly."
    )
    many = (
        "With 16 training tasks of all rows, against ProtoNet: Mean interpolation is behind by 2.00 ± 3.00 points, "
        "within chance."
    )
    assert findings(summary) == [few, many]
    head, _, protonet, mean, *rest = readme_table(summary).splitlines()
    assert (
        head
        == "| test % | "
        + " | ".join(
            f"{column} | minus ProtoNet" for column in ("4 training tasks of 5 rows", "16 training tasks of all rows")
        )
        + " |"
    )
    assert protonet == "| ProtoNet | 80.00 ± 10.00 (3) |  | 80.00 ± 10.00 (3) |  |"
    assert mean == "| Mean interpolation | 80.00 ± 10.00 (3) | +4.00 ± 1.00 | 80.00 ± 10.00 (3) | -2.00 ± 3.00 |"
    assert rest == ["", f"{few} {many}"]


def test_the_demo_trains_whatever_records_a_checkout_has(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["demo", "--methods", "centroid", *SHORT]
    assert main(argv) == 0
    elsewhere = Path("experiments/rainbow-digits/one/records")
    elsewhere.mkdir(parents=True)
    for record in Path("demo/records").glob("*.json"):
        record.rename(elsewhere / record.name)
    capsys.readouterr()
    assert main(argv) == 0
    assert "0 in the ledger, 2 to do" in capsys.readouterr().out


def test_without_matplotlib_the_demo_says_so_first_and_has_its_page(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *rest: None)
    assert main(["demo", "--methods", "centroid", *SHORT]) == 0
    printed = capsys.readouterr().out
    assert printed.index("Without matplotlib there will be no loss curves") < printed.index("2 runs")
    assert "| Centroid (untrained) |" in Path("demo/README.md").read_text()
    assert not list(Path("demo").glob("*.png"))
