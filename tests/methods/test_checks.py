"""Combinations that cannot work are refused before training starts, with the reason."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from tiny import FEATURES, IMAGES, tiny, toy_pool

from fewtask.errors import SettingsError
from fewtask.methods import METHODS, get_method
from fewtask.pool import TaskPool
from fewtask.sampler import EpisodeSampler

MIX = "meta-interpolation"


def refused(name: str, changes: dict[str, Any], reason: str, train: TaskPool | None = None) -> None:
    pool = train or toy_pool()

    def start() -> None:
        tiny(name, changes).check(pool, pool)

    with pytest.raises(SettingsError, match=reason):
        start()


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_accepts_ordinary_settings(name: str) -> None:
    pool, method = toy_pool(), tiny(name).float()
    method.check(pool, pool)
    # And what was accepted can be done.
    if method.trained:
        step = method.training_loss(method.draw(EpisodeSampler(pool, 0)))
        assert torch.isfinite(step.loss)
        assert step.loss.requires_grad


@pytest.mark.parametrize("name", [MIX, "protonet-st", "metamix", "mlti", "fomaml-mlti", "fomaml-meta-interpolation"])
def test_a_layer_that_the_encoder_does_not_have(name: str) -> None:
    refused(name, {"interpolation": {"layer": 4}}, r"layer 4 does not exist: .*0 .* to 3")


@pytest.mark.parametrize("name", [MIX, "fomaml-meta-interpolation"])
def test_sets_that_cannot_be_made(name: str) -> None:
    refused(
        name,
        {"interpolation": {"cardinality": 4, "pairs": "matched"}},
        "sets of 4 tasks need as many training tasks, and there are 3",
    )
    refused(name, {"interpolation": {"cardinality": 3, "pairs": "all"}}, r"'all' with sets of 3 .* 2\^3 .*'matched'")
    refused(name, {"interpolation": {"strategy": "support+noise", "cardinality": 3, "pairs": "matched"}}, "must be 2")


def test_a_class_pool_makes_as_many_tasks_as_a_set_needs() -> None:
    method = tiny(MIX, {"interpolation": {"cardinality": 5, "pairs": "matched"}})
    pool = dataclasses.replace(toy_pool(tasks=1, classes=16), is_class_pool=True)
    method.check(pool, pool)
    drawn = torch.cat([episode.classes for episode in method.draw(EpisodeSampler(pool, 0))], dim=1)
    assert all(len(set(classes)) == 5 * 3 for classes in drawn.tolist())


@pytest.mark.parametrize("name", [MIX, "mlti"])
def test_a_single_fixed_task_has_no_partner(name: str) -> None:
    refused(name, {}, "one training task|and there are 1", toy_pool(tasks=1))


@pytest.mark.parametrize("name", ["mlti", "fomaml-mlti"])
def test_probabilities_that_are_none(name: str) -> None:
    refused(name, {"mixup": {"cross_task": 0.8, "within_task": 0.4}}, "their sum must be at most 1")
    refused(name, {"mixup": {"cross_task": 1.0}}, "running statistics would never be updated")


@pytest.mark.parametrize(("method", "group"), [("mlti", "mixup"), ("meta-interpolation", "interpolation")])
def test_sharing_labels_that_differ(method: str, group: str) -> None:
    share = {group: {"label_sharing": True}}
    refusal = f"{group}.label_sharing needs fixed tasks with the same classes"
    refused(method, share, refusal, toy_pool(names="different"))
    refused(method, share, refusal, dataclasses.replace(toy_pool(tasks=1), is_class_pool=True))
    tiny(method, share).check(toy_pool(), toy_pool())


def test_cutting_what_is_no_image() -> None:
    refused("mlti", {"mixup": {"cutmix": True}}, rf"cutmix is for images, and rows have shape \({FEATURES[0]},\)")
    pool = toy_pool(shape=IMAGES)
    tiny("mlti", {"mixup": {"cutmix": True}}, IMAGES).check(pool, pool)


def test_augmentations_that_first_order_maml_does_not_have() -> None:
    refused("fomaml-mlti", {"mixup": {"within_task": 0.2}}, "within_task")
    refused("fomaml-mlti", {"mixup": {"cutmix": True}}, "cutmix")
    for strategy in ("query", "support+query"):
        refused("fomaml-meta-interpolation", {"interpolation": {"strategy": strategy}}, "interpolates supports only")


def test_an_unknown_method() -> None:
    with pytest.raises(SettingsError, match="unknown method 'protonets': did you mean 'protonet'"):
        get_method("protonets")
