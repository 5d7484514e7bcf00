"""Rows in memory, the classes they belong to, and the tasks that the classes make.

One class serves both kinds of source. *Fixed tasks* (an assay, a transformed digit set) are several tasks with
their own classes. A *class pool* (the sounds of ESC-50) is a single task with many classes, of which each
episode takes a few.
"""

from __future__ import annotations

import dataclasses
import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fewtask.errors import TaskError

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Task:
    """A task's name and the indices of its classes in the pool."""

    name: str
    classes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class TaskPool:
    """The rows, classes and tasks of one split.

    rows:    [R, ...] tensor of any type; small types stay small until a batch is gathered.
    classes: per class, its name and the indices of its rows.
    tasks:   the fixed tasks, or one task that holds every class of a class pool.
    scale:   (shift, factor) applied after the conversion to float32: x -> (x - shift) * factor. None leaves
             integer rows as they are (token ids).
    groups:  [R] optional group of each row (a source recording, a hypothesis): where it is given, support and
             query of an episode never share a group.
    is_class_pool: whether the classes are a pool to draw from, rather than those of fixed tasks.
    """

    rows: Tensor
    class_names: tuple[str, ...]
    class_rows: tuple[np.ndarray, ...]
    tasks: tuple[Task, ...]
    scale: tuple[float, float] | None = (0.0, 1.0)
    groups: np.ndarray | None = None
    is_class_pool: bool = False

    def __post_init__(self) -> None:
        """Refuses rows that do not exist or are named twice: later they would be an IndexError, or a leak."""
        for name, index in zip(self.class_names, self.class_rows):
            outside = index[(index < 0) | (index >= len(self.rows))]
            if len(outside):
                raise TaskError(f"class '{name}' names row {outside[0]}, and the rows are 0 to {len(self.rows) - 1}")
            values, counts = np.unique(index, return_counts=True)
            if len(values) < len(index):
                raise TaskError(
                    f"class '{name}' names row {values[counts.argmax()]} {counts.max()} times: an episode could have "
                    "it among support and queries; name each row once"
                )

    @classmethod
    def fixed(
        cls,
        rows: Tensor | np.ndarray,
        tasks: Mapping[str, Mapping[str, Sequence[int] | np.ndarray]],
        scale: tuple[float, float] | None = (0.0, 1.0),
        groups: np.ndarray | None = None,
    ) -> TaskPool:
        """A pool of fixed tasks: {task name: {class name: row indices}}."""
        names: list[str] = []
        class_rows: list[np.ndarray] = []
        made: list[Task] = []
        for task, members in tasks.items():
            if len(members) < 2:
                raise TaskError(f"task '{task}' has {len(members)} class: at least 2 are needed to classify")
            first = len(names)
            for name, index in members.items():
                names.append(name)
                class_rows.append(np.asarray(index, dtype=np.int64))
            made.append(Task(task, tuple(range(first, len(names)))))
        if not made:
            raise TaskError("a pool needs at least one task")
        return cls(torch.as_tensor(rows), tuple(names), tuple(class_rows), tuple(made), scale, groups)

    @classmethod
    def class_pool(
        cls,
        rows: Tensor | np.ndarray,
        classes: Mapping[str, Sequence[int] | np.ndarray],
        scale: tuple[float, float] | None = (0.0, 1.0),
        groups: np.ndarray | None = None,
        name: str = "all classes",
    ) -> TaskPool:
        """A pool of classes, of which each episode draws some: {class name: row indices}."""
        return dataclasses.replace(cls.fixed(rows, {name: classes}, scale, groups), is_class_pool=True)

    @property
    def input_shape(self) -> tuple[int, ...]:
        return tuple(self.rows.shape[1:])

    @cached_property
    def sizes(self) -> np.ndarray:
        """[C] number of rows of each class."""
        return np.array([len(index) for index in self.class_rows], dtype=np.int64)

    @cached_property
    def table(self) -> np.ndarray:
        """[C, longest] row indices of each class, padded with zeros."""
        table = np.zeros((len(self.class_rows), max(1, int(self.sizes.max(initial=1)))), dtype=np.int64)
        for line, index in zip(table, self.class_rows):
            line[: len(index)] = index
        return table

    @cached_property
    def task_counts(self) -> np.ndarray:
        """[T] number of classes of each task."""
        return np.array([len(task.classes) for task in self.tasks], dtype=np.int64)

    @cached_property
    def task_table(self) -> np.ndarray:
        """[T, most] class indices of each task, padded with zeros."""
        table = np.zeros((len(self.tasks), self.task_counts.max()), dtype=np.int64)
        for line, task in zip(table, self.tasks):
            line[: len(task.classes)] = task.classes
        return table

    def task_index(self, name: str) -> int:
        for index, task in enumerate(self.tasks):
            if task.name == name:
                return index
        known = ", ".join(task.name for task in self.tasks)
        raise TaskError(f"unknown task '{name}': this pool has {known}")

    def decode(self, rows: Tensor) -> Tensor:
        """Stored rows to what the encoder takes: float32, shifted and scaled; token ids stay integers."""
        if self.scale is None:
            return rows
        shift, factor = self.scale
        rows = rows.to(torch.float32)
        return rows if (shift, factor) == (0.0, 1.0) else (rows - shift) * factor

    def gather(self, index: np.ndarray | Tensor) -> Tensor:
        """Decoded rows of any index array: [...] -> [..., *input_shape]."""
        flat = torch.as_tensor(index, device=self.rows.device)
        chosen = self.rows.index_select(0, flat.reshape(-1))
        return self.decode(chosen).reshape(*flat.shape, *self.input_shape)

    def to(self, device: torch.device | str) -> TaskPool:
        return dataclasses.replace(self, rows=self.rows.to(device))

    def restrict(self, classes: int) -> TaskPool:
        """The first so many classes of a class pool (Tables 8 and 9 vary that number)."""
        if not self.is_class_pool:
            raise TaskError("only a class pool can be restricted to fewer classes")
        available = len(self.class_names)
        if not 2 <= classes <= available:
            raise TaskError(f"{classes} classes were asked for, and the pool has {available} (at least 2 needed)")
        kept = dict(zip(self.class_names[:classes], self.class_rows[:classes]))
        return TaskPool.class_pool(self.rows, kept, self.scale, self.groups, self.tasks[0].name)

    def halves(self, seed: int) -> tuple[TaskPool, TaskPool]:
        """Two pools with the same tasks and classes and disjoint halves of each class's rows."""
        rng = np.random.default_rng(seed)
        mixed = [rng.permutation(index) for index in self.class_rows]
        first = tuple(index[: len(index) // 2] for index in mixed)
        second = tuple(index[len(index) // 2 :] for index in mixed)
        return (
            dataclasses.replace(self, class_rows=first),
            dataclasses.replace(self, class_rows=second),
        )

    def digest(self) -> str:
        """A fingerprint of everything that episodes depend on."""
        sha = hashlib.sha256()
        sha.update(repr((tuple(self.rows.shape), str(self.rows.dtype), self.scale)).encode())
        sha.update(np.ascontiguousarray(self.rows.cpu().numpy()).data)
        for name, index in zip(self.class_names, self.class_rows):
            sha.update(name.encode() + b"\0" + np.ascontiguousarray(index).data)
        sha.update(repr(self.tasks).encode())
        if self.groups is not None:
            sha.update(np.ascontiguousarray(self.groups).data)
        return sha.hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Three pools and what a saved model must remember of where its rows came from.

    features: how raw things become rows (fingerprint kind, image size, ...), enough to make more of them later.
    notes:    what was decided while the pools were made, a sentence each for people.
    """

    name: str
    train: TaskPool
    validation: TaskPool
    test: TaskPool
    features: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shared = shared_classes(self.train, self.test)
        if shared:
            warnings.warn(
                f"{len(shared)} test classes of '{self.name}' are training classes with the same rows "
                f"({', '.join(shared[:3])}): accuracies on them say nothing about new tasks",
                stacklevel=3,
            )

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.train.input_shape

    def split(self, name: str) -> TaskPool:
        if name not in SPLITS:
            raise TaskError(f"unknown split '{name}': known are {', '.join(SPLITS)}")
        pool: TaskPool = getattr(self, name)
        return pool

    def to(self, device: torch.device | str) -> Dataset:
        return dataclasses.replace(
            self, train=self.train.to(device), validation=self.validation.to(device), test=self.test.to(device)
        )

    @cached_property
    def fingerprint(self) -> str:
        digests = [self.split(split).digest() for split in SPLITS]
        return hashlib.sha256("".join(digests).encode()).hexdigest()[:16]


def shared_classes(first: TaskPool, second: TaskPool) -> list[str]:
    """Names of the classes that two pools over the same rows have in common, rows and all."""
    if first.rows.data_ptr() != second.rows.data_ptr() or first.rows.shape != second.rows.shape:
        return []
    known = {(name, index.tobytes()) for name, index in zip(first.class_names, first.class_rows)}
    return [name for name, index in zip(second.class_names, second.class_rows) if (name, index.tobytes()) in known]
