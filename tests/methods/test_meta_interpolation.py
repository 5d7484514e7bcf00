"""Meta-Interpolation against its plain transcription, with all its knobs."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain import of_set, plain_episode_loss, plain_hypergradient, plain_meta_interpolation_loss
from tiny import FEATURES, IMAGES, assert_same, random_episodes, tiny, toy_pool
from torch import Tensor

from fewtask.encoders.normalisation import EpisodeBatchNorm
from fewtask.episodes import Episode
from fewtask.errors import SettingsError
from fewtask.hypergradient import hypergradient
from fewtask.methods import Method, make_method
from fewtask.methods.meta_interpolation import MetaInterpolation
from fewtask.methods.metric import class_mean
from fewtask.settings import RunSettings, update

STRATEGIES = ("support", "query", "support+query", "support+noise")
COMBINATIONS = [
    (strategy, pairs, cardinality)
    for strategy, pairs, cardinality in itertools.product(STRATEGIES, ("all", "matched"), range(1, 6))
    if not (pairs == "all" and cardinality > 2) and not (strategy == "support+noise" and cardinality != 2)
]


def with_group(changes: dict[str, Any], shape: tuple[int, ...] = FEATURES) -> tuple[Method, list[Episode]]:
    method = tiny("meta-interpolation", changes, shape)
    mixes_queries = method.settings.interpolation.strategy in ("query", "support+query")
    queries = method.settings.episode.query if mixes_queries else 0
    return method, random_episodes(method, 1 + method.partners, queries, shape)


def noise_of(method: Method, episodes: list[Episode], seed: int) -> Tensor | None:
    """The noise that the next training loss draws, and torch's generator as it was before."""
    torch.manual_seed(seed)
    if method.settings.interpolation.strategy != "support+noise":
        return None
    first = episodes[0]
    drawn = torch.randn(first.batch, first.way, first.shot, method.encoder.width(method.layer), dtype=torch.float64)
    torch.manual_seed(seed)
    return drawn


def assert_is_plain(method: Method, episodes: list[Episode]) -> None:
    noise = noise_of(method, episodes, 7)
    assert_same(method, method.training_loss(episodes).loss, plain_meta_interpolation_loss(method, episodes, noise))


@pytest.mark.parametrize("normalisation", ["episode", "joint"])
@pytest.mark.parametrize("set_function", ["set-transformer", "deep-sets"])
@pytest.mark.parametrize("singleton_loss", [True, False])
@pytest.mark.parametrize(("strategy", "pairs", "cardinality"), COMBINATIONS)
def test_the_training_loss_is_its_transcription(
    strategy: str, pairs: str, cardinality: int, singleton_loss: bool, set_function: str, normalisation: str
) -> None:
    mix = {"strategy": strategy, "pairs": pairs, "cardinality": cardinality, "singleton_loss": singleton_loss}
    changes = {
        "interpolation": mix,
        "set_function": {"name": set_function},
        "model": {"normalisation": normalisation},
    }
    assert_is_plain(*with_group(changes))


@pytest.mark.parametrize("encoder", ["mlp", "residual-mlp", "text-head"])
@pytest.mark.parametrize("layer", [0, 1, 2, 3])
def test_every_layer_of_every_encoder_can_be_interpolated(encoder: str, layer: int) -> None:
    assert_is_plain(*with_group({"encoder": {"name": encoder, "width": 8}, "interpolation": {"layer": layer}}))


@pytest.mark.parametrize("layer", [0, 2, 4])
@pytest.mark.parametrize("distance", ["squared-euclidean", "euclidean"])
def test_images_are_flattened_at_the_cut_and_take_their_shape_again(layer: int, distance: str) -> None:
    changes = {"interpolation": {"layer": layer}, "model": {"distance": distance, "normalisation": "episode"}}
    assert_is_plain(*with_group(changes, IMAGES))


@pytest.mark.parametrize("bilevel", [True, False])
@pytest.mark.parametrize("name", ["meta-interpolation", "protonet-st"])
def test_the_loss_is_the_same_whether_lambda_is_trained_on_validation_tasks_or_jointly(
    name: str, bilevel: bool
) -> None:
    method = tiny(name, {"interpolation": {"bilevel": bilevel}})
    assert (method.bilevel, method.joint) == (bilevel, not bilevel)
    inner, outer = ({id(p) for p in ps} for ps in (method.inner(), method.outer()))
    assert inner | outer == {id(p) for p in method.parameters()}
    assert not inner & outer
    episodes = random_episodes(method, 2)
    plain = plain_meta_interpolation_loss if name == "meta-interpolation" else lambda m, e: plain_episode_loss(m, e[0])
    assert_same(method, method.training_loss(episodes).loss, plain(method, episodes))


