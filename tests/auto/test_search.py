"""The search keeps its budget by a clock of the test's own, goes on where it was killed, and grows runs exactly."""

from __future__ import annotations

import dataclasses
import itertools
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from tasks import base, dataset, pool_of_tasks

from fewtask.auto import AutoSettings, choose_for, fold_run
from fewtask.auto.candidates import Candidate, candidate_settings, candidates
from fewtask.auto.choosing import start
from fewtask.auto.fold_run import FoldRun, Search, carry_out
from fewtask.auto.halving import Budget, halve, survivors
from fewtask.auto.rungs import rungs_for
from fewtask.auto.scores import Standing, standing
from fewtask.errors import RunError
from fewtask.files import read_json, read_tensors, write_json
from fewtask.workers import InlineExecutor

FEW = AutoSettings(
    minutes=None, folds=3, episodes=8, first_steps=10, most_steps=40,
    candidates="protonet; protonet, weak decay; mean-interpolation; metamix",
)  # fmt: skip


class HandClock:
    """Moves only when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def search(tmp_path: Path) -> Search:
    return start(dataset(pool_of_tasks()), base(), tmp_path / "out", FEW, "cpu")


def made_up(monkeypatch: pytest.MonkeyPatch, clock: HandClock, seconds: float, order: list[FoldRun]) -> None:
    """Runs that take so many seconds a step and are as good as their candidate's place in the list."""
    known = [c.name for c in candidates(pool_of_tasks(), FEW.wanted)]

    def run(run: FoldRun, deadline: float | None, at: Any, on_step: Any) -> dict[str, Any]:
        before = 0 if run.steps == 10 else run.steps // 2
        for _ in range(0 if run.candidate.floor else run.steps - before):
            clock.now += seconds
            if deadline is not None and clock.now > deadline:
                raise fold_run.BudgetSpentError("over")
        order.append(run)
        accuracy = 0.9 - 0.1 * known.index(run.candidate.name)
        return {"steps": run.steps, "seconds": seconds * run.steps, "accuracy": accuracy, "loss": 1.0,
                "tasks": {f"task {run.fold}": accuracy}}  # fmt: skip

    monkeypatch.setattr(fold_run, "_train_and_score", run)


