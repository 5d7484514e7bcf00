"""A data set, and which of its tasks serve what in a run.

The settings decide that here and nowhere else: how many classes there are, whether validation tasks are trained on,
whether validation is halved, and what happens where there is none.
"""

from __future__ import annotations

import dataclasses
import hashlib
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch

from fewtask.errors import SettingsError, TaskError
from fewtask.settings import DataSettings
from fewtask.tasks import Task, TaskPool

__all__ = ["SPLITS", "Dataset", "Pools", "Task", "TaskPool"]

SPLITS = ("train", "validation", "test")
ASIDE = 0.25
"""Share of the tasks, or classes, that is set aside for validation where there is none."""


@dataclass(frozen=True, eq=False)
class Pools:
    """The tasks of a run by what they are for.

    train:     meta-training.
    outer:     the outer objective, on which λ is trained.
    selection: the list of validation episodes, which is scored during training and chooses the weights.
    selects:   False where the weights of the last step are kept: they have been trained on the selection's tasks.
    test:      meta-test; None where there are no test tasks.
    splits:    the three as they are named in tables and saved runs; validation whole.
    notes:     what was decided that the user did not ask for, a sentence each.
    """

    splits: Mapping[str, TaskPool]
    outer: TaskPool
    selection: TaskPool
    selects: bool = True
    notes: tuple[str, ...] = ()

    @property
    def train(self) -> TaskPool:
        return self.splits["train"]

    @property
    def test(self) -> TaskPool | None:
        return self.splits.get("test")

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.train.input_shape

    def split(self, name: str) -> TaskPool:
        return _split(self.splits, name)

    def to(self, device: torch.device | str) -> Pools:
        moved: dict[int, torch.Tensor] = {}

        def move(pool: TaskPool) -> TaskPool:
            # Pools over the same rows share them there too.
            if id(pool.rows) not in moved:
                moved[id(pool.rows)] = pool.rows.to(device)
            rows = moved[id(pool.rows)]
            return pool if rows is pool.rows else dataclasses.replace(pool, rows=rows)

        splits = {name: move(pool) for name, pool in self.splits.items()}
        return dataclasses.replace(self, splits=splits, outer=move(self.outer), selection=move(self.selection))

    @cached_property
    def fingerprint(self) -> str:
        return _fingerprint(self.splits)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Tasks to learn from, to validate and to test on, and what a saved model must remember of their rows.

    validation: None: some of the training tasks, or classes, are set aside. test: None: there is no meta-test.
    features:   how raw things become rows (fingerprint kind, image size, ...), enough to make more of them later.
    notes:      what was decided while the data set was made, a sentence each for people.
    made_with:  the settings by which its maker chose rows and features; None for a user's own.
    """

    name: str
    train: TaskPool
    validation: TaskPool | None = None
    test: TaskPool | None = None
    features: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    made_with: DataSettings | None = None

    def __post_init__(self) -> None:
        shared = [] if self.test is None else shared_classes(self.train, self.test)
        if shared:
            warnings.warn(
                f"{len(shared)} test classes of '{self.name}' are training classes with the same rows "
                f"({', '.join(shared[:3])}): accuracies on them say nothing about new tasks",
                stacklevel=3,
            )

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.train.input_shape

    @property
    def splits(self) -> dict[str, TaskPool]:
        """Those that there are, by name."""
        return {name: pool for name in SPLITS if (pool := getattr(self, name)) is not None}

    def split(self, name: str) -> TaskPool:
        return _split(self.splits, name)

    @cached_property
    def fingerprint(self) -> str:
        return _fingerprint(self.splits)

    def pools(self, data: DataSettings, way: int = 2) -> Pools:
        """Which tasks serve what; `way` classes at least are set aside from a class pool without validation."""
        if data.halve_validation and data.train_on_validation:
            raise SettingsError(
                "data.halve_validation and data.train_on_validation exclude each other: nothing is left to select on"
            )
        self._check_made_with(data)
        train, validation = self.train, self.validation
        notes = list(self.notes)
        if data.train_classes is not None:
            train = train.restrict(data.train_classes)
        if validation is None:
            train, validation = set_aside(train, data.seed, way)
            notes.append(_set_aside_note(validation))
        if data.validation_classes is not None:
            validation = validation.restrict(data.validation_classes)
        train = train.fewer(data.train_tasks, data.train_rows, data.draw)
        outer = selection = validation
        if data.halve_validation:
            outer, selection = validation.halves(data.seed)
        if data.train_on_validation:
            train = joined(train, validation)
            notes.append("The validation tasks are trained on: the weights of the last step are kept.")
        splits = {"train": train, "validation": validation}
        if self.test is not None:
            splits["test"] = self.test
        return Pools(splits, outer, selection, not data.train_on_validation, tuple(notes))

    def _check_made_with(self, data: DataSettings) -> None:
        """Refuses settings that only the maker of a data set can apply, and that it has not applied."""
        made_with = self.made_with or DataSettings()
        for name in ("max_per_class", "features", "strict"):
            wanted, there = getattr(data, name), getattr(made_with, name)
            if wanted == there:
                continue
            if self.made_with is None:
                raise SettingsError(
                    f"data.{name} is for the data sets that fewtask prepares, and '{self.name}' is your own: choose "
                    "its rows and features before, and leave the setting out (data.train_rows limits training rows)"
                )
            raise SettingsError(f"'{self.name}' was loaded with data.{name} {there}, not {wanted}: load it with these")


def set_aside(pool: TaskPool, seed: int, way: int = 2) -> tuple[TaskPool, TaskPool]:
    """The pool without a quarter of its tasks, or of the classes of a class pool, and those by themselves."""
    what, least = ("classes", way) if pool.is_class_pool else ("tasks", 1)
    available = len(pool.class_names if pool.is_class_pool else pool.tasks)
    count = max(least, round(ASIDE * available))
    if available - count < least:
        raise TaskError(
            f"none of {available} {what} can be set aside for validation: bring validation tasks, or at least "
            f"{2 * least} {what}"
        )
    mixed = np.random.default_rng(seed).permutation(available)
    rest, aside = sorted(mixed[count:].tolist()), sorted(mixed[:count].tolist())
    return pool.subset(rest), pool.subset(aside)


def joined(first: TaskPool, second: TaskPool) -> TaskPool:
    """The tasks of two pools in one; two class pools become one pool of all their classes."""
    if first.scale != second.scale or first.input_shape != second.input_shape:
        raise TaskError("the training and the validation tasks have different rows and cannot be joined")
    shared = first.rows is second.rows
    rows = first.rows if shared else torch.cat([first.rows, second.rows])
    groups = first.groups
    if first.groups is not None and second.groups is not None and not shared:
        groups = np.concatenate([first.groups, second.groups])
    one_pool = first.is_class_pool and second.is_class_pool
    tasks: dict[str, dict[str, np.ndarray]] = {}
    for pool, shift in ((first, 0), (second, 0 if shared else len(first.rows))):
        for task in pool.tasks:
            name = first.tasks[0].name if one_pool else task.name
            classes = tasks.setdefault(name, {})
            for index in task.classes:
                if pool.class_names[index] in classes:
                    raise TaskError(f"training and validation both have '{pool.class_names[index]}' in '{name}'")
                classes[pool.class_names[index]] = pool.class_rows[index] + shift
    return dataclasses.replace(TaskPool.fixed(rows, tasks, first.scale, groups), is_class_pool=one_pool)


def shared_classes(first: TaskPool, second: TaskPool) -> list[str]:
    """Names of the classes that two pools over the same rows have in common, rows and all."""
    if first.rows.data_ptr() != second.rows.data_ptr() or first.rows.shape != second.rows.shape:
        return []
    known = {(name, index.tobytes()) for name, index in zip(first.class_names, first.class_rows)}
    return [name for name, index in zip(second.class_names, second.class_rows) if (name, index.tobytes()) in known]


def _split(splits: Mapping[str, TaskPool], name: str) -> TaskPool:
    if name not in SPLITS:
        raise TaskError(f"unknown split '{name}': known are {', '.join(SPLITS)}")
    if name not in splits:
        raise TaskError(f"there are no {name} tasks: this data set has {', '.join(splits)}")
    return splits[name]


def _fingerprint(splits: Mapping[str, TaskPool]) -> str:
    """Of all rows, classes and tasks."""
    return hashlib.sha256("".join(pool.digest() for pool in splits.values()).encode()).hexdigest()[:16]


def _set_aside_note(pool: TaskPool) -> str:
    names = list(pool.class_names) if pool.is_class_pool else [task.name for task in pool.tasks]
    return f"No validation tasks were given: {', '.join(names)} of the training data were set aside for validation."
