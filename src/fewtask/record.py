"""The record of a finished run: everything that tables, figures and reports need, in a few kilobytes.

It is what `execute` returns, what result.json in a run's folder holds, and what the ledger keeps.
The number of correct queries of every episode is kept, so that two methods can be compared on the same episodes.
"""

from __future__ import annotations

import base64
import hashlib
import math
import os
import platform
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fewtask import __version__
from fewtask.errors import RunError
from fewtask.evaluation import episode_scores, summarise
from fewtask.hypergradient.base import norm
from fewtask.methods import Method, get_method, make_method
from fewtask.pool import Pools, TaskPool
from fewtask.protocol import EpisodeList, meta_test_episodes, selection_episodes
from fewtask.settings import identity

FORMAT = 1
HISTORY_POINTS = 60
DIGITS = 6
LENGTHS = ("direct", "indirect")


def make_record(
    preset: str,
    method: Method,
    pools: Pools,
    history: list[dict[str, Any]],
    *,
    selected_step: int,
    seconds: float,
    test: bool = True,
) -> dict[str, Any]:
    """The record of a finished run: the selected weights on the validation and, if there are any, the test episodes."""
    settings = method.settings
    losses = [row["loss"] for row in history if "loss" in row]
    record: dict[str, Any] = {
        "format": FORMAT,
        "preset": preset,
        "dataset": settings.dataset,
        "method": settings.method,
        "seed": settings.seed,
        "settings": identity(settings, get_method(settings.method).groups),
        "data_fingerprint": pools.fingerprint,
        "environment": environment(str(next(method.parameters()).device)),
        "seconds": round(seconds, 2),
        "selected_step": selected_step,
        "final_training_loss": _rounded(losses[-1]) if losses else None,
        "history": thin(history),
        "hyper_updates": sum("hyper" in row for row in history),
        "hyper": hyper_summary(method, history, pools.input_shape),
        "validation": score(method, pools.selection, selection_episodes(settings, pools)),
    }
    if pools.notes:
        record["notes"] = list(pools.notes)
    return add_test(record, method, pools) if test else record


def add_test(record: dict[str, Any], method: Method, pools: Pools) -> dict[str, Any]:
    """The record with the score of meta-test, which is made once; without test tasks as it is."""
    if pools.test is None or "test" in record:
        return record
    return record | {"test": score(method, pools.test, meta_test_episodes(method.settings, pools))}


_NUMBER = (int, float)
_ENTRIES: dict[str, type | tuple[type, ...]] = {
    "preset": str,
    "dataset": str,
    "method": str,
    "seed": int,
    "settings": dict,
    "seconds": _NUMBER,
    "history": list,
    "validation": dict,
}
_SCORE: dict[str, type | tuple[type, ...]] = {
    "accuracy": _NUMBER,
    "interval": _NUMBER,
    "loss": _NUMBER,
    "episodes": int,
    "tasks": list,
    "episode_list": str,
    "queries": int,
    "correct": str,
}
_TASK: dict[str, type | tuple[type, ...]] = {"task": str, "accuracy": _NUMBER, "interval": _NUMBER}


def record_problem(record: Any) -> str | None:
    """Why something that a file holds is no record that tables and figures can be made of, or None."""
    wrong = _wrong_entry(record, _ENTRIES, "")
    for split in ("validation", "test"):
        if wrong is None and (split == "validation" or split in record):
            wrong = _wrong_entry(record[split], _SCORE, f"{split}.")
            for row in [] if wrong else record[split]["tasks"]:
                wrong = wrong or _wrong_entry(row, _TASK, f"{split}.tasks.")
    if wrong is None and not all(isinstance(row, dict) for row in record["history"]):
        return "its 'history' is not a list of rows"
    return wrong


def _wrong_entry(values: Any, wanted: dict[str, type | tuple[type, ...]], prefix: str) -> str | None:
    if not isinstance(values, dict):
        return f"'{prefix.rstrip('.')}' is no table" if prefix else "it is no table"
    for key, kind in wanted.items():
        value = values.get(key)
        if not isinstance(value, kind) or isinstance(value, bool):
            return f"it has no '{prefix}{key}' of the right type"
        if isinstance(value, float) and not math.isfinite(value):
            return f"its '{prefix}{key}' is not finite"
    return None