def test_each_rung_keeps_the_better_half_and_all_folds_of_it(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, order = HandClock(), list[FoldRun]()
    made_up(monkeypatch, clock, 0.0, order)
    tried = candidates(pool_of_tasks(), FEW.wanted)
    halve(search, tried, FEW.rungs, InlineExecutor(), Budget(None, clock), 1, print, show=False)
    by_rung = {steps: [run for run in order if run.steps == steps] for steps in FEW.rungs}
    trained = [c.name for c in tried if not c.floor]
    assert [len(runs) for runs in by_rung.values()] == [3 * len(tried), 3 * 2, 3 * 1]
    # The made-up accuracy falls along the list.
    assert {run.candidate.name for run in by_rung[20]} == set(trained[:2])
    assert {run.candidate.name for run in by_rung[40]} == set(trained[:1])
    assert sorted(run.fold for run in by_rung[40]) == [0, 1, 2]


@pytest.mark.parametrize("minutes", [1.0, 2.0, 3.0, 5.0])
def test_the_budget_is_kept_with_the_refit_in_it(
    search: Search, monkeypatch: pytest.MonkeyPatch, minutes: float
) -> None:
    """One second a step: rung 1 takes 120 s, rung 2 60 s for two candidates, rung 3 60 s for one, a refit 10 to 40."""
    clock, order = HandClock(), list[FoldRun]()
    made_up(monkeypatch, clock, 1.0, order)
    tried = candidates(pool_of_tasks(), FEW.wanted)
    budget = Budget(60 * minutes, clock)
    found = halve(search, tried, FEW.rungs, InlineExecutor(), budget, 1, print, show=False)
    trained = [one for one in found.standings if not one.candidate.floor]
    refit = max((one.steps for one in trained), default=0)
    assert clock.now + refit <= 60 * minutes + 1
    assert len(trained) == {1.0: 1, 2.0: 3, 3.0: 4, 5.0: 4}[minutes]
    assert max(one.reached for one in trained) == {1.0: 10, 2.0: 10, 3.0: 20, 5.0: 40}[minutes]
    assert len(found.unreached) == 4 - len(trained)


def test_time_that_an_earlier_attempt_used_counts(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, order = HandClock(), list[FoldRun]()
    made_up(monkeypatch, clock, 1.0, order)
    tried = candidates(pool_of_tasks(), FEW.wanted)
    halve(search, tried, FEW.rungs, InlineExecutor(), Budget(160.0, clock), 1, print, show=False)
    assert len(order) == 3 * len(tried)
    halve(search, tried, FEW.rungs, InlineExecutor(), Budget(160.0, clock, spent=clock.now), 1, print, show=False)
    assert len(order) == 3 * len(tried)


def test_a_run_that_is_too_dear_for_what_is_left_is_not_begun(search: Search) -> None:
    """With time for one candidate's next rung and its refit, the second of the better half is left behind."""
    names = [c for c in candidates(pool_of_tasks(), FEW.wanted) if not c.floor]
    runs = [FoldRun(search, c, f, 10) for c in names for f in range(3)]
    for run in runs:
        accuracy = 0.9 - 0.1 * names.index(run.candidate)
        run.folder.mkdir(parents=True)
        score = {"steps": 10, "seconds": 10.0, "wall": 10.0, "accuracy": accuracy, "tasks": {str(run.fold): accuracy}}
        write_json(run.score_path, score)
    # Three folds of ten more steps, and twenty of the refit: 50 s for one, 80 s for two.
    kept = [survivors(search, names, [10], Budget(left, HandClock()), 1) for left in (49, 51, 79, 81)]
    assert [[c.name for c in one] for one in kept] == [
        [],
        [names[0].name],
        [names[0].name],
        [c.name for c in names[:2]],
    ]


def test_a_longer_run_continues_the_shorter_as_if_it_had_never_stopped(search: Search) -> None:
    for candidate in candidates(pool_of_tasks()):
        if candidate.name in ("protonet", "meta-interpolation", "mlti"):
            for steps in (10, 20):
                carry_out(FoldRun(search, candidate, 0, steps))
            grown = FoldRun(search, candidate, 0, 20)
            whole = FoldRun(search, Candidate(f"{candidate.name} at once", candidate.method, candidate.changes,
                                              learns_lambda=candidate.learns_lambda), 0, 20)  # fmt: skip
            carry_out(whole)
            one, two = (read_tensors(run.model_path)[0] for run in (grown, whole))
            assert one.keys() == two.keys()
            assert all(torch.equal(one[name], two[name]) for name in one), candidate.name
            assert grown.score()["tasks"] == whole.score()["tasks"]  # type: ignore[index]


def test_killed_anywhere_the_same_call_ends_as_if_nothing_had_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = dataset(pool_of_tasks())
    few = AutoSettings(minutes=None, folds=2, episodes=4, first_steps=10, most_steps=20, margin=-100.0,
                       candidates="protonet; metamix")  # fmt: skip
    wanted = choose_for(data, base(), tmp_path / "whole", few, workers=1, show_progress=False)
    from fewtask.training import loop

    step, count = loop.training_step, [0]

    def dies(state: Any) -> Any:
        count[0] += 1
        if count[0] in (7, 25, 58, 85):
            raise KeyboardInterrupt
        return step(state)

    monkeypatch.setattr(loop, "training_step", dies)
    for _ in range(4):
        with pytest.raises(KeyboardInterrupt):
            choose_for(data, base(), tmp_path / "killed", few, workers=1, show_progress=False)
    found = choose_for(data, base(), tmp_path / "killed", few, workers=1, show_progress=False)
    assert found.winner.accuracies == wanted.winner.accuracies
    assert found.verdict == wanted.verdict
    for one, two in zip(found.members, wanted.members, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), two.state_dict().values(), strict=True))
    # Nothing that had been finished was done again: lost are at most the runs under way.
    steps = 2 * 2 * 10 + 2 * 10 + found.winner.steps
    assert count[0] <= steps + 4 * 10


def test_a_folder_of_another_search_is_refused(tmp_path: Path, search: Search) -> None:
    with pytest.raises(RunError, match="other settings or tasks"):
        start(dataset(pool_of_tasks(seed=1)), base(), search.folder, FEW, "cpu")
    assert start(dataset(pool_of_tasks()), base(), search.folder, FEW, "cpu") == search
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("x")
    with pytest.raises(RunError, match="not empty"):
        start(dataset(pool_of_tasks()), base(), tmp_path / "full", FEW, "cpu")


def test_a_candidate_that_cannot_be_is_left_out_with_its_reason(tmp_path: Path) -> None:
    """Two tasks: one to learn from, so nothing can be merged and no λ learned."""
    few = AutoSettings(minutes=None, folds=5, episodes=4, first_steps=5, most_steps=5,
                       candidates="protonet; mean-interpolation; meta-interpolation")  # fmt: skip
    found = choose_for(dataset(pool_of_tasks(2), 1), base(), tmp_path / "two", few, workers=1, show_progress=False)
    assert set(found.outcome.failed) == {"mean-interpolation", "meta-interpolation"}
    assert "too few tasks" in found.outcome.failed["meta-interpolation"]
    text = (tmp_path / "two" / "leaderboard.csv").read_text()
    assert "cannot be: " in text
    assert text.count("chosen") == 1


