"""Rows in memory, the classes they belong to, and the tasks that the classes make.

One class serves both kinds of source. *Fixed tasks* (an assay, a transformed digit set) are several tasks with
their own classes. A *class pool* (the sounds of ESC-50) is a single task with many classes, of which each
episode takes a few.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fewtask.errors import TaskError


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
        check_finite(torch.as_tensor(rows))
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
        rows = self.rows.to(device)
        return self if rows is self.rows else dataclasses.replace(self, rows=rows)

    def restrict(self, classes: int) -> TaskPool:
        """The first so many classes of a class pool (Tables 8 and 9 vary that number)."""
        if not self.is_class_pool:
            raise TaskError("only a class pool can be restricted to fewer classes")
        available = len(self.class_names)
        if not 2 <= classes <= available:
            raise TaskError(f"{classes} classes were asked for, and the pool has {available} (at least 2 needed)")
        return self.subset(range(classes))

    def subset(self, kept: Collection[int]) -> TaskPool:
        """Some of the tasks, or of the classes of a class pool, by their numbers."""
        tasks = self.tasks if self.is_class_pool else [self.tasks[i] for i in kept]
        named = {
            task.name: {
                self.class_names[c]: self.class_rows[c] for c in task.classes if c in kept or not self.is_class_pool
            }
            for task in tasks
        }
        pool = TaskPool.fixed(self.rows, named, self.scale, self.groups)
        return dataclasses.replace(pool, is_class_pool=self.is_class_pool)

    def fewer(self, tasks: int | None, rows: int | None, draw: int) -> TaskPool:
        """At most so many tasks (classes, in a class pool) and rows a class; each draw is a choice of its own.

        The tasks of a draw with fewer of them are among those of the same draw with more.
        """
        if tasks is None and rows is None:
            return self
        available = len(self.class_names) if self.is_class_pool else len(self.tasks)
        order = np.random.default_rng([draw, 0xD4A3]).permutation(available)
        kept = range(available) if tasks is None else sorted(order[:tasks].tolist())
        if tasks is not None and not 1 + self.is_class_pool <= tasks <= available:
            kind = "classes" if self.is_class_pool else "tasks"
            raise TaskError(f"data.train_tasks is {tasks}, and there are {available} {kind} to train on")
        if rows is not None and rows < 1:
            raise TaskError(f"data.train_rows is {rows}: a class needs at least one row")
        # Every class draws for itself, whatever else is kept.
        chosen = self.class_rows
        if rows is not None:
            draws = [np.random.default_rng([draw, 0x20E5, c]) for c in range(len(chosen))]
            chosen = tuple(np.sort(rng.permutation(own)[:rows]) for rng, own in zip(draws, chosen))
        pool = dataclasses.replace(self, class_rows=chosen)
        return pool.subset(kept)

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


def check_finite(rows: Tensor) -> None:
    """Refuses NaN and infinity by row and column: in training they would be a loss that is NaN, blamed on its rate."""
    if not rows.is_floating_point():
        return
    # The sum is finite exactly where all are, but for an overflow: cheaper than a mask as large as the rows.
    if torch.isfinite(rows.sum(dtype=torch.float64)):
        return
    flat = rows.reshape(len(rows), -1)
    wrong = torch.nonzero(~torch.isfinite(flat))
    if len(wrong):
        row, column = wrong[0].tolist()
        count = len(torch.unique(wrong[:, 0]))
        raise TaskError(
            f"row {row}, column {column} holds {flat[row, column].item()}, and {count} of {len(rows)} rows hold NaN or "
            "infinity: leave such rows out or fill them"
        )
