"""A run: settings in, a folder out that holds all that is needed to label new rows later.

    model.safetensors   the selected weights, with running statistics
    config.json         settings, input shape, class names, feature settings, data fingerprint
    history.jsonl       losses, accuracies, gradient norms, seconds
    result.json         accuracies with intervals, a row a task; its presence says that the run is finished
    README.md           a card for people
    checkpoint.safetensors   while the run is under way

Nothing in it is unpickled on load.
"""

from __future__ import annotations

import dataclasses
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fewtask import __version__
from fewtask.card import card
from fewtask.errors import RunError
from fewtask.evaluation import Score, evaluate, prepare
from fewtask.methods import Method, get_method, make_method
from fewtask.pool import Dataset, Pools
from fewtask.protocol import check_episodes, meta_test_episodes, selection_episodes
from fewtask.settings import RunSettings, from_dict, identity
from fewtask.training.files import read_json, read_tensors, write_json, write_tensors, write_text
from fewtask.training.history import History
from fewtask.training.loop import fit


@dataclass(frozen=True)
class RunResult:
    """What a finished run says: `record` is what result.json holds."""

    record: dict[str, Any]
    method: Method
    history: list[dict[str, Any]]


def execute(
    settings: RunSettings,
    dataset: Dataset,
    out: Path | None = None,
    *,
    device: str = "cpu",
    test: bool = True,
    show_progress: bool | None = None,
    on_row: Callable[[dict[str, Any]], None] | None = None,
) -> RunResult:
    """Trains, selects on meta-validation, evaluates on meta-test and saves; continues or returns what is there.

    With test=False meta-test is left alone, for choosing settings.
    """
    pools = dataset.pools(settings.data, settings.episode.way)
    if out is not None and (out / "result.json").exists():
        check_same(settings, out)
        saved = load_run(out, device)
        record = read_json(out / "result.json")
        if test and pools.test is not None and "test" not in record:
            record["test"] = meta_test(saved, pools.to(device)).as_dict()
            write_json(out / "result.json", record)
        return RunResult(record, saved, [])
    pools = pools.to(device)
    torch.manual_seed(settings.seed)
    method = make_method(settings, pools.input_shape).to(device)
    method.check(pools.train, pools.outer)
    check_episodes(settings, pools, test)
    if out is not None:
        start_folder(settings, dataset, pools, method, out)
    prepare(method, pools)
    history = History(None if out is None else out / "history.jsonl")
    record, seconds = _train(method, pools, out, history, show_progress, on_row)
    method.eval()
    if test and pools.test is not None:
        started = time.perf_counter()
        record["test"] = meta_test(method, pools).as_dict()
        record["test_seconds"] = round(time.perf_counter() - started, 2)
    record |= {"seconds": seconds, "environment": environment(device), "data_fingerprint": pools.fingerprint}
    if out is not None:
        write_tensors(out / "model.safetensors", method.state_dict(), {"fewtask": __version__})
        write_text(out / "README.md", card(settings, record, pools))
        write_json(out / "result.json", record)
        (out / "checkpoint.safetensors").unlink(missing_ok=True)
    return RunResult(record, method, history.rows)


def _train(
    method: Method,
    pools: Pools,
    out: Path | None,
    history: History,
    show_progress: bool | None,
    on_row: Callable[[dict[str, Any]], None] | None,
) -> tuple[dict[str, Any], float]:
    """Leaves the selected weights in the method; the record's first lines and the seconds it took."""
    if not method.trained:
        score = evaluate(method, pools.selection, selection_episodes(method.settings, pools))
        return {"selected_step": 0, "validation": {"accuracy": score.accuracy, "loss": score.loss}}, 0.0
    checkpoint = None if out is None else out / "checkpoint.safetensors"
    state = fit(method, pools, checkpoint=checkpoint, history=history, show_progress=show_progress, on_row=on_row)
    method.load_state_dict(state.best.weights)
    validation = {"accuracy": state.best.accuracy, "loss": state.best.loss}
    losses = [row["loss"] for row in history.rows if "loss" in row]
    record = {"selected_step": state.best.step, "validation": validation, "final_training_loss": losses[-1]}
    return record, round(state.seconds, 2)


def start_folder(settings: RunSettings, dataset: Dataset, pools: Pools, method: Method, out: Path) -> None:
    """Makes the folder, or sees to it that the one that is there belongs to the same run."""
    for leftover in out.glob(".*.part"):
        # A file that was being written when an earlier attempt was killed.
        leftover.unlink()
    if (out / "config.json").exists():
        check_same(settings, out, pools)
        return
    if out.exists() and any(item.name != "tensorboard" for item in out.iterdir()):
        raise RunError(f"{out} is not empty and not a run folder: choose another --out")
    classes = {
        split: {task.name: [pool.class_names[c] for c in task.classes] for task in pool.tasks}
        for split, pool in pools.splits.items()
    }
    config = {
        "format": 1,
        "fewtask": __version__,
        "settings": dataclasses.asdict(settings),
        "input_shape": list(pools.input_shape),
        "input_scale": pools.train.scale,
        "features": dict(dataset.features),
        "classes": classes,
        "embedding": method.encoder.embedding,
        "data_fingerprint": pools.fingerprint,
    }
    write_json(out / "config.json", config)


def check_same(settings: RunSettings, out: Path, pools: Pools | None = None) -> None:
    config = read_json(out / "config.json")
    groups = get_method(settings.method).groups
    wanted, there = (_flat(identity(s, groups)) for s in (settings, from_dict(config["settings"])))
    different = [
        f"{key} is {there.get(key)} there, not {wanted[key]}" for key in wanted if there.get(key) != wanted[key]
    ]
    if different:
        raise RunError(f"{out} holds a run with other settings ({'; '.join(different[:3])}): choose another --out")
    if pools is not None and config["data_fingerprint"] != pools.fingerprint:
        raise RunError(f"{out} holds a run on other rows of {settings.dataset}: choose another --out")


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def load_run(out: Path, device: str = "cpu") -> Method:
    """The trained method of a finished run, ready to embed and label."""
    config = read_json(out / "config.json")
    method = make_method(from_dict(config["settings"]), tuple(config["input_shape"]))
    if not (out / "model.safetensors").exists():
        raise RunError(f"the run in {out} is not finished: run its training command again to go on")
    weights, _ = read_tensors(out / "model.safetensors")
    try:
        method.load_state_dict(weights)
    except RuntimeError as error:
        raise RunError(f"{out / 'model.safetensors'} does not fit config.json beside it: {error}") from error
    return method.to(device).eval()


def meta_test(method: Method, pools: Pools) -> Score:
    """The fixed list of test episodes: the same for every method and seed."""
    return evaluate(method, pools.split("test"), meta_test_episodes(method.settings, pools))


def environment(device: str) -> dict[str, Any]:
    return {
        "fewtask": __version__,
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": platform.machine(),
        "system": platform.system(),
        "device": device,
        "threads": torch.get_num_threads(),
    }
