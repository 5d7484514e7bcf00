"""Every setting states its range once, and whoever makes settings is held to it, before anything starts."""

from __future__ import annotations

import dataclasses
import typing
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from fewtask.cli import main
from fewtask.errors import SettingsError
from fewtask.presets import load_preset
from fewtask.ranges import Range, _parts, hints
from fewtask.settings import RunSettings, TrainSettings, from_dict, to_dict, update


def settings_and_hints() -> list[tuple[str, Any]]:
    """("train.steps", its type) of every setting."""
    found = []
    for name, hint in hints(RunSettings).items():
        if dataclasses.is_dataclass(hint):
            found += [(f"{name}.{key}", below) for key, below in hints(hint).items()]
        else:
            found.append((name, hint))
    return found


SETTINGS = dict(settings_and_hints())
NUMBERS = [name for name, hint in SETTINGS.items() if {int, float} & set(_parts(hint)[0])]


def changed(name: str, value: Any) -> dict[str, Any]:
    group, _, key = name.rpartition(".")
    return {group: {key: value}} if group else {key: value}


def value_of(settings: RunSettings, name: str) -> Any:
    for part in name.split("."):
        settings = getattr(settings, part)
    return settings


def test_every_number_states_one_range_and_its_default_lies_in_it() -> None:
    assert len(NUMBERS) > 30
    for name in NUMBERS:
        (limits,) = _parts(SETTINGS[name])[1]
        default = value_of(RunSettings(), name)
        assert default is None or limits.holds(default), name
        assert limits.least < limits.most


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_out_of_their_range_are_refused_by_name(name: str) -> None:
    options, (limits,) = _parts(SETTINGS[name])
    whole = int in options
    outside: list[Any] = [limits.least - 1, limits.most * 2, -(10**400), 10**400]
    outside += [] if whole else [float("nan"), float("inf"), float("-inf")]
    outside += [limits.least] if limits.above else []
    outside += [limits.most] if limits.below else []
    for value in outside:
        with pytest.raises(SettingsError, match=rf"^{name} is "):
            update(RunSettings(), changed(name, int(value) if whole else value))
    for value in ("3", True, [1], {}, 1.5 if whole else "x"):
        with pytest.raises(SettingsError, match=rf"^{name} is .*: it takes a value of type"):
            update(RunSettings(), changed(name, value))


def test_the_ends_of_a_range_are_in_it_unless_it_says_otherwise() -> None:
    for value, inside in ((0.0, True), (0.5, True), (1.0, False), (-1e-9, False)):
        assert Range(0, 1, below=True).holds(value) == inside
    assert not Range(0, 1, above=True).holds(0)
    assert str(Range(0, 1, above=True)) == "above 0 and at most 1"


@pytest.mark.parametrize("name", [name for name in SETTINGS if name not in NUMBERS])
def test_words_and_switches_are_refused_where_they_are_none(name: str) -> None:
    options, _ = _parts(SETTINGS[name])
    literal = any(typing.get_origin(option) is Literal for option in options)
    for value in ("no such word",) if literal else (3, 2.5, ["x"]):
        with pytest.raises(SettingsError, match=rf"^{name} is "):
            update(RunSettings(), changed(name, value))


def test_other_kinds_of_numbers_become_pythons() -> None:
    settings = update(RunSettings(), {"optimizer": {"lr": 1}, "episode": {"way": np.int64(3)}, "seed": np.uint8(2)})
    assert settings == update(RunSettings(), {"optimizer": {"lr": 1.0}, "episode": {"way": 3}, "seed": 2})
    assert type(settings.optimizer.lr) is float
    assert type(settings.episode.way) is int


def test_python_presets_and_saved_runs_are_held_to_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"train\.steps is 0: it must be at least 1"):
        TrainSettings(steps=0)
    with pytest.raises(SettingsError, match=r"train\.steps is 0"):
        dataclasses.replace(TrainSettings(), steps=0)
    saved = to_dict(RunSettings())
    saved["train"]["steps"] = 0
    with pytest.raises(SettingsError, match=r"train\.steps is 0"):
        from_dict(saved)
    (tmp_path / "own.toml").write_text('extends = "rainbow-digits"\n[train]\nsteps = 0\n')
    with pytest.raises(SettingsError, match=r"own\.toml: train\.steps is 0"):
        load_preset(tmp_path / "own.toml", "protonet")


@pytest.mark.parametrize(
    "flag",
    [
        "--train.steps=0",
        "--seed=-1",
        "--encoder.width=0",
        "--threads=100000",
        "--threads=-1",
        "--evaluation.episodes=0",
        "--data.max-per-class=-1",
        "--data.train-classes=1",
        "--train.average=1.5",
        "--train.average=nan",
        "--data.features=x",
        "--episode.way=1",
        "--optimizer.lr=inf",
        "--hyper.period=0",
        "--hyper.updates=0",
        "--set-function.dropout=1",
        "--set-function.heads=0",
        "--interpolation.layer=-1",
        "--mixup.alpha=0",
        "--train.log-every=0",
    ],
)
def test_the_command_line_refuses_in_one_sentence_before_anything_starts(
    flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert main(["train", "rainbow-digits", "--method", "protonet", "--out", str(out), "--threads=1", flag]) == 1
    err = capsys.readouterr().err
    assert err.startswith("fewtask: ")
    assert err.count("\n") == 1
    assert flag.split("=")[0].lstrip("-").replace("-", "_") in err
    assert not out.exists()