def hyper_summary(method: Method, history: list[dict[str, Any]], input_shape: tuple[int, ...]) -> dict[str, Any] | None:
    """How λ was trained: its updates, the way it went, the parts of its gradient; None without λ.

    moved: distance of the selected λ from its start, as a share of the start's length, or the distance itself where
    λ starts at zero, as a gate does.
    direct, indirect: mean lengths of the two parts of the hypergradient.
    diverged: at how many updates the series did not converge.
    """
    if not method.outer():
        return None
    rows = [row["hyper"] for row in history if "hyper" in row]
    with torch.random.fork_rng(devices=[]):
        # λ as the seed makes it: a copy kept from the start would be 450 MB on the largest data set.
        torch.manual_seed(method.settings.seed)
        start = make_method(method.settings, input_shape).outer()
    way = norm([now.detach().cpu() - then.detach() for now, then in zip(method.outer(), start)])
    means = {key: _rounded(float(np.mean([row[key] for row in rows]))) if rows else None for key in LENGTHS}
    summary = {"updates": len(rows), "moved": _rounded(way / (norm(start) or 1.0)), **means}
    summary["diverged"] = sum(bool(row.get("diverged")) for row in rows)
    if rows and "weight" in rows[-1]:
        summary["weight"] = _rounded(rows[-1]["weight"])
    return summary


def score(method: Method, pool: TaskPool, episodes: EpisodeList) -> dict[str, Any]:
    """Accuracy, loss, a row a task, and the correct queries of every episode."""
    return score_of(pool, episodes, *episode_scores(method, pool, episodes))


def score_of(pool: TaskPool, episodes: EpisodeList, accuracies: np.ndarray, losses: np.ndarray) -> dict[str, Any]:
    """The same from the accuracy [E] and loss [E] of each episode."""
    way, per_class = episodes.rows.shape[1:]
    queries = way * (per_class - episodes.shot)
    values = summarise(pool, episodes, accuracies, losses).as_dict()
    values |= {key: _rounded(values[key]) for key in ("accuracy", "interval", "loss")}
    values["tasks"] = [
        row | {"accuracy": _rounded(row["accuracy"]), "interval": _rounded(row["interval"])} for row in values["tasks"]
    ]
    sha = hashlib.sha256(pool.digest().encode())
    sha.update(np.ascontiguousarray(episodes.rows).data)
    # Two runs can be paired where this agrees: the same episodes of the same rows.
    values["episode_list"] = sha.hexdigest()[:16]
    values["queries"] = queries
    values["correct"] = pack(np.rint(accuracies * queries))
    return values


def pack(counts: np.ndarray) -> str:
    """Whole numbers as text: 16-bit little-endian, deflated, base64."""
    return base64.b64encode(zlib.compress(counts.astype("<u2").tobytes(), 9)).decode()


def unpack(text: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<u2").astype(np.int64)


def episode_accuracies(record: dict[str, Any], split: str = "test") -> np.ndarray:
    """[E] accuracy of every episode of a split."""
    values = record[split]
    try:
        return unpack(values["correct"]) / values["queries"]
    except (KeyError, ValueError, zlib.error) as error:
        stem = f"{record['preset']}-{record['method']}-{record['seed']}"
        raise RunError(f"the record of {stem} has no readable {split} episodes: remove it to run it again") from error


def thin(history: list[dict[str, Any]], points: int = HISTORY_POINTS) -> list[dict[str, Any]]:
    """A history in at most so many points, each at a validation: the mean training loss since the one before."""
    validations = [row for row in history if "validation_loss" in row]
    each = max(1, math.ceil(len(validations) / points))
    # The last validation always counts: groups are made from the end.
    kept = validations[::-1][::each][::-1]
    training = [row for row in history if "loss" in row]
    thinned, before = [], 0
    for row in kept:
        losses = [t["loss"] for t in training if before < t["step"] <= row["step"]]
        point = {
            "step": row["step"],
            "loss": _rounded(sum(losses) / len(losses)) if losses else None,
            "validation_loss": _rounded(row["validation_loss"]),
            "validation_accuracy": _rounded(row["validation_accuracy"]),
        }
        thinned.append(point)
        before = row["step"]
    return thinned


def environment(device: str) -> dict[str, Any]:
    """What the numbers of a run may depend on besides its settings."""
    return {
        "fewtask": __version__,
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": platform.machine(),
        "system": platform.system(),
        "device": device,
        "threads": torch.get_num_threads(),
        "processor": processor(),
        "cores": os.cpu_count(),
    }


def processor() -> str:
    """The name of the processor, as far as the system tells."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _rounded(value: float | None) -> float | None:
    """Six digits are more than any table shows; what is not finite has no place in JSON."""
    return round(value, DIGITS) if value is not None and math.isfinite(value) else None
