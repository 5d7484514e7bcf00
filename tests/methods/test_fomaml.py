"""First-order MAML, alone and with task augmentation, against copies of the network that take gradient steps."""

from __future__ import annotations

import copy
from functools import partial

import pytest
import torch
from plain import class_loss, flat, network, normalised_like, of_set, passed, plain_fomaml
from tiny import IMAGES, random_episodes, tiny
from torch import Tensor

from fewtask.encoders.normalisation import normalising
from fewtask.episodes import Episode
from fewtask.methods import Method
from fewtask.methods.metric import mixing_weight


def plain_scores(model: Method, rows: Tensor) -> Tensor:
    """Scores of rows [K, n, ...], which are normalised by themselves."""
    return model.head(passed(model, network(model), [flat(rows)])[0])


def mixed_scores(model: Method, one: Tensor, two: Tensor, weight: float, layer: int) -> Tensor:
    with normalising(model.encoder, update=False):
        h = model.encoder.lower(torch.cat([flat(one), flat(two)]), layer)
        mixed = weight * h[: len(h) // 2] + (1 - weight) * h[len(h) // 2 :]
        return model.head(model.encoder.upper(mixed, layer))


def merged_scores(model: Method, supports: list[Tensor], pairs: str) -> Tensor:
    """Scores of φ_λ's sets, class by class."""
    K, N = supports[0].shape[:2]
    with normalising(model.encoder, update=False):
        h = model.encoder.lower(torch.cat([flat(s) for s in supports]), model.layer)
        parts = [p.view(K, N, -1) for p in h.chunk(len(supports))]
        sets = []
        for k in range(K):
            if pairs == "all" and len(parts) == 2:
                sets += [torch.stack([parts[0][k, i], parts[1][k, j]]) for i in range(N) for j in range(N)]
            else:
                sets += [torch.stack([p[k, i] for p in parts]) for i in range(N)]
        return model.head(model.encoder.upper(of_set(model, torch.stack(sets)), model.layer))


def plain_episodes(method: Method, episode: Episode) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    return plain_fomaml(
        method,
        episode.batch,
        lambda model, b: plain_scores(model, episode.support[b]),
        lambda model, b: plain_scores(model, episode.query[b]),
    )


def assert_is(method: Method, loss: Tensor, wanted: tuple[Tensor, list[Tensor], list[Tensor]]) -> None:
    torch.testing.assert_close(loss, wanted[0], rtol=1e-9, atol=1e-11)
    theta, lam = method.inner(), method.outer()
    found = torch.autograd.grad(loss, [*theta, *lam], allow_unused=True)
    for p, got, expected in zip([*theta, *lam], found, [*wanted[1], *wanted[2]]):
        torch.testing.assert_close(torch.zeros_like(p) if got is None else got, expected, rtol=1e-6, atol=1e-9)
    assert max(float(g.abs().max()) for g in wanted[1]) > 1e-6


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_the_loss_after_adaptation_is_its_transcription(steps: int) -> None:
    method = tiny("fomaml", {"adaptation": {"steps": steps}})
    (episode,) = random_episodes(method)
    assert_is(method, method.training_loss([episode]).loss, plain_episodes(method, episode))
    assert_is(method, method.validation_loss(episode), plain_episodes(method, episode))


def test_images_are_adapted_to_as_well() -> None:
    method = tiny("fomaml", {"adaptation": {"steps": 1}}, IMAGES)
    (episode,) = random_episodes(method, shape=IMAGES)
    assert_is(method, method.training_loss([episode]).loss, plain_episodes(method, episode))


@pytest.mark.parametrize("layer", [0, 1, 3])
def test_inner_steps_on_tasks_mixed_by_mlti_are_their_transcription(
    layer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = tiny("fomaml-mlti", {"interpolation": {"layer": layer}, "mixup": {"cross_task": 1.0}})
    first, second = random_episodes(method, 2, 2)
    weights: list[Tensor] = []

    def weight(alpha: float, device: torch.device, count: int) -> Tensor:
        weights.append(mixing_weight(alpha, device, count).double())
        return weights[-1]

    monkeypatch.setattr("fewtask.methods.fomaml_mlti.mixing_weight", weight)
    loss = method.training_loss([first, second]).loss
    w = weights[0].tolist()
    wanted = plain_fomaml(
        method,
        2,
        lambda model, b: mixed_scores(model, first.support[b], second.support[b], w[b], layer),
        lambda model, b: mixed_scores(model, first.query[b], second.query[b], w[b], layer),
    )
    assert_is(method, loss, wanted)


def test_without_mixing_it_is_plain_first_order_maml() -> None:
    method = tiny("fomaml-mlti", {"mixup": {"cross_task": 0.0}})
    first, second = random_episodes(method, 2, 2)
    assert_is(method, method.training_loss([first, second]).loss, plain_episodes(method, first))


@pytest.mark.parametrize("singleton_loss", [True, False])
@pytest.mark.parametrize("set_function", ["set-transformer", "deep-sets"])
@pytest.mark.parametrize(("pairs", "cardinality"), [("all", 2), ("matched", 2), ("matched", 1), ("matched", 3)])
def test_inner_steps_on_interpolated_supports_are_their_transcription(
    pairs: str, cardinality: int, set_function: str, singleton_loss: bool
) -> None:
    """Also λ's gradient through the inner steps, of which first order keeps the mixed derivative."""
    mix = {"pairs": pairs, "cardinality": cardinality, "singleton_loss": singleton_loss}
    method = tiny("fomaml-meta-interpolation", {"interpolation": mix, "set_function": {"name": set_function}})
    episodes = random_episodes(method, cardinality)
    first = episodes[0]
    wanted = plain_fomaml(
        method,
        2,
        lambda model, b: merged_scores(model, [e.support[b] for e in episodes], pairs),
        lambda model, b: plain_scores(model, first.query[b]),
        lambda model, b: plain_scores(model, first.support[b]),
    )
    assert max(float(g.abs().max()) for g in wanted[2]) > 1e-6
    if singleton_loss:
        single = plain_episodes(method, first)
        wanted = (
            0.5 * (wanted[0] + single[0]),
            [0.5 * (a + b) for a, b in zip(wanted[1], single[1])],
            [0.5 * (a + b) for a, b in zip(wanted[2], single[2])],
        )
    assert_is(method, method.training_loss(episodes).loss, wanted)


def test_lambda_out_of_the_graph_changes_the_loss_in_nothing() -> None:
    method = tiny("fomaml-meta-interpolation")
    episodes = random_episodes(method, 2)
    with_lambda = method.training_loss(episodes).loss
    for parameter in method.outer():
        parameter.requires_grad_(False)
    without = method.training_loss(episodes).loss
    torch.testing.assert_close(without, with_lambda, rtol=0, atol=0)
    slopes = [torch.autograd.grad(x, method.inner()) for x in (without, with_lambda)]
    torch.testing.assert_close(*slopes)


@pytest.mark.parametrize("name", ["fomaml", "fomaml-mlti", "fomaml-meta-interpolation"])
def test_evaluation_adapts_a_copy_of_the_network_to_each_support_set(name: str) -> None:
    method = tiny(name).eval()
    before = {key: value.clone() for key, value in method.state_dict().items()}
    (episode,) = random_episodes(method)
    got = method.logits(episode.support, episode.query.flatten(1, 2))
    for b in range(2):
        # In training mode BatchNorm takes the statistics of the rows at hand.
        model = copy.deepcopy(method).train()
        optimiser = torch.optim.SGD(model.inner(), lr=0.1)
        for _ in range(3):
            optimiser.zero_grad()
            class_loss(plain_scores(model, episode.support[b])).backward()
            optimiser.step()
        with normalised_like(model, partial(plain_scores, model, episode.support[b])):
            torch.testing.assert_close(got[b], plain_scores(model, episode.query[b]), rtol=1e-9, atol=1e-11)
    assert all(torch.equal(value, before[key]) for key, value in method.state_dict().items())
