"""A run killed at any moment and started again ends as if it had never been interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from fewtask.datasets.cache import load_dataset
from fewtask.errors import RunError
from fewtask.files import read_tensors, write_tensors
from fewtask.methods import METHODS
from fewtask.presets import load_preset
from fewtask.run import execute, load_run
from fewtask.settings import RunSettings, update
from fewtask.threads import ThreadsWarning
from fewtask.training import loop
from fewtask.training.history import read_history

SMALL = {
    "data": {"max_per_class": 12},
    "episode": {"way": 5},
    "encoder": {"width": 8},
    "set_function": {"hidden": 16},
    "hyper": {"period": 4, "terms": 2},
    "adaptation": {"steps": 1, "test_steps": 1},
    "train": {"validate_every": 10, "checkpoint_every": 5, "log_every": 3, "validation_episodes": 20, "average": 0.9},
    "evaluation": {"episodes": 20, "query": 2},
}
FLAGS = [
    "--data.max-per-class=12",
    "--episode.way=5",
    "--encoder.width=8",
    "--set-function.hidden=16",
    "--hyper.period=4",
    "--hyper.terms=2",
    "--train.validate-every=10",
    "--train.checkpoint-every=5",
    "--train.log-every=3",
    "--train.validation-episodes=20",
    "--evaluation.episodes=20",
    "--evaluation.query=2",
]


def small(method: str, steps: int) -> RunSettings:
    return update(update(load_preset("rainbow-digits", method), SMALL), {"train": {"steps": steps}})


def without_times(rows: list[dict]) -> list[dict]:
    return [{k: v for k, v in row.items() if k not in ("seconds", "steps_per_second")} for row in rows]


def same_run(one: Path, two: Path) -> None:
    first, second = read_tensors(one / "model.safetensors")[0], read_tensors(two / "model.safetensors")[0]
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.equal(value, second[name]), name
    assert without_times(read_history(one / "history.jsonl")) == without_times(read_history(two / "history.jsonl"))
    results = [json.loads((run / "result.json").read_text()) for run in (one, two)]
    for key in ("selected_step", "validation", "test", "final_training_loss"):
        assert results[0][key] == results[1][key]


def stopped(settings: RunSettings, out: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> Path:
    """A run that died after step `at`, with a checkpoint every 5 steps; returns its newest checkpoint."""
    step = loop.training_step

    def dies(state: loop.TrainingState) -> dict | None:
        if state.step == at:
            raise RuntimeError("killed")
        return step(state)

    monkeypatch.setattr(loop, "training_step", dies)
    with pytest.raises(RuntimeError, match="killed"):
        execute(settings, load_dataset(settings.dataset, settings.data), out, show_progress=False)
    monkeypatch.setattr(loop, "training_step", step)
    return out / "checkpoint.safetensors"


@pytest.mark.parametrize("method", [name for name, method in METHODS.items() if method.trained])
def test_stopping_between_checkpoints_changes_nothing(
    method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = small(method, 20)
    dataset = load_dataset(settings.dataset, settings.data)
    execute(settings, dataset, tmp_path / "whole", show_progress=False)
    stopped(settings, tmp_path / "broken", monkeypatch, 13)
    torch.manual_seed(999)
    execute(settings, dataset, tmp_path / "broken", show_progress=False)
    same_run(tmp_path / "whole", tmp_path / "broken")


def start(out: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "fewtask", "train", "rainbow-digits", "--method", "meta-interpolation"]
    command += ["--seed", "3", "--out", str(out), "--threads", "1", "--train.steps", "120", *FLAGS]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ})


@pytest.mark.slow
def test_three_kills_end_with_the_same_weights_bit_for_bit(tmp_path: Path) -> None:
    whole = start(tmp_path / "whole")
    killed = tmp_path / "killed"
    # The first kill comes before any checkpoint, the others between two.
    for moment in (3, 41, 77):
        process = start(killed)
        while process.poll() is None:
            if any(row["step"] >= moment for row in read_history(killed / "history.jsonl")):
                break
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not (killed / "result.json").exists(), "it was to be killed before its end"
    last = start(killed)
    output, _ = last.communicate()
    assert last.returncode == 0, output.decode()
    output, _ = whole.communicate()
    assert whole.returncode == 0, output.decode()
    same_run(tmp_path / "whole", killed)


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    process = start(tmp_path / "run")
    while process.poll() is None and not read_history(tmp_path / "run" / "history.jsonl"):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate()
    assert process.returncode == 130
    assert b"run the same command to go on" in output.replace(b"\n", b" ")
    assert (tmp_path / "run" / "checkpoint.safetensors").exists()


def test_a_damaged_checkpoint_is_named_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = small("protonet", 10)
    dataset = load_dataset(settings.dataset, settings.data)
    monkeypatch.setattr(loop, "evaluate", lambda *args: (_ for _ in ()).throw(RuntimeError("stop")))
    with pytest.raises(RuntimeError, match="stop"):
        execute(settings, dataset, tmp_path / "run", show_progress=False)
    monkeypatch.undo()
    checkpoint = tmp_path / "run" / "checkpoint.safetensors"
    checkpoint.write_bytes(checkpoint.read_bytes()[:1000])
    with pytest.raises(RunError, match=r"checkpoint\.safetensors is damaged .* remove it"):
        execute(settings, dataset, tmp_path / "run", show_progress=False)
    assert checkpoint.stat().st_size == 1000


def test_a_full_disk_is_one_sentence_and_the_old_checkpoint_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = small("protonet", 20)
    dataset = load_dataset(settings.dataset, settings.data)
    from fewtask import files

    save, calls = files.save_file, []

    def full(*args: object, **kwargs: object) -> None:
        calls.append(args)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        save(*args, **kwargs)

    monkeypatch.setattr(files, "save_file", full)
    with pytest.raises(RunError, match="the disk is full"):
        execute(settings, dataset, tmp_path / "run", show_progress=False)
    assert {p.name for p in (tmp_path / "run").iterdir()} == {"config.json", "history.jsonl", "checkpoint.safetensors"}
    monkeypatch.undo()
    execute(settings, dataset, tmp_path / "run", show_progress=False)
    execute(settings, dataset, tmp_path / "whole", show_progress=False)
    same_run(tmp_path / "whole", tmp_path / "run")


def test_a_folder_of_another_run_is_refused_and_kept(tmp_path: Path) -> None:
    settings = small("protonet", 5)
    dataset = load_dataset(settings.dataset, settings.data)
    execute(settings, dataset, tmp_path / "run", show_progress=False)
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    other = update(settings, {"optimizer": {"lr": 0.5}})
    with pytest.raises(RunError, match=r"optimizer\.lr is 0\.001 there, not 0\.5"):
        execute(other, dataset, tmp_path / "run", show_progress=False)
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before


def test_a_setting_that_the_method_does_not_use_is_no_other_run(tmp_path: Path) -> None:
    settings = small("protonet", 5)
    dataset = load_dataset(settings.dataset, settings.data)
    execute(settings, dataset, tmp_path / "run", show_progress=False)
    again = execute(update(settings, {"set_function": {"dropout": 0.7}}), dataset, tmp_path / "run")
    assert again.record["validation"]


@pytest.mark.parametrize("spoil", ["missing", "empty", "foreign", "cut"])
def test_a_run_goes_on_whatever_became_of_its_history(
    spoil: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = small("protonet", 15)
    dataset = load_dataset(settings.dataset, settings.data)
    execute(settings, dataset, tmp_path / "whole", show_progress=False)
    stopped(settings, tmp_path / "run", monkeypatch, 12)
    history = tmp_path / "run" / "history.jsonl"
    if spoil == "missing":
        history.unlink()
    else:
        content = history.read_bytes()
        history.write_bytes({"empty": b"", "foreign": b'[1]\n{"step": "x"}\n\xff', "cut": content[:-20]}[spoil])
    execute(settings, dataset, tmp_path / "run", show_progress=False)
    same_run(tmp_path / "whole", tmp_path / "run")


def test_a_finished_checkpoint_without_its_history_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = small("protonet", 10)
    dataset = load_dataset(settings.dataset, settings.data)
    execute(settings, dataset, tmp_path / "whole", show_progress=False)
    from fewtask import run

    with monkeypatch.context() as patched:
        patched.setattr(run, "write_tensors", lambda *args: (_ for _ in ()).throw(RuntimeError("killed")))
        with pytest.raises(RuntimeError, match="killed"):
            execute(settings, dataset, tmp_path / "run", show_progress=False)
    (tmp_path / "run" / "history.jsonl").unlink()
    execute(settings, dataset, tmp_path / "run", show_progress=False)
    same_run(tmp_path / "whole", tmp_path / "run")


def test_a_changed_byte_of_a_checkpoint_leads_back_to_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = small("meta-interpolation", 15)
    dataset = load_dataset(settings.dataset, settings.data)
    execute(settings, dataset, tmp_path / "whole", show_progress=False)
    checkpoint = stopped(settings, tmp_path / "run", monkeypatch, 13)
    content = bytearray(checkpoint.read_bytes())
    content[len(content) // 2] ^= 1
    checkpoint.write_bytes(bytes(content))
    with pytest.warns(UserWarning, match="checkpoint.safetensors is damaged: going back to step 5"):
        execute(settings, dataset, tmp_path / "run", show_progress=False)
    same_run(tmp_path / "whole", tmp_path / "run")
    assert not list((tmp_path / "run").glob("*checkpoint*"))


def test_two_damaged_checkpoints_are_named_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = small("protonet", 15)
    checkpoint = stopped(settings, tmp_path / "run", monkeypatch, 13)
    for path in (checkpoint, checkpoint.with_name("previous-checkpoint.safetensors")):
        path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(RunError, match=r"are both damaged; remove them"):
        execute(settings, load_dataset(settings.dataset, settings.data), tmp_path / "run", show_progress=False)
    assert checkpoint.stat().st_size == 1000


def test_no_changed_byte_of_a_file_of_tensors_goes_unnoticed(tmp_path: Path) -> None:
    tensors = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor(True), "c": torch.zeros(0, 2)}
    path = tmp_path / "x.safetensors"
    write_tensors(path, tensors, {"state": '{"step": 12}'})
    found, texts = read_tensors(path)
    assert texts == {"state": '{"step": 12}'}
    assert all(torch.equal(found[name], value) for name, value in tensors.items())
    whole = path.read_bytes()
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1
        path.write_bytes(bytes(changed))
        try:
            again, texts = read_tensors(path)
        except RunError:
            continue
        # The header pads itself with blanks: what was read must then be what was written.
        assert texts == {"state": '{"step": 12}'}
        assert again.keys() == found.keys()
        assert all(torch.equal(again[name], value) for name, value in found.items())


def test_a_changed_model_is_refused(tmp_path: Path) -> None:
    settings = small("protonet", 5)
    execute(settings, load_dataset(settings.dataset, settings.data), tmp_path / "run", show_progress=False)
    path = tmp_path / "run" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 4
    path.write_bytes(bytes(content))
    with pytest.raises(RunError, match=r"model\.safetensors is damaged"):
        load_run(tmp_path / "run")


def test_a_folder_in_which_another_process_trains_is_refused(tmp_path: Path) -> None:
    """Without a lock both end well, with a doubled history, and one deletes the file that the other writes."""
    settings = small("protonet", 10)
    dataset = load_dataset(settings.dataset, settings.data)
    whole = execute(settings, dataset, tmp_path / "whole", show_progress=False)
    refused = []

    def second(row: dict) -> None:
        with pytest.raises(RunError, match=rf"process {os.getpid()} is training in .*run: wait for it, or choose"):
            execute(settings, dataset, tmp_path / "run", show_progress=False)
        refused.append(row)

    execute(settings, dataset, tmp_path / "run", show_progress=False, on_row=second)
    assert len(refused) == len(whole.history)
    same_run(tmp_path / "whole", tmp_path / "run")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "whole"]


def test_the_lock_of_a_process_that_died_holds_nobody_up(tmp_path: Path) -> None:
    (tmp_path / ".run.lock").write_text("999999")
    settings = small("protonet", 5)
    execute(settings, load_dataset(settings.dataset, settings.data), tmp_path / "run", show_progress=False)
    assert (tmp_path / "run" / "result.json").exists()


@pytest.fixture
def one_core() -> Iterator[None]:
    """Several threads would wait for each other on a machine that is busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def threads_of_a_continued_run(out: Path, settings: RunSettings) -> set[int]:
    """The numbers of threads that rows of its history were made with."""
    seen: set[int] = set()
    dataset = load_dataset(settings.dataset, settings.data)
    execute(settings, dataset, out, show_progress=False, on_row=lambda row: seen.add(torch.get_num_threads()))
    return seen


