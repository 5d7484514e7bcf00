"""`make check-datasets` with few steps: every data set trains, and its hyper-updates move λ."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest

from fewtask.check import CheckRow, check
from fewtask.errors import SettingsError

# The images at their full size, but one episode at a time and a matching of the pairs; all of it would take minutes.
LIGHT: dict[str, Any] = {"episode": {"batch": 1, "query": 3}, "interpolation": {"pairs": "matched"}}
# Here λ has over 100 million numbers at the paper's width.
LIGHTER: dict[str, Any] = LIGHT | {"set_function": {"hidden": 20}, "hyper": {"terms": 1}}
# Embedding all of the sentences takes minutes too.
FEW_SENTENCES: dict[str, Any] = {"data": {"max_per_class": 30}}
CHANGES: dict[str, dict[str, Any]] = {
    "metabolism": {},
    "tox21": {},
    "nci": {},
    "glue-scitail": FEW_SENTENCES,
    "esc50": {"episode": {"batch": 1}},
    "rmnist": {"episode": {"batch": 1}},
    "mini-imagenet-s-1shot": LIGHTER,
    "mini-imagenet-s-5shot": LIGHTER,
    "cifar100-fs-1shot": LIGHT,
    "cifar100-fs-5shot": LIGHT,
}


@pytest.mark.parametrize("preset", list(CHANGES))
def test_meta_interpolation_moves_lambda_twice(preset: str, raw_dir: Path, prepared_dir: Path) -> None:
    row = check(preset, "meta-interpolation", 4, 2, changes=CHANGES[preset], data_dir=prepared_dir, raw_dir=raw_dir)
    assert row.hyper_updates == 2
    assert row.lambda_problems() == []
    # Adam's first step is its learning rate in every direction, 1e-4, and the second half of that: the schedule
    # of two updates falls linearly.
    assert 0.9e-4 < row.lambda_change < 1.6e-4  # type: ignore[operator]
    assert math.isfinite(row.first_loss)
    assert math.isfinite(row.last_loss)
    assert row.hyper_ms is not None
    assert row.hyper_ms > row.step_ms > 0


# Where steps are cheap, enough of them that the loss falls; elsewhere it is seen to be finite.
STEPS = {
    "metabolism": 60,
    "tox21": 60,
    "nci": 60,
    "esc50": 30,
    "rmnist": 30,
    "cifar100-fs-1shot": 12,
    "cifar100-fs-5shot": 12,
}


@pytest.mark.parametrize("preset", list(CHANGES))
def test_protonets_loss_falls(preset: str, raw_dir: Path, prepared_dir: Path) -> None:
    steps = STEPS.get(preset, 4)
    row = check(preset, "protonet", steps, 2, changes=CHANGES[preset], data_dir=prepared_dir, raw_dir=raw_dir)
    assert row.lambda_change is None
    assert row.hyper_updates == 0
    assert row.hyper_ms is None
    assert row.peak_mb > 100
    if preset in STEPS:
        assert row.last_loss < row.first_loss
    assert math.isfinite(row.first_loss)
    assert math.isfinite(row.last_loss)


SOUND = CheckRow(
    preset="any",
    method="meta-interpolation",
    steps=9,
    first_loss=2.0,
    last_loss=1.0,
    noise=0.1,
    hyper_updates=2,
    lambda_change=1e-4,
    step_ms=1.0,
    hyper_ms=9.0,
    peak_mb=300.0,
    threads=1,
)


def test_a_sound_row_has_no_problem() -> None:
    assert SOUND.problems() == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"last_loss": 2.0}, "does not fall in 9 steps: 2.0000 in the first third, 2.0000 in the last"),
        (
            {"last_loss": 1.9},
            "does not fall in 9 steps: 2.0000 in the first third, 1.9000 in the last, where 2 standard",
        ),
        ({"last_loss": float("nan")}, "the training loss is not finite"),
        ({"first_loss": float("inf")}, "the training loss is not finite"),
        ({"lambda_change": 0.0}, "λ has not changed after 2 hyper-updates"),
        ({"lambda_change": float("nan")}, "λ is not finite"),
        ({"hyper_updates": 1}, "1 hyper-updates in 9 steps, and 2 are needed"),
    ],
)
def test_what_is_wrong_with_a_row_is_said(change: dict[str, Any], complaint: str) -> None:
    problems = dataclasses.replace(SOUND, **change).problems()
    assert len(problems) == 1
    assert complaint in problems[0]


def test_a_check_needs_steps_to_compare() -> None:
    with pytest.raises(SettingsError, match="a check of 2 steps shows nothing"):
        check("rainbow-digits", "protonet", 2, 1)


def test_a_set_function_that_is_not_updated_is_noticed() -> None:
    row = check("rainbow-digits", "meta-interpolation", 3, 4, changes={"set_function": {"hidden": 16}})
    assert row.hyper_updates == 0
    assert row.lambda_change == 0.0
    assert len(row.lambda_problems()) == 2


def test_the_thirds_are_those_of_the_same_run() -> None:
    """The loss of the first step is ProtoNet's at its initial weights, whatever the number of steps."""
    short, long = (check("rainbow-digits", "protonet", steps, 2) for steps in (3, 5))
    # Three steps have thirds of one step; five of two and one.
    assert short.noise == 0.0
    assert long.first_loss != short.first_loss
    assert check("rainbow-digits", "protonet", 4, 2).first_loss == pytest.approx(long.first_loss)
