"""Scores without a leak from steps to tasks, the rules of the choice, the refit, the vote."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tasks import base, dataset, pool_of_classes, pool_of_tasks

from fewtask.auto import AutoSettings, choose_for
from fewtask.auto.calibration import RIDGE
from fewtask.auto.candidates import NEVER, Candidate, candidate_settings, candidates, keeping, shares_labels
from fewtask.auto.choosing import start
from fewtask.auto.fold_run import FoldRun, Search, carry_out, fold_episodes
from fewtask.auto.refit import fold_runs, refit, refit_settings
from fewtask.auto.scores import Standing, choose, chosen_steps, difference, standing
from fewtask.auto.sureness import calibration_of, held_out_shots
from fewtask.auto.vote import judge_episodes
from fewtask.errors import RunError, SettingsError
from fewtask.files import read_json
from fewtask.methods import make_method
from fewtask.own.measures import log_loss
from fewtask.protocol import draw_episodes
from fewtask.settings import update
from fewtask.training.averaging import outer_tensors

QUICK = AutoSettings(minutes=None, folds=3, episodes=6, first_steps=20, most_steps=40)


def made(name: str, accuracies: list[float], steps: int = 100, method: str = "protonet") -> Standing:
    floor = method in ("centroid", "logistic")
    tasks = {f"task {i}": a for i, a in enumerate(accuracies)}
    return Standing(Candidate(name, method, floor=floor), tasks, (steps, steps), steps, 0.01, 0.0)


def test_each_fold_s_steps_are_those_that_the_others_prefer() -> None:
    curve = {10: [0.9, 0.1, 0.2], 20: [0.1, 0.5, 0.5], 40: [0.8, 0.3, 0.6]}
    # Without fold 0: 0.3, 1.0, 0.9; without fold 1: 1.1, 0.6, 1.4; without fold 2: 1.0, 0.6, 1.1.
    assert chosen_steps(curve) == [20, 40, 40]
    # What a fold says about itself cannot change its own steps.
    for fold in range(3):
        changed = {steps: [9.0 if f == fold and steps == 10 else a for f, a in enumerate(row)]
                   for steps, row in curve.items()}  # fmt: skip
        assert chosen_steps(changed)[fold] == chosen_steps(curve)[fold]
    assert chosen_steps({10: [0.5, 0.5], 20: [0.5, 0.5]}) == [10, 10]


def test_differences_are_paired_over_tasks() -> None:
    mean, error = difference(made("a", [0.9, 0.5, 0.7]), made("b", [0.8, 0.4, 0.5]))
    assert mean == pytest.approx((0.1 + 0.1 + 0.2) / 3)
    assert error == pytest.approx(np.std([0.1, 0.1, 0.2], ddof=1) / 3**0.5)


def test_the_best_or_the_cheapest_within_one_standard_error() -> None:
    floor = made("centroid", [0.5, 0.5, 0.5, 0.5], 0, "centroid")
    best = made("dear", [0.90, 0.70, 0.80, 0.82], 100, "fomaml")
    close = made("cheap", [0.88, 0.72, 0.79, 0.80], 100)
    apart = made("cheaper", [0.80, 0.60, 0.70, 0.71], 10)
    winner, why = choose([apart, close, floor, best], "best", 2.0)
    assert winner is best
    assert "dear beats centroid, which needs no training: +30.5" in why
    assert choose([apart, close, floor, best], "one-standard-error", 2.0)[0] is close


def test_what_does_not_beat_the_untrained_by_more_than_noise_is_not_taken() -> None:
    floors = [made("centroid", [0.60, 0.70, 0.65], 0, "centroid"), made("logistic", [0.62, 0.71, 0.66], 0, "logistic")]
    slightly = made("protonet", [0.72, 0.65, 0.70])
    winner, why = choose([*floors, slightly], "best", 2.0)
    assert winner is floors[1]
    assert "protonet does not beat logistic" in why
    clearly = made("protonet", [0.72, 0.80, 0.77])
    assert choose([*floors, clearly], "best", 2.0)[0] is clearly
    assert choose(floors, "best", 2.0)[0] is floors[1]


def test_with_labels_by_chance_nothing_is_trained(tmp_path: Path) -> None:
    few = AutoSettings(minutes=None, folds=3, episodes=60, first_steps=10, most_steps=20,
                       candidates="protonet; metamix; mean-interpolation")  # fmt: skip
    data = dataset(pool_of_tasks(6, chance=True))
    found = choose_for(data, base(), tmp_path / "chance", few, workers=1, show_progress=False)
    assert found.winner.candidate.floor
    assert "nothing is trained" in found.verdict
    assert len(found.members) == 1
    assert not found.members[0].trained


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Search:
    return start(dataset(pool_of_tasks()), base(), tmp_path_factory.mktemp("search") / "out", QUICK, "cpu")


def scored(search: Search, name: str) -> Standing:
    candidate = next(c for c in candidates(pool_of_tasks()) if c.name == name)
    for fold in range(3):
        for steps in QUICK.rungs:
            carry_out(FoldRun(search, candidate, fold, steps))
    found = standing(search, candidate, QUICK.rungs)
    assert isinstance(found, Standing)
    return found


def test_the_refit_learns_from_all_tasks_for_the_steps_of_the_folds(search: Search, tmp_path: Path) -> None:
    winner = scored(search, "protonet")
    assert winner.steps == round(float(np.mean(winner.steps_by_fold)))
    data = dataset(pool_of_tasks())
    refit(search, data, winner, tmp_path / "refit", scale=1.5, show_progress=False)
    config = read_json(tmp_path / "refit" / "config.json")
    assert config["settings"]["train"]["steps"] == round(1.5 * winner.steps)
    assert sorted(config["classes"]["train"]) == [f"task {t}" for t in range(6)]
    result = read_json(tmp_path / "refit" / "result.json")
    assert result["selected_step"] == round(1.5 * winner.steps)
    assert config["settings"]["train"]["average"] == 0.999
    assert "test" not in result


@pytest.mark.parametrize("frozen", ["average", "fold", "random"])
def test_lambda_of_the_refit_comes_from_the_folds_and_stays(search: Search, tmp_path: Path, frozen: str) -> None:
    winner = scored(search, "meta-interpolation")
    runs = fold_runs(search, winner)
    learned = [outer_tensors(run.model()) for run in runs]
    settings = refit_settings(search, winner)
    assert settings.hyper_period == NEVER
    torch.manual_seed(settings.seed)
    random = outer_tensors(make_method(settings, (12,)))
    # Folds whose λ had not moved from the start, or moved alike, would make this test say nothing.
    moved = [sum(float((one[name] - random[name]).abs().sum()) for name in random) for one in learned]
    assert min(moved) > 0
    assert len(set(moved)) == 3
    result = refit(search, dataset(pool_of_tasks()), winner, tmp_path / "run", frozen=frozen, show_progress=False)  # type: ignore[arg-type]
    kept = outer_tensors(result.method)
    for name, value in kept.items():
        wanted = {
            "average": sum(one[name] for one in learned) / 3,
            "fold": learned[0][name],
            "random": random[name],
        }[frozen]
        torch.testing.assert_close(value, wanted)
    assert result.record["hyper_updates"] == 0


def test_a_vote_is_the_mean_of_log_probabilities(search: Search) -> None:
    runs = fold_runs(search, scored(search, "protonet"))
    members = [run.model() for run in runs]
    pool = search.all_folds()[0].held_out
    episodes = draw_episodes(pool, 5, 2, 2, 3, seed=4)
    found = judge_episodes(members, pool, episodes).log_probabilities
    for e, rows in enumerate(episodes.rows):
        support, query = pool.gather(rows[:, :2]), pool.gather(rows[:, 2:].reshape(-1))
        each = []
        for member in members:
            prototypes = [member.embed(one).double().mean(0) for one in support]
            scores = torch.stack([-(member.embed(query).double() - p).pow(2).sum(1) for p in prototypes], dim=1)
            each.append(scores.log_softmax(-1))
        mean = sum(each) / len(each)
        np.testing.assert_allclose(found[e], mean.log_softmax(-1).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_sureness_is_fitted_on_held_out_tasks_of_all_folds_and_is_the_best_on_a_grid(search: Search) -> None:
    shots = held_out_shots(fold_runs(search, scored(search, "protonet")), episodes=20)
    assert [one.shot for one in shots] == [1, 2, 5, 10]
    calibration = calibration_of(shots)
    for one in shots:
        assert np.array_equal(np.unique(one.folds, return_counts=True)[1], [40, 40, 40])
        counts = np.array([one.shot, one.shot])
        loss = log_loss(calibration.apply(one.judged, counts))
        typical = np.exp(np.log(one.judged.spreads).mean())
        grid = [
            log_loss(np.logaddexp(x - np.logaddexp.reduce(x, -1, keepdims=True) + np.log1p(-d), np.log(d / 2)))
            for t in np.exp(np.linspace(-4, 4, 33))
            for d in (1e-4, 0.01, 0.05, 0.2, 0.5, 0.8)
            for power in (0.0, 0.5, 1.0)
            for x in [one.judged.log_probabilities / (t * (one.judged.spreads / typical) ** power)[:, None, None]]
        ]
        # A power is paid for: by no more than this where it is 1.
        assert loss <= min(grid) + 1e-4 + RIDGE


def test_agreement_is_that_of_the_model_that_has_not_seen_a_task_with_the_next_one(search: Search) -> None:
    runs = fold_runs(search, scored(search, "protonet"))
    one = held_out_shots(runs, episodes=6, wanted=(2,))[0]
    models, found = [run.model() for run in runs], []
    for number, fold in enumerate(search.all_folds()):
        drawn = fold_episodes(fold.held_out, runs[0].settings, 6, one.shot, one.judged.log_probabilities.shape[1] // 2)
        pair = [judge_episodes([models[k % 3]], fold.held_out, drawn).log_probabilities for k in (number, number + 1)]
        assert np.array_equal(pair[0], one.judged.log_probabilities[one.folds == number])
        # Of two classes the difference of the two log-probabilities is all there is.
        first, second = (values[..., 0] - values[..., 1] for values in pair)
        found.append((first * second).sum() / np.sqrt((first**2).sum() * (second**2).sum()))
    assert one.agreement == pytest.approx(np.clip(np.mean(found), 0.05, 1.0))


def test_classes_of_a_pool_are_cross_validated_too(tmp_path: Path) -> None:
    few = AutoSettings(minutes=None, folds=4, episodes=6, first_steps=10, most_steps=10, margin=-100.0,
                       candidates="protonet", ensemble="folds")  # fmt: skip
    found = choose_for(dataset(pool_of_classes(), 4), base(), tmp_path / "pool", few, workers=1, show_progress=False)
    assert sorted(found.winner.accuracies) == ["fold 1", "fold 2", "fold 3", "fold 4"]
    assert len(found.members) == 4
    both = AutoSettings(**{**few.__dict__, "ensemble": "both"})
    assert len(choose_for(dataset(pool_of_classes(), 4), base(), tmp_path / "pool", both, workers=1,
                          show_progress=False).members) == 5  # fmt: skip
    assert read_json(tmp_path / "pool" / "vote.json")["members"][0] == "refit/model.safetensors"


def test_candidates_follow_the_tasks() -> None:
    names = [c.name for c in candidates(pool_of_tasks())]
    assert "mean-interpolation, class by class" in names
    assert shares_labels(pool_of_tasks())
    assert "mean-interpolation, class by class" not in [c.name for c in candidates(pool_of_classes())]
    assert len({c.slug for c in candidates(pool_of_tasks())}) == len(names)
    with pytest.raises(SettingsError, match="unknown candidate 'protnet'"):
        candidates(pool_of_tasks(), ("protnet",))


@pytest.mark.parametrize("wrong", [{"folds": 1}, {"minutes": -1.0}, {"steps_scale": 0.0}, {"most_steps": 0}])
def test_options_that_make_no_sense(wrong: dict[str, float]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        AutoSettings(**wrong)  # type: ignore[arg-type]


def test_candidates_keep_what_the_user_changed_and_twins_drop_out() -> None:
    tried = candidates(pool_of_tasks())
    own = {"optimizer": {"weight_decay": 0.5}, "hyper": {"period": 7}, "data": {"seed": 9}, "train": {"steps": 5}}
    changed = update(base(), own)
    kept, told = keeping(tried, changed, own)
    settings = {candidate.name: candidate_settings(changed, candidate, 30) for candidate in kept}
    assert {one.optimizer.weight_decay for one in settings.values()} == {0.5}
    assert {one.train.steps for one in settings.values()} == {30}
    # A λ that is not to move has no period, so that the two of them stay apart.
    assert settings["meta-interpolation"].hyper.period == 7
    assert settings["meta-interpolation, frozen"].hyper.period == NEVER
    gone = {candidate.name for candidate in tried} - set(settings)
    assert gone == {"protonet, weak decay"}
    assert told == [
        "every candidate keeps optimizer.weight_decay=0.5, hyper.period=7",
        "protonet, weak decay is then protonet and is left out",
    ]
    # What no candidate would change needs no word.
    assert keeping(tried, base(), {"episode": {"shot": 5}})[1] == []


def test_a_search_with_other_settings_of_the_user_is_another(tmp_path: Path) -> None:
    data = dataset(pool_of_tasks())
    start(data, base(), tmp_path / "out", QUICK, "cpu", {"optimizer": {"lr": base().optimizer.lr}})
    with pytest.raises(RunError, match="other settings or tasks"):
        start(data, base(), tmp_path / "out", QUICK, "cpu")