@pytest.mark.usefixtures("one_core")
def test_a_run_goes_on_with_the_threads_that_it_began_with_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = small("protonet", 15)
    stopped(settings, tmp_path / "run", monkeypatch, 12)
    torch.set_num_threads(2)
    with pytest.warns(ThreadsWarning, match=r"run began with threads = 1 and goes on so, not with 2"):
        assert threads_of_a_continued_run(tmp_path / "run", settings) == {1}
    assert torch.get_num_threads() == 2
    assert json.loads((tmp_path / "run" / "result.json").read_text())["environment"]["threads"] == 1
    # Nothing is trained any more, and the record is still that of these settings: nothing is to be said.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert threads_of_a_continued_run(tmp_path / "run", settings) == set()


@pytest.mark.usefixtures("one_core")
def test_an_older_run_does_not_say_its_threads_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = small("protonet", 15)
    stopped(settings, tmp_path / "run", monkeypatch, 12)
    path = tmp_path / "run" / "config.json"
    config = json.loads(path.read_text())
    assert config.pop("threads") == 1
    for wrong in (0, -1, 10**6, True, "2", [2]):
        path.write_text(json.dumps(config | {"threads": wrong}))
        with pytest.raises(RunError, match=r"config\.json is damaged: its threads are not a number from 1 to"):
            threads_of_a_continued_run(tmp_path / "run", settings)
    path.write_text(json.dumps(config))
    assert threads_of_a_continued_run(tmp_path / "run", settings) == {1}


def test_what_kills_left_half_written_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Safetensors writes to a file `.tmpXXXXXX` first; a run may also die between its record and its tidying up."""
    settings = small("protonet", 10)
    dataset = load_dataset(settings.dataset, settings.data)
    execute(settings, dataset, tmp_path / "whole", show_progress=False)
    wanted = sorted(path.name for path in (tmp_path / "whole").iterdir())
    checkpoint = stopped(settings, tmp_path / "run", monkeypatch, 8)
    saved = checkpoint.read_bytes()

    def leave() -> None:
        for name in (".tmpAb3_xY", ".history.jsonl.17.part"):
            (checkpoint.parent / name).write_bytes(b"half")

    leave()
    execute(settings, dataset, tmp_path / "run", show_progress=False)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == wanted
    leave()
    checkpoint.write_bytes(saved)
    (tmp_path / "run" / ".tmp").write_text("mine")
    execute(settings, dataset, tmp_path / "run", show_progress=False)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [".tmp", *wanted]
