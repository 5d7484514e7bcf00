"""Temperatures, votes and limits against hand-made truths."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from synthetic import QUICK, many_tasks, one_task

from fewtask import MetaLearner, draw_episodes
from fewtask.auto.calibration import (
    Calibration,
    Sureness,
    agreement_of,
    cross_fitted,
    effective_shot,
    fit_sureness,
    fit_temperature,
    sobered,
    voting_factor,
)
from fewtask.auto.vote import Judgement, judge_episodes
from fewtask.learner.held_out import HeldOut, Line, assess
from fewtask.learner.model import Model
from fewtask.learner.scoring import pool_of
from fewtask.methods.adapted import Adapted
from fewtask.own.measures import calibration_error, log_loss


def too_sure(factor: float, episodes: int = 60, seed: int = 0) -> np.ndarray:
    """Log-probabilities of queries whose classes are drawn by the honest ones, given `factor` times too sharply.

    A query's class is its place, so honest scores are drawn until their class is the wanted one.
    """
    rng = np.random.default_rng(seed)
    K, Q = 3, 20
    honest = np.empty((episodes, K * Q, K))
    for e in range(episodes):
        for m in range(K * Q):
            while True:
                scores = 1.5 * rng.normal(size=K)
                chances = np.exp(scores) / np.exp(scores).sum()
                if rng.choice(K, p=chances) == m // Q:
                    break
            honest[e, m] = np.log(chances)
    return sobered(honest, 1 / factor)


def judged(log_probabilities: np.ndarray, spreads: np.ndarray | float = 1.0, voters: int = 1) -> Judgement:
    """As if a model had said it, with prototypes so far apart."""
    episodes = len(log_probabilities)
    return Judgement(
        log_probabilities, np.zeros(log_probabilities.shape[:2]), np.broadcast_to(spreads, (episodes,)), voters
    )


def test_the_temperature_undoes_what_made_predictions_too_sure() -> None:
    found = too_sure(4.0)
    temperature = fit_temperature(found)
    assert temperature == pytest.approx(4.0, rel=0.1)
    assert calibration_error(found) > 0.1
    assert calibration_error(sobered(found, temperature)) < 0.03
    # The least loss of all temperatures tried.
    tried = [log_loss(sobered(found, t)) for t in np.geomspace(0.1, 100, 200)]
    assert log_loss(sobered(found, temperature)) <= min(tried) + 1e-6


def test_a_temperature_changes_sureness_and_nothing_else() -> None:
    found = too_sure(1.0, episodes=2)
    for temperature in (0.2, 1.0, 7.0):
        cooled = sobered(found, temperature)
        np.testing.assert_allclose(np.exp(cooled).sum(-1), 1.0)
        assert np.array_equal(cooled.argmax(-1), found.argmax(-1))
        np.testing.assert_allclose(
            cooled - cooled.max(-1, keepdims=True), (found - found.max(-1, keepdims=True)) / temperature, atol=1e-9
        )


def test_doubt_is_the_share_of_labels_that_are_chance() -> None:
    """A third of the queries get a class at random: the honest answer is never surer than the rest allows."""
    found = too_sure(3.0, episodes=80)
    rng = np.random.default_rng(0)
    noisy = np.where(rng.random(found.shape[:2])[..., None] < 1 / 3, rng.permuted(found, axis=1), found)
    fitted = fit_sureness(judged(noisy))
    temperature, doubt = fitted.temperature, fitted.doubt
    # All episodes have the same spread, so nothing says that it matters.
    assert fitted.power < 0.01
    assert doubt == pytest.approx(1 / 3, abs=0.06)
    assert temperature == pytest.approx(3.0, rel=0.35)
    honest = sobered(noisy, temperature, doubt)
    np.testing.assert_allclose(np.exp(honest).sum(-1), 1.0)
    assert np.exp(honest).max() <= 1 - doubt + doubt / 3 + 1e-9
    by_hand = (1 - doubt) * np.exp(sobered(noisy, temperature)) + doubt / 3
    np.testing.assert_allclose(np.exp(honest), by_hand)
    assert calibration_error(honest) < 0.03
    assert log_loss(honest) < log_loss(sobered(noisy, fit_temperature(noisy)))


def test_each_task_is_calibrated_by_the_others() -> None:
    easy, hard = too_sure(1.0, 10), too_sure(6.0, 10, seed=1)
    tasks = np.repeat([0, 1], 10)
    found = cross_fitted(judged(np.concatenate([easy, hard])), tasks)
    np.testing.assert_allclose(found[:10], fit_sureness(judged(hard)).apply(judged(easy)))
    np.testing.assert_allclose(found[10:], fit_sureness(judged(easy)).apply(judged(hard)))
    alone = cross_fitted(judged(easy), np.zeros(10))
    np.testing.assert_allclose(alone[::2], fit_sureness(judged(easy[1::2])).apply(judged(easy[::2])))


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_the_temperature_goes_with_the_spread_of_a_task_where_log_probabilities_do(power: float) -> None:
    """Tasks that are the same but for the unit of length, which the network's log-probabilities feel by a power."""
    rng = np.random.default_rng(1)
    honest, spreads = too_sure(1.0, 60), np.exp(rng.normal(size=60))
    seen = sobered(honest, (1 / (2.0 * spreads**power))[:, None, None])
    fitted = fit_sureness(judged(seen, spreads))
    assert fitted.power == pytest.approx(power, abs=0.1)
    assert fitted.temperature == pytest.approx(2.0, rel=0.15)
    assert calibration_error(fitted.apply(judged(seen, spreads))) < 0.03
    # Another unit of length is another number, and the same calibration.
    metres = fit_sureness(judged(seen, 1e4 * spreads))
    np.testing.assert_allclose(
        metres.apply(judged(seen, 1e4 * spreads)), fitted.apply(judged(seen, spreads)), atol=0.02
    )