@pytest.mark.parametrize("name", ["meta-interpolation", "protonet-st", "protonet"])
@pytest.mark.parametrize("normalisation", ["episode", "joint"])
def test_the_validation_loss_is_that_of_singletons_and_leaves_statistics_alone(name: str, normalisation: str) -> None:
    method = tiny(name, {"model": {"normalisation": normalisation}})
    before = [b.clone() for b in method.buffers()]
    (episode,) = random_episodes(method)
    assert_same(method, method.validation_loss(episode), plain_episode_loss(method, episode))
    assert all(torch.equal(a, b) for a, b in zip(before, method.buffers()))


@pytest.mark.parametrize("terms", [0, 1, 5])
def test_one_graph_gives_the_hypergradient_that_computing_everything_again_gives(terms: int) -> None:
    method, episodes = with_group({"model": {"normalisation": "episode"}})
    (validation,) = random_episodes(method, seed=9)
    theta, lam = method.inner(), method.outer()
    slopes = torch.autograd.grad(method.training_loss(episodes).loss, theta, create_graph=True)
    got = hypergradient(
        "neumann",
        lambda: method.training_loss(episodes).loss,
        method.validation_loss(validation),
        theta,
        lam,
        step=0.01,
        terms=terms,
        train_grad=slopes,
    )
    wanted = plain_hypergradient(
        lambda: plain_meta_interpolation_loss(method, episodes),
        lambda: plain_episode_loss(method, validation),
        theta,
        lam,
        0.01,
        terms,
    )
    for a, b in zip(got, wanted):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-9)


def prototypes(method: Method, support: list[Tensor], pairs: str) -> Tensor:
    mix = replace(method.settings.interpolation, pairs=pairs)
    method.settings = replace(method.settings, interpolation=mix)
    return class_mean(method.upper_mixed(support))


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(2, 3), st.integers(0, 2**31))
def test_prototypes_of_all_pairs_equal_a_brute_force_double_loop(shot: int, batch: int, way: int, seed: int) -> None:
    """Eq. 3, pair by pair, with normalisation frozen."""
    method = tiny("meta-interpolation", {"episode": {"shot": shot, "batch": batch, "way": way}}).eval()
    episodes = random_episodes(method, 2, seed=seed)
    support, _ = method.lower(episodes)
    got = prototypes(method, support, "all")
    for b, k in itertools.product(range(batch), range(way)):
        total = torch.zeros(method.encoder.embedding, dtype=torch.float64)
        for i, j in itertools.product(range(shot), range(shot)):
            one = method.encoder.lower(episodes[0].support[b, k, i : i + 1], method.layer)
            two = method.encoder.lower(episodes[1].support[b, k, j : j + 1], method.layer)
            total += method.encoder.upper(of_set(method, torch.stack([one, two], dim=1)), method.layer)[0]
        torch.testing.assert_close(got[b, k], total / shot**2)


def test_matched_prototypes_are_those_of_all_pairs_in_expectation() -> None:
    """Over all matchings of three rows, with normalisation frozen and without dropout."""
    method = tiny("meta-interpolation", {"episode": {"shot": 3}}).eval()
    support, _ = method.lower(random_episodes(method, 2))
    matched = [
        prototypes(method, [support[0], support[1][:, :, list(order)]], "matched")
        for order in itertools.permutations(range(3))
    ]
    wanted = prototypes(method, support, "all")
    torch.testing.assert_close(torch.stack(matched).mean(dim=0), wanted)
    assert (matched[0] - wanted).abs().max() > 1e-4


