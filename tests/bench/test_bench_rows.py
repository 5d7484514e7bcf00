"""What steps of an experiment's rows cost: means in turns, updates of λ shared out, kept beside the experiment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fewtask.bench import rows as rows_module
from fewtask.bench.rows import mean_seconds, row_costs
from fewtask.cli import main
from fewtask.experiments.declared import read_experiment

SMALL = """
asks = "?"
role = "ablation"
looked_at = "Nothing."
preset = "rainbow-digits"
test = false
reference = "ProtoNet"
set = { "train.steps" = 40, "encoder.width" = 4, "set_function.hidden" = 8, "episode.query" = 1, "hyper.terms" = 1 }
[[rows]]
title = "ProtoNet"
method = "protonet"
[[rows]]
title = "learned"
method = "meta-interpolation"
set = { "hyper.period" = 10 }
[[rows]]
title = "left alone"
method = "meta-interpolation"
set = { "hyper.period" = 50 }
"""


@pytest.fixture
def declared(tmp_path: Path) -> Path:
    folder = tmp_path / "experiments" / "rainbow-digits" / "small-phi"
    folder.mkdir(parents=True)
    (folder / "experiment.toml").write_text(SMALL)
    return folder


def test_means_are_over_rounds_after_a_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    spent = iter([1.0, 10.0, 3.0, 30.0])

    def clocked(work: object) -> float:
        assert callable(work)
        work()
        return next(spent)

    monkeypatch.setattr(rows_module, "processor_seconds", clocked)
    found = mean_seconds({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 0.0, 2)
    assert found == {"a": 2.0, "b": 20.0}
    assert calls == ["a", "b"] * 3


def test_a_step_has_its_share_of_an_update_and_a_random_lambda_has_none(
    declared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Four steps of a row: 4, 8 and 8 seconds; a step with its update: 12.
    monkeypatch.setattr(
        rows_module,
        "mean_seconds",
        lambda works, seconds, least: (
            {"learned": 12.0} if len(works) == 1 else {"ProtoNet": 4.0, "learned": 8.0, "left alone": 8.0}
        ),
    )
    costs = row_costs(read_experiment(declared), 0.0)["rows"]
    assert costs["ProtoNet"]["cost"] == 1.0
    assert costs["learned"] == {"step": 2.0, "update": 10.0, "period": 10.0, "cost": 3.0}
    assert costs["left alone"] == {"step": 2.0, "update": 0.0, "period": 50.0, "cost": 2.0}


def test_the_command_measures_and_keeps_the_costs_beside_the_experiment(
    declared: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(declared.parents[2])
    assert main(["bench", "--rows", "rainbow-digits/small-phi", "--seconds", "0"]) == 0
    assert "what a step costs" in capsys.readouterr().out
    rows = json.loads((declared / "costs.json").read_text())["rows"]
    assert set(rows) == {"ProtoNet", "learned", "left alone"}
    assert rows["learned"]["update"] > 0.0
    assert main(["bench", "--rows", "rainbow-digits/small-fi", "--seconds", "0"]) == 1
    assert "rainbow-digits/small-phi" in capsys.readouterr().err