def test_the_temperature_of_a_vote_follows_from_how_much_its_members_agree() -> None:
    """Members see the same evidence, each with an error of its own: what is fitted on one of them serves their mean."""
    rng = np.random.default_rng(2)
    K, Q, episodes, voters = 4, 15, 120, 6
    classes = np.arange(K).repeat(Q)
    evidence = rng.normal(size=(episodes, K * Q, K))
    evidence[:, np.arange(K * Q), classes] += 1.0
    members = [evidence + rng.normal(scale=0.8, size=evidence.shape) for _ in range(voters)]
    members = [one - np.logaddexp.reduce(one, axis=-1, keepdims=True) for one in members]
    agreement = agreement_of((members[i], members[j]) for i in range(voters) for j in range(i))
    centred = [one - one.mean(-1, keepdims=True) for one in members]
    by_hand = np.corrcoef(centred[0].ravel(), centred[1].ravel())[0, 1]
    assert agreement == pytest.approx(by_hand, abs=0.02)
    fitted = fit_sureness(judged(members[0]))
    mean = np.mean(members, axis=0)
    mean = mean - np.logaddexp.reduce(mean, axis=-1, keepdims=True)
    calibration = Calibration.of({5: fitted}, {5: 1.0}, {5: agreement})
    together = calibration.apply(judged(mean, voters=voters), np.full(K, 5))
    one_for_all = fitted.apply(judged(mean))
    assert calibration_error(together) < 0.03 < calibration_error(one_for_all)
    assert log_loss(together) < log_loss(one_for_all)
    # One voter has the temperature that was fitted to one, and those that always agree are one.
    np.testing.assert_allclose(calibration.apply(judged(members[0]), np.full(K, 5)), fitted.apply(judged(members[0])))
    assert voting_factor(1.0, 6) == 1.0
    assert voting_factor(0.4, 1) == pytest.approx(1.0)
    assert voting_factor(0.4, 3) == pytest.approx(0.6)
    assert agreement_of([(members[0], members[0])]) == pytest.approx(1.0)
    assert 0 < agreement_of([(members[0], -members[0])]) < 0.1


def test_the_spread_of_a_task_is_the_mean_squared_distance_between_its_prototypes() -> None:
    points = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))
    pairs = [float((points[i] - points[j]).square().sum()) for i in range(5) for j in range(i)]
    adapted = Adapted(lambda z: z, lambda z: z, points)
    assert float(adapted.spread()) == pytest.approx(sum(pairs) / len(pairs))
    together = Adapted(lambda z: z, lambda z: z, torch.ones(3, 2))
    assert float(together.spread()) > 0


def test_shots_between_those_measured_are_interpolated() -> None:
    calibration = Calibration(
        {1: 8.0, 4: 2.0}, {1: 0.2, 4: 0.05}, {1: 3.0, 4: 3.0}, {1: 0.0, 4: 1.0}, {1: 0.25, 4: 0.25}
    )
    found = too_sure(2.0, episodes=1)
    for counts, *numbers in (([2, 2], 4.0, 0.1, 0.5), ([1, 1], 8.0, 0.2, 0.0), ([100, 100], 2.0, 0.05, 1.0)):
        # Three voters, a quarter of whose log-probabilities is common: half of the temperature.
        said = judged(found, spreads=9.0, voters=3)
        np.testing.assert_allclose(calibration.apply(said, np.array(counts)), Sureness(*numbers).apply(said, 0.5))
    halfway = Sureness(4.0, 0.1, 0.5).apply(judged(found, spreads=9.0))
    np.testing.assert_allclose(halfway, sobered(found, 12.0, 0.1))
    assert effective_shot(np.array([1, 3])) == pytest.approx(1.5)
    assert calibration.limit(np.array([2, 2])) == pytest.approx(3.0)
    np.testing.assert_allclose(Calibration().apply(judged(found, 3.0, voters=4), np.array([5, 5])), found)
    assert Calibration().limit(np.array([5, 5])) == float("inf")
    assert Calibration.from_dict(calibration.as_dict()) == calibration


