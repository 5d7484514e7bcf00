"""A run's folder may be a stranger's: nothing is built, fetched or believed before it is checked."""

from __future__ import annotations

import json
import resource
import shutil
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fewtask.cli import main
from fewtask.errors import RunError
from fewtask.learner.model import FILE, Model
from fewtask.pool import Dataset
from fewtask.run import execute, load_run
from fewtask.settings import RunSettings, update
from fewtask.tasks import TaskPool

SETTINGS = update(
    RunSettings(method="protonet-st", dataset="toy"),
    {
        "episode": {"way": 2, "shot": 1, "query": 1, "batch": 1},
        "encoder": {"width": 4},
        "set_function": {"hidden": 4, "heads": 2},
        "train": {"steps": 1, "validation_episodes": 2},
        "evaluation": {"episodes": 2, "query": 1},
    },
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = torch.randn(24, 3, generator=torch.Generator().manual_seed(0))
    index = iter(np.arange(24).reshape(-1, 4))
    pools = [TaskPool.fixed(rows, {split: {c: next(index) for c in "ab"}}) for split in ("train", "validation", "test")]
    out = tmp_path_factory.mktemp("runs") / "run"
    execute(SETTINGS, Dataset("toy", *pools), out, show_progress=False)
    return out


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def change(run: Path, **changes: Any) -> None:
    """Entries of config.json by their path: settings__encoder__width=3; an Ellipsis takes one out."""
    config = json.loads((run / "config.json").read_text())
    for place, value in changes.items():
        *groups, name = place.split("__")
        table = config
        for group in groups:
            table = table[group]
        if value is ...:
            del table[name]
        else:
            table[name] = value
    (run / "config.json").write_text(json.dumps(config))


def test_a_whole_run_is_loaded(run: Path) -> None:
    method = load_run(run)
    assert method.embed(torch.zeros(2, 3)).shape == (2, 4)
    assert not method.training


@pytest.mark.parametrize(
    "changes",
    [
        {"input_shape": [2_000_000]},
        {"settings__encoder__width": 50_000},
        {"settings__set_function__hidden": 40_000},
        {"settings__method": "metareg", "input_shape": [2_000_000]},
    ],
)
def test_what_the_weights_do_not_hold_is_not_built(run: Path, changes: dict[str, Any]) -> None:
    change(run, **changes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(RunError, match=r"model\.safetensors does not fit config\.json beside it"):
        load_run(run)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10


def test_rows_of_more_numbers_than_fit_into_memory_are_refused(run: Path) -> None:
    change(run, input_shape=[2**40])
    with pytest.raises(RunError, match=r"rows of 1\.1e\+12 numbers"):
        load_run(run)


def test_no_network_is_asked_for_a_model_that_a_run_names(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    asked = []

    def ask(*arguments: Any, **named: Any) -> Any:
        asked.append(arguments)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    monkeypatch.setattr(socket.socket, "connect", ask)
    change(run, settings__encoder__name="electra", settings__encoder__path="attacker/evil-model", input_shape=[3, 16])
    assert main(["evaluate", str(run)]) == 1
    assert not asked


@pytest.mark.parametrize(
    "changes",
    [
        {"settings": ...},
        {"settings": []},
        {"settings": {"method": 3}},
        {"settings__train__steps": 0},
        {"settings__train": 5},
        {"settings__nonsense": 1},
        {"settings__method": "no such method"},
        {"settings__set_function__heads": 3},
        {"input_shape": ...},
        {"input_shape": "3"},
        {"input_shape": [0]},
        {"input_shape": [-3]},
        {"input_shape": [True]},
        {"input_shape": [[3]]},
        {"input_shape": [1] * 9},
        {"input_scale": [1]},
        {"input_scale": ["a", "b"]},
        {"data_fingerprint": 3},
    ],
)
def test_entries_that_are_missing_or_wrong_are_one_sentence(
    run: Path, changes: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    change(run, **changes)
    assert main(["evaluate", str(run)]) == 1
    err = capsys.readouterr().err
    assert err.startswith("fewtask: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"3", b"\xff\xfe", b"[" * 100_000, b'{"settings": {}'])
def test_a_config_that_is_none_is_one_sentence(run: Path, content: bytes) -> None:
    (run / "config.json").write_bytes(content)
    with pytest.raises(RunError, match=r"config\.json"):
        load_run(run)


def test_weights_of_another_run_are_named(run: Path) -> None:
    other = SETTINGS.encoder.width + 4
    change(run, settings__encoder__width=other)
    with pytest.raises(RunError, match=r"encoder\.layers\.\S+ .*differ; take both from the same run"):
        load_run(run)


def test_a_predictor_names_files_of_its_own_folder_only(run: Path) -> None:
    Model((load_run(run),), None, (0.0, 1.0), (3,)).save(run)
    assert Model.load(run).input_shape == (3,)
    values = json.loads((run / FILE).read_text())
    for weights in ("../run/model.safetensors", "/etc/passwd", 3):
        values["members"][0]["weights"] = weights
        (run / FILE).write_text(json.dumps(values))
        with pytest.raises(RunError, match="is no file of its folder"):
            Model.load(run)
    for damaged in ({"format": 1}, [], {"format": 1, "input_shape": [3], "members": 4}, {"format": 2}):
        (run / FILE).write_text(json.dumps(damaged))
        with pytest.raises(RunError, match=FILE):
            Model.load(run)
