"""The presets hold what the paper's tables say, and every method accepts them."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from fewtask.encoders import make_encoder
from fewtask.errors import SettingsError
from fewtask.methods import METHODS, make_method
from fewtask.pool import TaskPool
from fewtask.presets import base_preset, load_preset, preset_changes, preset_label, preset_names
from fewtask.settings import RunSettings, update

PAPER = Path(__file__).parent / "paper_hyperparameters.json"
"""The tables of hyper-parameters in the paper's appendix."""
# Per preset of the paper: shape of a row, tasks of the training split (1: a class pool), classes a task.
KINDS: dict[str, tuple[tuple[int, ...], int, int]] = {
    "metabolism": ((1024,), 3, 2),
    "tox21": ((1024,), 6, 2),
    "nci": ((1024,), 4, 2),
    "glue-scitail": ((1536,), 2, 2),
    "esc50": ((1024,), 1, 20),
    "rmnist": ((3, 28, 28), 16, 10),
    "mini-imagenet-s-1shot": ((3, 84, 84), 1, 12),
    "mini-imagenet-s-5shot": ((3, 84, 84), 1, 12),
    "cifar100-fs-1shot": ((3, 32, 32), 1, 12),
    "cifar100-fs-5shot": ((3, 32, 32), 1, 12),
}
OURS = dict.fromkeys(("rainbow-digits", "rainbow-digits-best"), ((3, 16, 16), 16, 10))
# Presets of experiments have the kind of data of the one that they extend.
EXPERIMENTS = Path(__file__).resolve().parents[1] / "experiments"
EXTENDING = {
    str(path): (KINDS | OURS)[base] for path in EXPERIMENTS.glob("*/*/preset.toml") if (base := base_preset(str(path)))
}
NARROW = {"set_function": {"hidden": 8}}


@pytest.fixture(scope="module")
def paper() -> dict[str, dict[str, Any]]:
    values = json.loads(PAPER.read_text(encoding="utf-8"))
    return {name.replace("_", "-"): entry for name, entry in values.items() if not name.startswith("_")}


def in_the_papers_words(settings: RunSettings, input_shape: tuple[int, ...]) -> dict[str, Any]:
    """A preset as an entry of the paper's tables."""
    schedule = {"constant": "none", "linear": "linear"}
    # ProtoNet's own distance is the squared one, which the paper calls Euclidean.
    distance = {"squared-euclidean": "euclidean", "euclidean": "plain euclidean"}
    layer = settings.interpolation.layer
    return {
        "way": settings.episode.way,
        "shot": settings.episode.shot,
        "lr": settings.optimizer.lr,
        "optimizer": settings.optimizer.name,
        "schedule": schedule[settings.optimizer.schedule],
        "batch": settings.episode.batch,
        "query": settings.episode.query,
        "steps": settings.train.steps,
        "test_episodes": settings.evaluation.episodes,
        "hyper_lr": settings.hyper.lr,
        "hyper_optimizer": settings.hyper.name,
        "hyper_schedule": schedule[settings.hyper.schedule],
        "period": settings.hyper_period,
        "d": make_encoder(settings.encoder, input_shape).width(layer),
        "hidden": settings.set_function.hidden,
        "layer": layer,
        "terms": settings.hyper.terms,
        "distance": distance[settings.model.distance],
    }


def test_there_is_a_preset_for_every_entry_of_the_paper_and_one_of_our_own(paper: dict[str, Any]) -> None:
    assert set(preset_names()) == {*paper, *OURS}
    assert set(paper) == set(KINDS)


def test_a_preset_may_extend_one_that_extends_another() -> None:
    path = EXPERIMENTS / "esc50" / "residual-at-input" / "preset.toml"
    assert base_preset(str(path)) == "esc50"
    settings = load_preset(path, "protonet-st")
    assert (settings.dataset, settings.encoder.name) == ("esc50", "residual-mlp")
    assert settings.interpolation.layer == 0
    assert load_preset(EXPERIMENTS / "esc50" / "residual.toml", "protonet-st").interpolation.layer == 2


@pytest.mark.parametrize("method", list(METHODS))
@pytest.mark.parametrize("name", list(KINDS))
def test_a_preset_equals_the_paper_entry_for_entry(name: str, method: str, paper: dict[str, Any]) -> None:
    ours = in_the_papers_words(load_preset(name, method), KINDS[name][0])
    assert ours == paper[name]


