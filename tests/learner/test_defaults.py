"""Defaults that fit the data, and memory and time that are known before training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from synthetic import many_tasks, pictures
from torch import nn

from fewtask import MetaLearner
from fewtask.cost import estimate_cost, fit, foretell
from fewtask.cost.fit import UNMEASURED
from fewtask.encoders.own import own_encoder
from fewtask.errors import SettingsError
from fewtask.learner.defaults import own_settings
from fewtask.learner.inputs import own_data
from fewtask.pool import Dataset
from fewtask.settings import update


def dataset_of(*arrays: Any) -> Dataset:
    return own_data(*arrays).dataset()


def test_defaults_follow_the_data() -> None:
    numbers = own_settings(dataset_of(*many_tasks(4, 24)), "array", "meta-interpolation")
    assert (numbers.encoder.name, numbers.episode.way) == ("mlp", 2)
    assert numbers.train.average > 0
    assert numbers.optimizer.weight_decay > 0
    assert numbers.set_function.hidden == 512
    images = own_settings(dataset_of(*pictures()), "array", "protonet")
    assert (images.encoder.name, images.encoder.width) == ("conv4", 32)
    # Six classes, of which two are set aside; twelve rows each.
    assert (images.episode.way, images.episode.shot, images.episode.query) == (2, 5, 7)
    assert (
        own_settings(dataset_of(*pictures()), "array", "protonet", changes={"encoder": {"width": 8}}).encoder.width == 8
    )


@pytest.mark.parametrize(
    ("method", "changes", "estimator"),
    [
        ("meta-interpolation", {}, "direct"),
        ("meta-interpolation", {"set_function": {"name": "deep-sets"}}, "direct"),
        ("meta-interpolation", {"hyper": {"estimator": "nystrom"}}, "nystrom"),
        # What acts on training alone has no direct gradient.
        ("meta-interpolation", {"set_function": {"name": "gate"}}, "neumann"),
        ("meta-interpolation", {"interpolation": {"learn_weight": True}}, "neumann"),
        ("metareg", {}, "neumann"),
    ],
)
def test_lambda_follows_its_direct_gradient_where_it_has_one(
    method: str, changes: dict[str, Any], estimator: str
) -> None:
    settings = own_settings(dataset_of(*many_tasks(4, 24)), "array", method, changes=changes)
    assert settings.hyper.estimator == estimator


def test_what_does_not_fit_is_refused_with_the_setting_that_makes_it_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """84x84 pictures with 500 filters took 12.9 GB; the filters that are chosen for them take a fraction."""
    X, y = np.zeros((60, 84, 84, 3), dtype=np.uint8), np.repeat(np.arange(4), 15)
    dataset = dataset_of(X, y)
    settings = own_settings(dataset, "array", "protonet")
    assert estimate_cost(settings, dataset.input_shape, machine=UNMEASURED).memory < 1e9
    monkeypatch.setattr(fit, "free_memory", lambda device: 4e9)
    wide = MetaLearner("protonet", settings={"encoder": {"width": 500}})
    with pytest.raises(SettingsError, match=r"needs about \S+ GB, and 4.0 GB are free: with --\S+ \d+ it would"):
        wide.fit(X, y)


def test_the_estimate_leaves_the_random_numbers_alone() -> None:
    dataset = dataset_of(*many_tasks(4, 24))
    settings = own_settings(dataset, "array", "meta-interpolation")
    network = nn.Sequential(nn.Linear(9, 8), nn.ReLU(), nn.Linear(8, 4))
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    assert "of memory" in foretell(settings, dataset.input_shape)
    with own_encoder(network):
        assert "of memory" in foretell(update(settings, {"encoder": {"name": "own"}}), dataset.input_shape)
    assert torch.equal(torch.rand(3), wanted)
