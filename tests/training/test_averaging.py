"""Averaged weights against an average kept by hand."""

from __future__ import annotations

import torch

from fewtask.methods import make_method
from fewtask.settings import RunSettings, update
from fewtask.training.averaging import OUTER_EVERY, averaged, move_average, start_average

DECAY = 0.9


def test_theta_lambda_and_running_statistics_are_averaged_and_put_back() -> None:
    torch.manual_seed(0)
    small = {"encoder": {"width": 4}, "set_function": {"hidden": 8}, "train": {"average": DECAY}}
    method = make_method(update(RunSettings(method="meta-interpolation"), small), (5,)).double()
    outer = {id(p) for p in method.outer()}
    by_hand = {name: value.clone() for name, value in method.state_dict().items()}
    large = {name for name, p in method.named_parameters() if id(p) in outer}
    average = start_average(method)
    assert set(average) == set(by_hand)
    for step in range(3 * OUTER_EVERY):
        for name, value in method.state_dict().items():
            # λ moves only where its average does.
            if name not in large or step % OUTER_EVERY == 0:
                value.add_(torch.randn_like(value))
        move_average(method, average, step)
        decay = min(DECAY, (1 + step) / (10 + step))
        for name, value in method.state_dict().items():
            if name not in large:
                by_hand[name] = decay * by_hand[name] + (1 - decay) * value
            elif (step + 1) % OUTER_EVERY == 0:
                by_hand[name] = decay**OUTER_EVERY * by_hand[name] + (1 - decay**OUTER_EVERY) * value
    before = {name: value.clone() for name, value in method.state_dict().items()}
    with averaged(method, average):
        for name, value in method.state_dict().items():
            torch.testing.assert_close(value, by_hand[name])
            assert not torch.equal(value, before[name])
    assert all(torch.equal(value, before[name]) for name, value in method.state_dict().items())


def test_nothing_is_averaged_where_it_is_off() -> None:
    method = make_method(update(RunSettings(method="protonet"), {"encoder": {"width": 4}}), (5,))
    assert start_average(method) == {}