def test_nothing_but_the_number_of_steps_depends_on_it() -> None:
    for candidate in candidates(pool_of_tasks()):
        short, long = (candidate_settings(base(), candidate, steps) for steps in (10, 80))
        assert short.hyper_period == long.hyper_period
        assert (short.optimizer.schedule, short.hyper.schedule) == ("constant", "constant")


def test_where_a_candidate_stands_while_folds_are_missing(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, order = HandClock(), list[FoldRun]()
    made_up(monkeypatch, clock, 0.0, order)
    candidate = candidates(pool_of_tasks(), FEW.wanted)[-1]
    for fold in (0, 1):
        carry_out(FoldRun(search, candidate, fold, 10), clock=clock)
    assert standing(search, candidate, FEW.rungs) is None
    carry_out(FoldRun(search, candidate, 2, 10), clock=clock)
    carry_out(FoldRun(search, candidate, 0, 20), clock=clock)
    found = standing(search, candidate, FEW.rungs)
    assert isinstance(found, Standing)
    assert found.reached == 10
    assert read_json(FoldRun(search, candidate, 0, 20).score_path)["steps"] == 20


@pytest.mark.parametrize(("seconds", "first"), [(0.001, 40), (0.05, 40), (0.1, 29), (0.2, 20), (9.0, 20)])
def test_the_first_rung_is_shorter_where_it_would_take_most_of_the_time(
    search: Search, seconds: float, first: int
) -> None:
    """A step of all four costs 4.7 of ProtoNet's, in three folds; 42 of the 105 seconds are for the first rung."""
    options = dataclasses.replace(FEW, minutes=105 / 60, first_steps=40, most_steps=200)
    tried = candidates(pool_of_tasks(), FEW.wanted)
    assert sum(c.cost for c in tried) == pytest.approx(4.7)
    rungs = rungs_for(search, tried, options, 1, lambda search: seconds)
    assert rungs[0] == first
    assert all(later == 2 * earlier for earlier, later in itertools.pairwise(rungs))
    assert rungs[-1] <= 200
    # A search that goes on has the rungs that it began with, however fast the machine is by then.
    assert rungs_for(search, tried, options, 1, lambda search: 1e-6) == rungs


def test_a_search_that_was_killed_before_its_first_run_starts_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    begun = start(dataset(pool_of_tasks()), base(), out, FEW, "cpu")
    (out / "auto.json").unlink()
    (out / ".auto.json.17.part").write_text("{")
    again = start(dataset(pool_of_tasks()), base(), out, FEW, "cpu")
    assert again == begun
    assert (out / "auto.json").exists()
    (out / "auto.json").unlink()
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(RunError, match="is not empty and holds no search"):
        start(dataset(pool_of_tasks()), base(), out, FEW, "cpu")


def test_weights_that_are_made_again_leave_the_score_alone(search: Search, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed meanwhile, a finished search would have lost a candidate."""
    run = FoldRun(search, candidates(pool_of_tasks(), FEW.wanted)[0], 0, 10)
    score = carry_out(run)
    weights = {name: value.clone() for name, value in run.model().state_dict().items()}
    run.model_path.unlink()
    with monkeypatch.context() as patched:
        patched.setattr(fold_run, "make_method", lambda *args: (_ for _ in ()).throw(RuntimeError("killed")))
        with pytest.raises(RuntimeError, match="killed"):
            run.model()
    assert run.score() == score
    again = run.model().state_dict()
    assert all(torch.equal(again[name], value) for name, value in weights.items())


def test_a_run_that_the_worker_of_a_killed_search_is_still_saving_is_waited_for(
    search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = FoldRun(search, candidates(pool_of_tasks(), FEW.wanted)[0], 0, 10)
    lock = run.folder.with_name(".0.lock")
    seen = []

    def watched(*args: Any) -> dict[str, Any]:
        seen.append(lock.read_text())
        return {"steps": 10, "seconds": 0.0, "accuracy": 0.5, "loss": 1.0, "tasks": {"a": 0.5}}

    monkeypatch.setattr(fold_run, "_train_and_score", watched)
    carry_out(run)
    assert seen == [str(os.getpid())]
    assert not lock.exists()
