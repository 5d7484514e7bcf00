"""Defaults that fit the data, and estimates of memory and time before training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from synthetic import many_tasks, pictures

from fewtask.errors import SettingsError
from fewtask.learner import estimate as module
from fewtask.learner.defaults import own_settings
from fewtask.learner.estimate import activations, estimate, memory_needed
from fewtask.learner.inputs import own_data
from fewtask.methods import make_method
from fewtask.pool import Dataset
from fewtask.settings import update


def dataset_of(*arrays: Any) -> Dataset:
    return own_data(*arrays).dataset()


def test_defaults_follow_the_data() -> None:
    numbers = own_settings(dataset_of(*many_tasks(4, 24)), "array", "meta-interpolation")
    assert (numbers.encoder.name, numbers.episode.way) == ("mlp", 2)
    assert numbers.train.average > 0
    assert numbers.optimizer.weight_decay > 0
    assert numbers.set_function.hidden == 64
    images = own_settings(dataset_of(*pictures()), "array", "protonet")
    assert (images.encoder.name, images.encoder.width) == ("conv4", 32)
    # Six classes, of which two are set aside; twelve rows each.
    assert (images.episode.way, images.episode.shot, images.episode.query) == (2, 5, 7)
    assert (
        own_settings(dataset_of(*pictures()), "array", "protonet", changes={"encoder": {"width": 8}}).encoder.width == 8
    )


def test_activations_are_counted_layer_by_layer() -> None:
    settings = update(own_settings(dataset_of(*pictures()), "array", "protonet"), {"encoder": {"width": 4}})
    encoder = make_method(settings, (3, 16, 16)).encoder
    block = [4 * 16 * 16, 4 * 16 * 16, 4 * 8 * 8, 4 * 8 * 8]
    assert activations(encoder, (3, 16, 16))[:5] == [3 * 16 * 16, *block]


def test_what_does_not_fit_is_refused_with_the_setting_that_makes_it_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The case of 84x84 pictures with 500 filters, which took 12.9 GB."""
    X = np.zeros((60, 84, 84, 3), dtype=np.uint8)
    dataset = dataset_of(X, np.repeat(np.arange(4), 15))
    settings = own_settings(dataset, "array", "protonet")
    wide = update(settings, {"encoder": {"width": 500}})
    assert memory_needed(settings, dataset) < 2**31
    assert memory_needed(wide, dataset) > 10 * 2**30
    monkeypatch.setattr(module, "available_memory", lambda: 8.0 * 2**30)
    with pytest.raises(
        SettingsError, match=r"take about .* GB of memory, and 8.0 GB are free: set (\S+)=(\d+)"
    ) as caught:
        estimate(wide, dataset)
    change = str(caught.value).rsplit("set ", 1)[1].split(" and ")
    changes: dict[str, dict[str, int]] = {}
    for item in change:
        name, value = item.split("=")
        changes.setdefault(name.split(".")[0], {})[name.split(".")[1]] = int(value)
    assert memory_needed(update(wide, changes), dataset) <= 0.85 * 8 * 2**30
    monkeypatch.setattr(module, "available_memory", lambda: 1e6)
    with pytest.raises(SettingsError, match="use smaller images or fewer rows"):
        estimate(wide, dataset)


def test_the_estimate_leaves_the_random_numbers_alone() -> None:
    dataset = dataset_of(*many_tasks(4, 24))
    settings = own_settings(dataset, "array", "meta-interpolation")
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    found = estimate(settings, dataset)
    assert torch.equal(torch.rand(3), wanted)
    assert found.seconds > 0
    assert "of memory and" in str(found)
