"""MLTI as its authors' code has it, and the scale of distances, against plain transcriptions."""

from __future__ import annotations

from functools import partialmethod
from typing import Any

import pytest
import torch
from plain import (
    plain_episode_loss,
    plain_metamix_loss,
    plain_metareg_loss,
    plain_mlti_loss,
    plain_query_pair_loss,
)
from tiny import Draws, assert_same, random_episodes, tiny

from fewtask.episodes import Episode
from fewtask.methods import Step

NORMALISATIONS = pytest.mark.parametrize("normalisation", ["episode", "joint"])


@NORMALISATIONS
@pytest.mark.parametrize("layer", [0, 1, 3])
def test_queries_mixed_with_other_queries_are_their_transcription(
    layer: int, normalisation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {
        "interpolation": {"layer": layer},
        "mixup": {"within_task": 1.0, "cross_task": 0.0, "within": "query"},
        "model": {"normalisation": normalisation},
    }
    method = tiny("mlti", changes)
    episodes = random_episodes(method, 2, 2)
    draws = Draws(monkeypatch)
    torch.manual_seed(4)
    got = method.training_loss(episodes).loss
    torch.manual_seed(4)
    torch.rand(())  # the coin
    partner = torch.rand(2, 6).argsort(dim=1)
    assert_same(method, got, plain_query_pair_loss(method, episodes[0], layer, partner, draws.weights[0]))


def test_a_task_mixed_with_itself_has_its_classes_paired_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    method = tiny("mlti", {"mixup": {"within_task": 1.0, "cross_task": 0.0, "within": "classes"}})
    first, second = random_episodes(method, 2, 2)
    draws = Draws(monkeypatch)
    torch.manual_seed(4)
    got = method.training_loss([first, second]).loss
    torch.manual_seed(4)
    torch.rand(())  # the coin
    order = torch.rand(2, 3).argsort(dim=1)
    assert not torch.equal(order, torch.arange(3).expand(2, 3))
    rows = [torch.stack([x[b][order[b]] for b in range(2)]) for x in (first.support, first.query)]
    itself = Episode(rows[0], rows[1], first.tasks, first.classes)
    assert_same(method, got, plain_mlti_loss(method, first, itself, 1, draws.weights[0].tolist()))


def test_each_episode_may_throw_its_own_coin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Normalised by itself an episode's loss does not depend on its neighbours: the batch is the mean of singles."""
    changes = {
        "mixup": {"coin": "episode", "cross_task": 0.4, "within_task": 0.3},
        "model": {"normalisation": "episode"},
        "episode": {"batch": 6},
    }
    method = tiny("mlti", changes)
    episodes = random_episodes(method, 2, 2)
    draws = Draws(monkeypatch)
    torch.manual_seed(1)
    got = method.training_loss(episodes).loss
    torch.manual_seed(1)
    coins = torch.rand(6)
    branches = [0 if c < 0.4 else 1 if c < 0.7 else 2 for c in coins.tolist()]
    assert set(branches) == {0, 1, 2}
    weights = [iter(w) for w in draws.weights]
    total = torch.zeros((), dtype=torch.float64)
    within = [b for b in range(6) if branches[b] == 1]
    for b in range(6):
        one, two = (e.take(torch.tensor([b])) for e in episodes)
        if branches[b] == 0:
            loss = plain_mlti_loss(method, one, two, 1, [float(next(weights[0]))])
        elif branches[b] == 1:
            place = within.index(b)
            partner = draws.integers[0][place : place + 1]
            loss = plain_metamix_loss(method, one, 1, partner, draws.weights[1].view(len(within), 6)[place][None])
        else:
            loss = plain_episode_loss(method, one)
        total = total + loss / 6
    assert_same(method, got, total)


def test_coins_of_episodes_fall_as_often_as_the_settings_say(monkeypatch: pytest.MonkeyPatch) -> None:
    mixup = {"coin": "episode", "cross_task": 0.5, "within_task": 0.2}
    method = tiny("mlti", {"mixup": mixup, "episode": {"batch": 5}})
    counts = dict.fromkeys(("cross_task_loss", "mixed_query_loss", "episode_loss"), 0)

    def count(self: Any, first: Episode, *others: Episode, branch: str) -> Step:
        counts[branch] += first.batch
        return Step(torch.ones(()).double(), torch.ones(()))

    for branch in counts:
        monkeypatch.setattr(type(method), branch, partialmethod(count, branch=branch))
    torch.manual_seed(0)
    steps = [method.training_loss(random_episodes(method, 2, 2)) for _ in range(1000)]
    assert all(float(step.loss) == pytest.approx(1.0) for step in steps), "the shares of a step add up to one"
    for branch, share in (("cross_task_loss", 0.5), ("mixed_query_loss", 0.2), ("episode_loss", 0.3)):
        assert abs(counts[branch] / 5000 - share) < 0.03


SCALES = [{"scale": 0.1}, {"scale_by": "dimension"}, {"scale": 0.3, "scale_by": "learned"}]


@pytest.mark.parametrize("model", SCALES)
@pytest.mark.parametrize("name", ["protonet", "metareg", "metamix", "mlti"])
def test_the_scale_multiplies_the_distances_of_every_method(
    name: str, model: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    method = tiny(name, {"model": model, "mixup": {"cross_task": 1.0}})
    first, second = random_episodes(method, 2, 2)
    draws = Draws(monkeypatch)
    got = method.training_loss([first, second]).loss
    wanted = {
        "protonet": lambda: plain_episode_loss(method, first),
        "metareg": lambda: plain_metareg_loss(method, first),
        "metamix": lambda: plain_metamix_loss(method, first, 1, draws.integers[0], draws.weights[0].view(2, 6)),
        "mlti": lambda: plain_mlti_loss(method, first, second, 1, draws.weights[0].tolist()),
    }[name]()
    assert_same(method, got, wanted)
    assert (method.log_scale is not None) == (model.get("scale_by") == "learned")
    assert method.log_scale is None or any(p is method.log_scale for p in method.inner())


@pytest.mark.parametrize("name", ["centroid", "fomaml"])
def test_nothing_is_scaled_where_nothing_is_trained_or_a_head_gives_the_scores(name: str) -> None:
    scaled, plain = (tiny(name, {"model": model}) for model in ({"scale": 0.1, "scale_by": "learned"}, {}))
    episode = random_episodes(plain)[0]
    rows = [m.logits(m.embed(episode.support.flatten(0, 2)).unflatten(0, (2, 3, 2)),
                     m.embed(episode.query.flatten(0, 2)).unflatten(0, (2, 6))) for m in (scaled, plain)]  # fmt: skip
    torch.testing.assert_close(*rows)
