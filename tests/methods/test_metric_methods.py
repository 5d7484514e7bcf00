"""ProtoNet, MetaReg, MetaMix, MLTI and Centroid against their plain transcriptions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from plain import plain_episode_loss, plain_metamix_loss, plain_metareg_loss, plain_mlti_loss
from tiny import FEATURES, IMAGES, Draws, assert_same, random_episodes, tiny, toy_pool

from fewtask.encoders.normalisation import normalising
from fewtask.evaluation import evaluate, prepare
from fewtask.methods import METHODS
from fewtask.methods.metric import mixing_weight, prototype_logits
from fewtask.pool import Dataset
from fewtask.protocol import draw_episodes
from fewtask.sampler import EpisodeSampler

NORMALISATIONS = pytest.mark.parametrize("normalisation", ["episode", "joint"])


@NORMALISATIONS
@pytest.mark.parametrize("distance", ["squared-euclidean", "euclidean"])
@pytest.mark.parametrize("name", ["protonet", "protonet-st"])
def test_the_loss_of_plain_episodes_is_its_transcription(name: str, normalisation: str, distance: str) -> None:
    method = tiny(name, {"model": {"normalisation": normalisation, "distance": distance}})
    (episode,) = random_episodes(method)
    assert_same(method, method.training_loss([episode]).loss, plain_episode_loss(method, episode))


def test_the_accuracy_of_a_step_counts_queries_nearest_to_their_own_prototype() -> None:
    method = tiny("protonet")
    (episode,) = random_episodes(method)
    support, query = (x.detach() for x in method.encode(episode))
    right = 0
    for b, k, q in ((b, k, q) for b in range(2) for k in range(3) for q in range(2)):
        distances = [(query[b, 2 * k + q] - support[b, c].mean(0)).norm() for c in range(3)]
        right += min(range(3), key=lambda c: float(distances[c])) == k
    assert float(method.training_loss([episode]).accuracy) == pytest.approx(right / 12)


def test_the_penalty_of_metareg_weighs_each_single_weight() -> None:
    method = tiny("metareg")
    (episode,) = random_episodes(method)
    assert_same(method, method.training_loss([episode]).loss, plain_metareg_loss(method, episode))
    assert method.bilevel
    assert [c.shape for c in method.outer()] == [p.shape for p in method.inner()]
    assert min(float(c.detach().min()) for c in method.outer()) < 0
    before = [c.clone() for c in method.outer()]
    method.project()
    for old, new in zip(before, method.outer()):
        assert torch.equal(new, torch.where(old > 0, old, torch.zeros_like(old)))
    # The validation loss has no penalty, so that λ's gradient is all indirect.
    torch.testing.assert_close(method.validation_loss(episode), plain_episode_loss(method, episode))


def test_metareg_starts_with_the_coefficient_of_the_settings() -> None:
    from fewtask.methods import make_method
    from fewtask.settings import RunSettings, update

    method = make_method(update(RunSettings(method="metareg"), {"metareg": {"initial": 0.25}}), FEATURES)
    assert all(bool((c == 0.25).all()) for c in method.outer())


@NORMALISATIONS
@pytest.mark.parametrize("layer", [0, 1, 2, 3])
@pytest.mark.parametrize("name", ["metamix", "mlti"])
def test_queries_mixed_with_support_rows_are_their_transcription(
    name: str, layer: int, normalisation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MetaMix, and MLTI's branch within a task."""
    changes = {
        "interpolation": {"layer": layer},
        "mixup": {"within_task": 1.0, "cross_task": 0.0},
        "model": {"normalisation": normalisation},
    }
    method = tiny(name, changes)
    episodes = random_episodes(method, 2, 2)
    draws = Draws(monkeypatch)
    got = method.training_loss(episodes).loss
    (weight,), (partner,) = draws.weights, draws.integers
    assert_same(method, got, plain_metamix_loss(method, episodes[0], layer, partner, weight.view(2, 6)))


