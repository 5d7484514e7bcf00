"""A data set in one safetensors file, so that runs in other processes, and after a crash, find the very same tasks.

Rows that several splits share are stored once, and shared again when they are read. Meta-test is left out: nothing
that chooses may look at it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fewtask.errors import RunError
from fewtask.files import read_tensors, write_tensors
from fewtask.pool import Dataset, Task, TaskPool

KEPT = ("train", "validation")


def write_dataset(path: Path, dataset: Dataset) -> None:
    tensors: dict[str, Tensor] = {}
    rows_of: dict[int, str] = {}
    splits: dict[str, Any] = {}
    for name in KEPT:
        pool = dataset.splits.get(name)
        if pool is None:
            continue
        rows = rows_of.setdefault(id(pool.rows), f"{name}/rows")
        tensors[rows] = pool.rows
        tensors[f"{name}/index"] = torch.from_numpy(np.concatenate(pool.class_rows).astype(np.int64))
        if pool.groups is not None:
            tensors[f"{name}/groups"] = torch.from_numpy(np.unique(pool.groups, return_inverse=True)[1].reshape(-1))
        splits[name] = {
            "rows": rows,
            "classes": list(pool.class_names),
            "sizes": [len(index) for index in pool.class_rows],
            "tasks": [[task.name, list(task.classes)] for task in pool.tasks],
            "scale": pool.scale,
            "class_pool": pool.is_class_pool,
        }
    about = {"name": dataset.name, "features": dict(dataset.features), "notes": list(dataset.notes), "splits": splits}
    write_tensors(path, tensors, {"state": json.dumps(about)})


def read_dataset(path: Path) -> Dataset:
    tensors, texts = read_tensors(path)
    try:
        about = json.loads(texts["state"])
        pools = {name: _pool(tensors, name, values) for name, values in about["splits"].items()}
        return Dataset(
            about["name"], pools["train"], pools.get("validation"), None, about["features"], tuple(about["notes"])
        )
    except (KeyError, ValueError, TypeError) as error:
        raise RunError(f"{path} does not hold tasks ({error}): remove its folder to start again") from error


def _pool(tensors: dict[str, Tensor], name: str, values: dict[str, Any]) -> TaskPool:
    ends = np.cumsum(values["sizes"])
    groups = tensors.get(f"{name}/groups")
    return TaskPool(
        rows=tensors[values["rows"]],
        class_names=tuple(values["classes"]),
        class_rows=tuple(np.split(tensors[f"{name}/index"].numpy(), ends[:-1])),
        tasks=tuple(Task(task, tuple(classes)) for task, classes in values["tasks"]),
        scale=None if values["scale"] is None else (float(values["scale"][0]), float(values["scale"][1])),
        groups=None if groups is None else groups.numpy(),
        is_class_pool=values["class_pool"],
    )