def test_lambda_takes_no_part_in_thetas_ordinary_backward() -> None:
    method, episodes = with_group({})
    for parameter in method.outer():
        parameter.requires_grad_(False)
    loss = method.training_loss(episodes).loss
    leaves, todo, seen = set(), [loss.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves.add(id(node.variable))
        todo += [following for following, _ in node.next_functions]
    assert leaves == {id(p) for p in method.inner()}
    loss.backward()
    assert all(p.grad is None for p in method.outer())


def statistics(method: Method) -> list[Tensor]:
    layers = [m for m in method.modules() if isinstance(m, EpisodeBatchNorm)]
    return [t.clone() for layer in layers for t in (layer.running_mean, layer.running_var)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_running_statistics_come_from_passes_without_interpolation(strategy: str) -> None:
    """With the cut between two BatchNorms, only the second can see interpolated features."""
    after = {}
    for clean in (True, False):
        method, episodes = with_group({"interpolation": {"strategy": strategy}, "model": {"clean_statistics": clean}})
        method.training_loss(episodes)
        after[clean] = statistics(method)
    expected, episodes = with_group({"interpolation": {"strategy": strategy}})
    support, query = expected.lower(episodes)
    with torch.no_grad():
        rows = torch.cat([support[0].flatten(1, 2), query[0].flatten(1, 2)], dim=1).flatten(0, 1)
        expected.encoder.upper(of_set(expected, rows[:, None]), expected.layer)
    for got, wanted in zip(after[True], statistics(expected)):
        torch.testing.assert_close(got, wanted)
    for got, wanted in zip(after[False][:2], after[True][:2]):
        torch.testing.assert_close(got, wanted)
    assert (after[False][2] - after[True][2]).abs().max() > 1e-4


@settings(max_examples=15, deadline=None)
@given(st.permutations(range(3)), st.sampled_from(STRATEGIES[:3]), st.sampled_from(["all", "matched"]))
def test_renaming_the_classes_of_a_group_changes_nothing(order: list[int], strategy: str, pairs: str) -> None:
    method, episodes = with_group({"interpolation": {"strategy": strategy, "pairs": pairs}})
    renamed = [replace(e, support=e.support[:, order], query=e.query[:, order]) for e in episodes]
    torch.testing.assert_close(method.training_loss(renamed).loss, method.training_loss(episodes).loss)


@settings(max_examples=15, deadline=None)
@given(st.permutations(range(3)))
def test_the_order_of_the_tasks_in_a_group_matters_for_the_queries_only(order: list[int]) -> None:
    """φ_λ has no order: interpolated prototypes are the same whichever task comes first."""
    method = tiny("meta-interpolation", {"interpolation": {"cardinality": 3, "pairs": "matched"}}).eval()
    support, _ = method.lower(random_episodes(method, 3))
    got = prototypes(method, [support[i] for i in order], "matched")
    torch.testing.assert_close(got, prototypes(method, support, "matched"))


def test_partners_are_drawn_with_queries_only_where_queries_are_mixed() -> None:
    from tiny import toy_pool

    from fewtask.sampler import EpisodeSampler

    for strategy, cardinality, sizes in (
        ("support", 2, [2, 0]),
        ("query", 3, [2, 2, 2]),
        ("support+query", 2, [2, 2]),
        ("support+noise", 2, [2]),
        ("support", 1, [2]),
    ):
        method = tiny("meta-interpolation", {"interpolation": {"strategy": strategy, "cardinality": cardinality}})
        group = method.draw(EpisodeSampler(toy_pool(), 0))
        assert [e.queries for e in group] == sizes
        assert all(len(set(tasks.tolist())) == len(group) for tasks in torch.stack([e.tasks for e in group], dim=1))


@pytest.mark.parametrize("mix", [{"weight": 0.2}, {"weight": 0.7, "learn_weight": True}])
@pytest.mark.parametrize("name", ["meta-interpolation", "mean-interpolation"])
def test_the_share_of_the_mix_loss_is_as_set_or_learned(name: str, mix: dict[str, Any]) -> None:
    method = tiny(name, {"interpolation": mix, "model": {"scale": 0.2}})
    assert isinstance(method, MetaInterpolation)
    episodes = random_episodes(method, 2)
    assert_same(method, method.training_loss(episodes).loss, plain_meta_interpolation_loss(method, episodes))
    assert any(p is method.share_logit for p in method.outer()) == ("learn_weight" in mix)
    assert method.bilevel == (name == "meta-interpolation" or "learn_weight" in mix)


def test_a_learned_share_starts_where_it_is_set_and_has_a_rate_of_its_own() -> None:
    settings = {"interpolation": {"weight": 0.3, "learn_weight": True}, "hyper": {"weight_lr": 0.5, "lr": 1e-3}}
    for name in ("meta-interpolation", "mean-interpolation"):
        method = make_method(update(RunSettings(method=name), settings), (6,))
        assert isinstance(method, MetaInterpolation)
        assert method.outer_report()["weight"] == pytest.approx(0.3)
        rates = {id(p): group.get("lr", "hyper.lr") for group in method.outer_groups() for p in group["params"]}
        assert rates == {id(p): 0.5 if p is method.share_logit else "hyper.lr" for p in method.outer()}


@pytest.mark.parametrize("change", [{"bilevel": False}, {"singleton_loss": False}])
def test_a_share_that_cannot_be_learned_is_refused(change: dict[str, bool]) -> None:
    method = tiny("mean-interpolation", {"interpolation": {"learn_weight": True, **change}})
    with pytest.raises(SettingsError, match="learn_weight needs"):
        method.check(toy_pool(), toy_pool())


def test_with_the_mean_a_trained_network_is_a_plain_protonet() -> None:
    merged, plain = tiny("mean-interpolation").eval(), tiny("protonet").eval()
    plain.encoder.load_state_dict(merged.encoder.state_dict())
    rows = torch.randn(7, *FEATURES, dtype=torch.float64)
    torch.testing.assert_close(merged.embed(rows), plain.embed(rows))