@NORMALISATIONS
@pytest.mark.parametrize("layer", [0, 1, 2, 3])
def test_two_tasks_mixed_by_mlti_are_their_transcription(
    layer: int, normalisation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {
        "interpolation": {"layer": layer},
        "mixup": {"cross_task": 1.0},
        "model": {"normalisation": normalisation},
    }
    method = tiny("mlti", changes)
    first, second = random_episodes(method, 2, 2)
    draws = Draws(monkeypatch)
    got = method.training_loss([first, second]).loss
    assert_same(method, got, plain_mlti_loss(method, first, second, layer, draws.weights[0].tolist()))


def test_a_random_layer_is_any_up_to_the_chosen_one(monkeypatch: pytest.MonkeyPatch) -> None:
    method = tiny("mlti", {"interpolation": {"layer": 2}, "mixup": {"cross_task": 1.0, "random_layer": True}})
    first, second = random_episodes(method, 2, 2)
    draws, layers = Draws(monkeypatch), set()
    for _ in range(12):
        draws.weights.clear(), draws.integers.clear()
        got = method.training_loss([first, second]).loss
        layer = int(draws.integers[0])
        layers.add(layer)
        assert_same(method, got, plain_mlti_loss(method, first, second, layer, draws.weights[0].tolist()))
    assert layers == {0, 1, 2}


@NORMALISATIONS
def test_cutmix_pastes_one_rectangle_of_the_partner(normalisation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"mixup": {"cross_task": 1.0, "cutmix": True, "alpha": 2.0}, "model": {"normalisation": normalisation}}
    method = tiny("mlti", changes, IMAGES)
    first, second = random_episodes(method, 2, 2, IMAGES)
    draws = Draws(monkeypatch)
    got = method.training_loss([first, second]).loss
    places = [int(x) for x in draws.integers]
    centres = list(zip(places[::2], places[1::2]))
    assert len(centres) == 4, "support and queries of each of two episodes have a rectangle of their own"
    assert_same(method, got, plain_mlti_loss(method, first, second, 0, draws.weights[0].tolist(), centres))


def test_mlti_takes_each_branch_as_often_as_its_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    method = tiny("mlti", {"mixup": {"cross_task": 0.5, "within_task": 0.2}})
    for branch in ("cross_task_loss", "mixed_query_loss", "episode_loss"):
        monkeypatch.setattr(type(method), branch, lambda self, *episodes, branch=branch: branch)
    torch.manual_seed(0)
    taken = [method.training_loss(random_episodes(method, 2, 2)) for _ in range(3000)]
    for branch, share in (("cross_task_loss", 0.5), ("mixed_query_loss", 0.2), ("episode_loss", 0.3)):
        assert abs(taken.count(branch) / 3000 - share) < 0.04


@pytest.mark.parametrize("sharing", [True, False])
@pytest.mark.parametrize(
    ("name", "group", "queries"), [("mlti", "mixup", 2), ("meta-interpolation", "interpolation", 0)]
)
def test_tasks_that_share_labels_are_mixed_class_by_class(name: str, group: str, queries: int, sharing: bool) -> None:
    method = tiny(name, {group: {"label_sharing": sharing}, "episode": {"batch": 40}})
    pool = toy_pool()
    one, two = method.draw(EpisodeSampler(pool, 0))
    assert (one.tasks != two.tasks).all()
    assert (one.queries, two.queries) == (2, queries)
    same = ((one.classes % 3) == (two.classes % 3)).all(dim=1)
    assert bool(same.all()) if sharing else 0 < int(same.sum()) < 20


@pytest.mark.parametrize("alpha", [0.5, 2.0])
def test_mixing_weights_follow_the_beta_distribution(alpha: float) -> None:
    torch.manual_seed(0)
    weights = mixing_weight(alpha, torch.device("cpu"), 20000).double()
    assert weights.min() >= 0
    assert weights.max() <= 1
    assert float(weights.mean()) == pytest.approx(0.5, abs=0.01)
    assert float(weights.var()) == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.03)


