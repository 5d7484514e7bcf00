"""Commands that are killed, each as small as it can be, and what must be the same in the end as without any kill."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
PRESET, PLUGIN = str(HERE / "toy.toml"), ["--plugin", str(HERE / "toy.py")]
# What differs from run to run: how long it took, and on what.
TIMES = ("seconds", "steps_per_second", "test_seconds", "environment", "wall")


@dataclass(frozen=True)
class Victim:
    """A command below a folder, and what it leaves there.

    in_write:    it is killed in the middle of writing a file.
    has_workers: others compute for it.
    per_run:     so many kills at most before a run may end.
    """

    what: str
    command: Callable[[Path], list[str]]
    left: Callable[[Path], dict[str, Any]]
    in_write: bool = False
    has_workers: bool = False
    per_run: int = 10


def train(folder: Path) -> list[str]:
    return ["train", PRESET, *PLUGIN, "--seed=3", "--threads=1", "--device=cpu", f"--out={folder / 'run'}"]


def grid(folder: Path, *more: str) -> list[str]:
    command = ["compare", PRESET, *PLUGIN, "--methods", "protonet,meta-interpolation", "--seeds", "2"]
    command += ["--workers", "2", *more]
    return [*command, "--ledger", str(folder / "ledger"), "--work-dir", str(folder / "work")]


def ray_grid(folder: Path) -> list[str]:
    return grid(folder, "--executor", "ray")


def tune(folder: Path, workers: int = 1) -> list[str]:
    command = ["tune", str(own_table(folder.parent)), "--candidates", "protonet;metamix", "--folds", "2"]
    command += ["--most-steps", "100", "--episodes", "4", "--minutes", "0", "--workers", str(workers)]
    return [*command, "--out", str(folder / "search")]


def tune_with_workers(folder: Path) -> list[str]:
    return tune(folder, workers=2)


def own_table(folder: Path) -> Path:
    """Six tasks of two classes, 16 rows each."""
    path = folder / "own.csv"
    if not path.exists():
        rng = np.random.default_rng(0)
        labels = np.arange(96) % 2
        rows = [["task", "label", "a", "b"]]
        for number, label in enumerate(labels.tolist()):
            a, b = rng.normal(size=2) + label
            rows.append([f"t{number // 16}", "ny"[label], f"{a:.4f}", f"{b:.4f}"])
        path.write_text("".join(",".join(row) + "\n" for row in rows))
    return path


def same(value: Any) -> Any:
    """A record without what differs from run to run."""
    if isinstance(value, dict):
        return {key: same(item) for key, item in value.items() if key not in TIMES}
    return [same(item) for item in value] if isinstance(value, list) else value


def digest(path: Path) -> str:
    """Of the tensors: the order of notes in a file's header is chance."""
    from fewtask.files import content_checksum, read_tensors

    return content_checksum(*read_tensors(path))


def read(path: Path) -> Any:
    return same(json.loads(path.read_text()))


def left_by_train(folder: Path) -> dict[str, Any]:
    run = folder / "run"
    history = [same(json.loads(line)) for line in (run / "history.jsonl").read_text().splitlines()]
    names = sorted(path.name for path in run.iterdir())
    model = digest(run / "model.safetensors")
    return {"record": read(run / "result.json"), "history": history, "model": model, "files": names}


def left_by_grid(folder: Path) -> dict[str, Any]:
    # Folders of runs go when their records are in the ledger.
    unfinished = [path.name for path in (folder / "work").iterdir() if path.is_dir()]
    return {"unfinished": unfinished} | {path.name: read(path) for path in (folder / "ledger").glob("*.json")}


def left_by_tune(folder: Path) -> dict[str, Any]:
    search = folder / "search"
    vote = read(search / "vote.json")
    weights = {name: digest(search / name) for name in vote["members"]}
    scores = {str(path.relative_to(search)): read(path) for path in (search / "folds").rglob("score-*.json")}
    return {"vote": vote, "weights": weights, "scores": scores, "refit": read(search / "refit" / "result.json")}


VICTIMS = {
    "train": Victim("`train`, at any moment", train, left_by_train),
    "write": Victim("`train`, while it writes a file", train, left_by_train, in_write=True),
    "grid": Victim("the runner of a grid", grid, left_by_grid, has_workers=True, per_run=5),
    "tune": Victim("`tune` on own data", tune, left_by_tune, per_run=5),
    "tune-workers": Victim("`tune` with workers", tune_with_workers, left_by_tune, has_workers=True, per_run=4),
    "ray": Victim("the runner of a grid on Ray", ray_grid, left_by_grid, has_workers=True, per_run=2),
}
SHARES = {"train": 0.5, "write": 0.2, "grid": 0.15, "tune": 0.08, "tune-workers": 0.03, "ray": 0.04}
"""Of the kills that are asked for."""
