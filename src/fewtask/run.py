"""A run: settings in, a folder out that holds all that is needed to label new rows later.

    model.safetensors   the selected weights, with running statistics
    config.json         settings, threads, input shape, class names, feature settings, data fingerprint
    history.jsonl       losses, accuracies, gradient norms, seconds
    result.json         the record: accuracies with intervals, a row a task; its presence says that the run is finished
    README.md           a card for people
    checkpoint.safetensors   while the run is under way

Nothing in it is unpickled on load.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fewtask import __version__
from fewtask.card import card
from fewtask.changes import flat
from fewtask.errors import RunError
from fewtask.evaluation import prepare
from fewtask.files import one_line_each, read_json, sweep, write_json, write_tensors, write_text
from fewtask.locks import alone
from fewtask.methods import Method, get_method, make_method
from fewtask.pool import Dataset, Pools
from fewtask.protocol import check_episodes
from fewtask.record import FORMAT, add_test, make_record
from fewtask.saved import input_shape, load_method, read_config, saved_settings
from fewtask.settings import RunSettings, identity
from fewtask.threads import as_begun
from fewtask.training.history import History, read_history
from fewtask.training.loop import fit
from fewtask.training.state import remove_checkpoints


@dataclass(frozen=True)
class RunResult:
    """What a finished run says: `record` is what result.json holds and a ledger keeps."""

    record: dict[str, Any]
    method: Method
    history: list[dict[str, Any]]


def execute(
    settings: RunSettings,
    dataset: Dataset,
    out: str | Path | None = None,
    *,
    preset: str | None = None,
    device: str = "cpu",
    test: bool = True,
    show_progress: bool | None = None,
    on_row: Callable[[dict[str, Any]], None] | None = None,
    start: Mapping[str, Tensor] | None = None,
) -> RunResult:
    """Trains, selects on meta-validation, evaluates on meta-test and saves; continues or returns what is there.

    With test=False meta-test is left alone, for choosing settings. `preset` is the name that tables know the settings
    by, the data set's unless it is given. `start` holds weights, by name, to begin with instead of random ones.
    """
    if out is None:
        return _execute(settings, dataset, None, preset, device, test, show_progress, on_row, start)
    out = Path(out)
    # Two processes in one folder would each continue the other's files.
    with alone(
        out.absolute().with_name(f".{out.absolute().name}.lock"),
        busy=f"process {{process}} is training in {out}: wait for it, or choose another --out",
    ):
        threads = read_config(out).get("threads") if (out / "config.json").exists() else None
        with as_begun(threads, f"the run in {out}", say=not (out / "result.json").exists()):
            return _execute(settings, dataset, out, preset, device, test, show_progress, on_row, start)


def _execute(
    settings: RunSettings,
    dataset: Dataset,
    out: Path | None,
    preset: str | None,
    device: str,
    test: bool,
    show_progress: bool | None,
    on_row: Callable[[dict[str, Any]], None] | None,
    start: Mapping[str, Tensor] | None,
) -> RunResult:
    pools = dataset.pools(settings.data, settings.episode.way)
    if out is not None and (out / "result.json").exists():
        return _finished(settings, pools.to(device), out, device, test)
    pools = pools.to(device)
    torch.manual_seed(settings.seed)
    method = make_method(settings, pools.input_shape).to(device)
    if start is not None:
        method.load_state_dict({**method.state_dict(), **start})
    method.check(pools.train, pools.outer)
    check_episodes(settings, pools, test)
    if out is not None:
        start_folder(settings, dataset, pools, method, out)
    prepare(method, pools)
    history = History(None if out is None else out / "history.jsonl")
    step, seconds = _train(method, pools, out, history, show_progress, on_row)
    name = preset or settings.dataset
    record = make_record(name, method.eval(), pools, history.rows, selected_step=step, seconds=seconds, test=test)
    if out is not None:
        write_tensors(out / "model.safetensors", method.state_dict(), {"fewtask": __version__})
        _write_record(settings, record, pools, out)
        remove_checkpoints(out / "checkpoint.safetensors")
    return RunResult(record, method, history.rows)


def _finished(settings: RunSettings, pools: Pools, out: Path, device: str, test: bool) -> RunResult:
    """A run that is done; meta-test is made up for where it is wanted now and was not then."""
    check_same(settings, out)
    method = load_run(out, device)
    record = read_json(out / "result.json")
    if record.get("format") != FORMAT:
        raise RunError(f"{out / 'result.json'} is of another version of fewtask: train again with another --out")
    # It may have been killed when its record was written and before it had tidied up.
    sweep(out)
    remove_checkpoints(out / "checkpoint.safetensors")
    if test and "test" not in record:
        record = add_test(record, method, pools)
        _write_record(settings, record, pools, out)
    return RunResult(record, method, read_history(out / "history.jsonl"))


def _write_record(settings: RunSettings, record: dict[str, Any], pools: Pools, out: Path) -> None:
    write_text(out / "README.md", card(settings, record, pools))
    # Last: its presence says that the run is finished.
    write_text(out / "result.json", one_line_each(record))


def _train(
    method: Method,
    pools: Pools,
    out: Path | None,
    history: History,
    show_progress: bool | None,
    on_row: Callable[[dict[str, Any]], None] | None,
) -> tuple[int, float]:
    """Leaves the selected weights in the method; the step they are of, and the seconds it took."""
    if not method.trained:
        return 0, 0.0
    checkpoint = None if out is None else out / "checkpoint.safetensors"
    state = fit(method, pools, checkpoint=checkpoint, history=history, show_progress=show_progress, on_row=on_row)
    method.load_state_dict(state.best.weights)
    return state.best.step, state.seconds


def start_folder(settings: RunSettings, dataset: Dataset, pools: Pools, method: Method, out: Path) -> None:
    """Makes the folder, or sees to it that the one that is there belongs to the same run."""
    sweep(out)
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
        # Not among the settings: records made with any number are of one run, and say with how many.
        "threads": torch.get_num_threads(),
        "input_shape": list(pools.input_shape),
        "input_scale": pools.train.scale,
        "features": dict(dataset.features),
        "classes": classes,
        "embedding": method.encoder.embedding,
        "data_fingerprint": pools.fingerprint,
    }
    write_json(out / "config.json", config)


def check_same(settings: RunSettings, out: Path, pools: Pools | None = None) -> None:
    config = read_config(out)
    groups = get_method(settings.method).groups
    wanted, there = (
        flat(identity(s, groups)) for s in (settings, saved_settings(config["settings"], out / "config.json"))
    )
    different = [
        f"{key} is {there.get(key)} there, not {wanted[key]}" for key in wanted if there.get(key) != wanted[key]
    ]
    if different:
        raise RunError(f"{out} holds a run with other settings ({'; '.join(different[:3])}): choose another --out")
    if pools is not None and config["data_fingerprint"] != pools.fingerprint:
        raise RunError(f"{out} holds a run on other rows of {settings.dataset}: choose another --out")


def load_run(out: str | Path, device: str = "cpu") -> Method:
    """The trained method of a finished run, ready to embed and label."""
    out = Path(out)
    path, weights = out / "config.json", out / "model.safetensors"
    config = read_config(out)
    settings, shape = saved_settings(config["settings"], path), input_shape(config["input_shape"], path)
    if not weights.exists():
        raise RunError(f"the run in {out} is not finished: run its training command again to go on")
    return load_method(settings, shape, weights, path).to(device).eval()