@pytest.mark.parametrize("preparation", ["raw", "standardised", "unit"])
def test_the_centroid_is_the_nearest_mean_of_prepared_rows(preparation: str) -> None:
    method = tiny("centroid", {"centroid": {"preparation": preparation}})
    pool = toy_pool()
    method.prepare(pool, lambda: 0.0)
    rows = pool.rows.double()
    if preparation == "standardised":
        rows = (rows - rows.mean(0)) / rows.std(0)
    if preparation == "unit":
        rows = rows / rows.norm(dim=1, keepdim=True)
    episodes = draw_episodes(pool, 10, 3, 2, 3, 0)
    right = []
    for index in episodes.rows:
        prototypes = [rows[index[k, :2]].mean(0) for k in range(3)]
        for k in range(3):
            for i in index[k, 2:]:
                right.append(min(range(3), key=lambda c: float((rows[i] - prototypes[c]).norm())) == k)
    assert evaluate(method, pool, episodes).accuracy == pytest.approx(sum(right) / len(right), abs=1e-6)
    torch.testing.assert_close(method.embed(pool.gather(torch.arange(5).numpy()).double()), rows[:5])
    assert not method.trained


def test_the_centroid_chooses_its_preparation_on_validation_tasks() -> None:
    """One feature is large noise: standardising helps, length and raw values do not."""
    torch.manual_seed(0)
    pool = toy_pool(rows=30)
    for c, index in enumerate(pool.class_rows):
        pool.rows[index] += 3 * F.one_hot(torch.tensor(c % 3), 6)
    pool.rows[:, 5] *= 1000
    method = tiny("centroid", {"train": {"validation_episodes": 60}, "evaluation": {"query": 5}})
    prepare(method, Dataset("toy", pool, pool).pools(method.settings.data))
    assert int(method.choice) == 1


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(4)), st.sampled_from(["squared-euclidean", "euclidean"]), st.integers(0, 2**31))
def test_renaming_the_classes_permutes_the_scores(order: list[int], distance: Any, seed: int) -> None:
    torch.manual_seed(seed)
    prototypes, queries = torch.randn(2, 4, 3).double(), torch.randn(2, 5, 3).double()
    scores = prototype_logits(prototypes, queries, distance)
    for b, m, k in ((b, m, k) for b in range(2) for m in range(5) for k in range(4)):
        length = (queries[b, m] - prototypes[b, k]).norm()
        torch.testing.assert_close(scores[b, m, k], -(length**2 if distance == "squared-euclidean" else length))
    torch.testing.assert_close(prototype_logits(prototypes[:, order], queries, distance), scores[..., order])


@pytest.mark.parametrize("name", sorted(set(METHODS) - {"centroid"}))
def test_every_method_labels_the_same_whatever_the_classes_are_called(name: str) -> None:
    method = tiny(name).eval()
    if hasattr(method, "head"):
        torch.nn.init.zeros_(method.head.weight), torch.nn.init.zeros_(method.head.bias)  # no class is special
    (episode,) = random_episodes(method)
    embedded = [method.embed(x.flatten(0, 2)).unflatten(0, x.shape[:3]) for x in (episode.support, episode.query)]
    queries = embedded[1].flatten(1, 2)
    order = [2, 0, 1]
    scores = method.logits(embedded[0], queries)
    torch.testing.assert_close(method.logits(embedded[0][:, order], queries), scores[..., order])
    # Scores that were all alike would pass as well.
    assert len(torch.unique(scores.round(decimals=9))) > 3


@pytest.mark.parametrize("name", ["metamix", "mlti"])
@pytest.mark.parametrize("clean", [True, False])
def test_mixed_features_stay_out_of_running_statistics(name: str, clean: bool) -> None:
    """The BatchNorm above the cut sees mixtures; it may learn from them only where the settings allow it."""
    method = tiny(name, {"mixup": {"cross_task": 1.0}, "model": {"clean_statistics": clean}})
    episodes = random_episodes(method, 2, 2)
    above = method.encoder.layers[1][1]
    expected = above.running_mean.clone()
    if name == "metamix":  # the support passes as it is, and moves them
        rows = torch.cat([episodes[0].support.flatten(1, 2), episodes[0].query.flatten(1, 2)], dim=1)
        with normalising(method.encoder, update=False):
            h = method.encoder.lower(rows.flatten(0, 1), 1).view(2, 12, -1)[:, :6]
        expected = 0.9 * expected + 0.1 * method.encoder.layers[1][0](h.flatten(0, 1)).mean(0)
    method.training_loss(episodes)
    assert torch.allclose(above.running_mean, expected) == clean
