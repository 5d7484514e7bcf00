"""Optimisers, schedules, and what the loop hands to them."""

from __future__ import annotations

import pytest
import torch

from fewtask.encoders import make_encoder
from fewtask.errors import SettingsError
from fewtask.settings import EncoderSettings
from fewtask.training.loop import _apply
from fewtask.training.optimisers import learning_rate, make_optimiser, make_schedule

PLAIN = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_a_step_on_images_is_that_of_the_plain_optimiser(name: str) -> None:
    """Gradients of convolutions come channels-last, which a fused optimiser would read in the wrong order."""
    networks = []
    for _ in range(2):
        torch.manual_seed(0)
        networks.append(make_encoder(EncoderSettings("conv4", 4), (3, 16, 16)))
    ours, theirs = networks
    rows = torch.randn(8, 3, 16, 16)
    optimiser = make_optimiser(name, ours.parameters(), 0.05)
    schedule = make_schedule("constant", optimiser, 10)
    reference = PLAIN[name](theirs.parameters(), lr=0.05, weight_decay=0.0, foreach=False)
    strides = set()
    for _ in range(3):
        theta = list(ours.parameters())
        slopes = torch.autograd.grad(ours(rows).pow(2).mean(), theta)
        strides |= {s.stride() == t.stride() for s, t in zip(slopes, theta)}
        _apply(optimiser, schedule, theta, slopes)
        reference.zero_grad()
        theirs(rows).pow(2).mean().backward()
        reference.step()
    assert False in strides, "the case that matters did not occur"
    for (name, mine), other in zip(ours.named_parameters(), theirs.parameters()):
        # A convolution's bias before BatchNorm has no gradient but rounding, which Adam scales up.
        if not name.endswith(".0.bias"):
            torch.testing.assert_close(mine, other, atol=1e-4, rtol=1e-4)


def test_a_linear_schedule_falls_to_nothing() -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    optimiser = make_optimiser("sgd", [weight], 0.4)
    schedule = make_schedule("linear", optimiser, 4)
    rates = []
    for _ in range(4):
        rates.append(learning_rate(optimiser))
        _apply(optimiser, schedule, [weight], [torch.zeros(1)])
    assert rates == pytest.approx([0.4, 0.3, 0.2, 0.1])
    assert learning_rate(optimiser) == 0


def test_names_that_do_not_exist_are_refused() -> None:
    weight = torch.nn.Parameter(torch.zeros(1))
    with pytest.raises(SettingsError, match="unknown optimiser 'adamx': did you mean 'adam"):
        make_optimiser("adamx", [weight], 0.1)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"unknown schedule 'cosine'.*known are constant, linear"):
        make_schedule("cosine", make_optimiser("sgd", [weight], 0.1), 5)  # type: ignore[arg-type]