def test_members_vote_by_the_mean_of_their_log_probabilities(learner: MetaLearner, tmp_path: Path) -> None:
    first = learner.fitted_model()
    other = MetaLearner(steps=10, episodes=10, settings=QUICK, random_state=1).fit(*many_tasks()).fitted_model()
    both = replace(first, members=(*first.members, *other.members), calibration=Calibration())
    X, y = one_task(100, 30)
    labels = (y[:9] == "yes").astype(np.int64)
    features = both.features(X)
    each = []
    for member in both.members:
        with torch.no_grad():
            z = member.embed(torch.from_numpy(features)).double().numpy()
        prototypes = np.stack([z[:9][labels == k].mean(0) for k in (0, 1)])
        squared = ((z[:, None] - prototypes) ** 2).sum(-1)
        each.append(-squared - np.log(np.exp(-squared).sum(1, keepdims=True)))
    mean = (each[0] + each[1]) / 2
    wanted = np.exp(mean) / np.exp(mean).sum(1, keepdims=True)
    found = both.adapt(features[:9], labels, 2).judge(features)
    np.testing.assert_allclose(np.exp(found.log_probabilities), wanted, rtol=1e-4, atol=1e-6)
    both.save(tmp_path)
    again = Model.load(tmp_path).adapt(features[:9], labels, 2).judge(features)
    assert np.array_equal(again.log_probabilities, found.log_probabilities)
    assert len(list(tmp_path.glob("model-*.safetensors"))) == 2


def test_episodes_are_judged_as_new_tasks_are(learner: MetaLearner) -> None:
    model = learner.fitted_model()
    X, y, tasks = many_tasks(2, 30)
    features = model.features(X)
    pool = pool_of(features, y, tasks, model.scale)
    plan = draw_episodes(pool, 4, 2, 3, 5, seed=0)
    found = judge_episodes(model.members, pool, plan)
    untempered = replace(model, calibration=Calibration())
    assert found.voters == len(model.members)
    for rows, log_probabilities, distances, spread in zip(
        plan.rows, found.log_probabilities, found.distances, found.spreads
    ):
        adapted = untempered.adapt(features[rows[:, :3].reshape(-1)], np.arange(2).repeat(3), 2)
        wanted = adapted.judge(features[rows[:, 3:].reshape(-1)])
        np.testing.assert_allclose(log_probabilities, wanted.log_probabilities, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(distances, wanted.distances, rtol=1e-4)
        assert spread == pytest.approx(float(wanted.spreads), rel=1e-4)


def test_rows_from_elsewhere_are_unlike_the_support(learner: MetaLearner) -> None:
    X, y = one_task(100, 60)
    classifier = learner.adapt(X[:10], y[:10])
    assert classifier.unlike_support(X[10:]).mean() < 0.2
    assert classifier.unlike_support(X[10:] * 50).mean() > 0.8


@pytest.mark.parametrize(
    ("ours", "message"),
    [(0.9, "gained 20.0 points"), (0.71, "made no difference beyond noise"), (0.5, "cost more than noise")],
)
def test_the_verdict_says_whether_learning_across_tasks_helped(ours: float, message: str) -> None:
    rows = (("protonet", ours), ("centroid", 0.6), ("logistic regression", 0.7))
    lines = [Line(shot, name, accuracy, 0.02, 0.8, 0.02, 0.1, 50) for shot in (2, 10) for name, accuracy in rows]
    found = HeldOut(tuple(lines), Calibration(), ("a",), 2).verdict("protonet", 5)
    assert message in found
    assert "with 2 examples" in found
    assert "logistic regression 70.0 ± 2.0 %" in found


def test_test_tasks_are_looked_at_and_take_no_part_in_the_calibration(learner: MetaLearner) -> None:
    """With the same tasks as test and validation, sureness differs only by who fitted the temperature."""
    X, y, tasks = many_tasks(4, 24)
    features = learner.fitted_model().features(X)
    dataset = learner.example_[1]
    pools = dataset.pools(learner.settings_.data)
    test = pool_of(features, y, tasks, learner.fitted_model().scale)
    with_test = replace(pools, splits={**pools.splits, "test": test})
    members = learner.fitted_model().members
    one = assess(members, pools, name="x", episodes=20, baselines=False)
    two = assess(members, with_test, name="x", episodes=20, baselines=False)
    assert one.calibration == two.calibration
    assert set(two.tasks) == set(tasks)
    assert set(one.tasks) == {task.name for task in pools.selection.tasks}