@pytest.mark.parametrize("name", list(KINDS))
def test_what_the_tables_leave_open_is_as_the_text_has_it(name: str) -> None:
    settings = load_preset(name, "meta-interpolation")
    assert settings.interpolation.pairs == "all"
    assert settings.interpolation.strategy == "support"
    assert settings.interpolation.bilevel
    assert settings.interpolation.singleton_loss
    assert settings.set_function.name == "set-transformer"
    assert settings.set_function.heads == 4
    assert settings.mixup.alpha == (2.0 if len(KINDS[name][0]) == 3 else 0.5)


def fake_pool(shape: tuple[int, ...], tasks: int, classes: int, rows: int) -> TaskPool:
    """Zeros of the right kind: fixed tasks, or one task that is a pool of classes."""
    index = torch.arange(tasks * classes * rows).view(tasks, classes, rows).numpy()
    members = {f"task {t}": {f"class {c}": index[t, c] for c in range(classes)} for t in range(tasks)}
    pool = TaskPool.fixed(torch.zeros(index.size, *shape, dtype=torch.uint8), members)
    return dataclasses.replace(pool, is_class_pool=tasks == 1)


@pytest.mark.parametrize("method", list(METHODS))
@pytest.mark.parametrize("name", [*KINDS, *OURS, *EXTENDING])
def test_every_method_accepts_every_preset(name: str, method: str) -> None:
    settings = load_preset(name, method)
    assert settings.method == method
    shape, tasks, classes = (KINDS | OURS | EXTENDING)[name]
    pool = fake_pool(shape, tasks, classes, rows=2)
    model = make_method(update(settings, NARROW), shape)
    model.check(pool, pool)
    assert classes >= settings.episode.way


def test_a_preset_by_path_extends_a_name_or_another_file(tmp_path: Path) -> None:
    first, second = tmp_path / "first.toml", tmp_path / "below" / "second.toml"
    second.parent.mkdir()
    first.write_text('extends = "nci"\n[train]\nsteps = 7\n[methods.mlti.mixup]\nalpha = 3.0\n')
    second.write_text('extends = "../first.toml"\n[train]\naverage = 0.9\n')
    settings = load_preset(second, "mlti")
    assert (settings.dataset, settings.train.steps, settings.train.average) == ("nci", 7, 0.9)
    assert settings.mixup.alpha == 3.0
    assert base_preset(str(second)) == "nci"
    assert preset_changes(str(second)) == {
        "train": {"steps": 7, "average": 0.9},
        "methods": {"mlti": {"mixup": {"alpha": 3.0}}},
    }


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('extends = "own.toml"', "extends itself"),
        ('extends = "ncy"', "did you mean 'nci'"),
        ('extends = "gone.toml"', "cannot read the preset .*gone.toml"),
        ("[train]\nsteps = 7", "names no data set"),
        ('dataset = "nci"\n[train]\nstep = 7', "own.toml: unknown setting 'train.step': did you mean 'train.steps'"),
        ("steps", "own.toml is not valid TOML"),
        ("extends = 3", "own.toml extends 3: name a preset"),
        ('dataset = "nci"\nmethods = 3', r"has no tables \[methods.NAME\] but methods = 3"),
        ('dataset = "nci"\n[methods]\nprotonet = 3', r"has no tables \[methods.NAME\]"),
    ],
)
def test_a_wrong_file_is_refused_with_the_reason(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "own.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=word):
        load_preset(path, "protonet")


def test_an_experiments_preset_is_called_by_its_folders() -> None:
    assert preset_label("experiments/nci/decay/preset.toml") == "nci-decay"
    assert preset_label("my/own.toml") == "own"
    assert preset_label("nci") == "nci"


@pytest.mark.parametrize(
    ("wrong", "meant"), [("metabolsm", "metabolism"), ("tox_21", "tox21"), ("cifar100-fs-2shot", "cifar100-fs-")]
)
def test_an_unknown_preset_is_refused_with_the_nearest_name(wrong: str, meant: str) -> None:
    with pytest.raises(SettingsError, match=f"unknown data set or preset '{wrong}': did you mean '{meant}"):
        load_preset(wrong, "protonet")


def test_a_name_like_no_other_is_refused_with_all_known_names() -> None:
    with pytest.raises(SettingsError) as refusal:
        load_preset("zzzz", "protonet")
    assert "did you mean" not in str(refusal.value)
    assert all(name in str(refusal.value) for name in preset_names())


@pytest.mark.parametrize("name", ["cifar100-fs", "mini-imagenet-s"])
def test_a_data_set_with_two_presets_lists_them(name: str) -> None:
    with pytest.raises(SettingsError, match=f"'{name}' has several presets, name one: {name}-1shot, {name}-5shot"):
        load_preset(name, "protonet")
