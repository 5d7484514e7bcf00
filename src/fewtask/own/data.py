"""Labelled rows of a user's own, before anything has been learned from them: what every way in ends in."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fewtask.datasets.base import Progress, quiet
from fewtask.errors import DataError, unknown
from fewtask.features.array import Array
from fewtask.features.base import Featuriser
from fewtask.features.table import BadRow, Table, as_text
from fewtask.own.cautions import cautions
from fewtask.own.division import LEAST_ROWS, MOST_LISTED, TEST, TRAIN, VALIDATION, Groups, divide
from fewtask.pool import Dataset, TaskPool


@dataclass(frozen=True, eq=False)
class OwnData:
    """The rows of a table, and M labelled examples of them.

    table:      the raw inputs, a row each.
    index:      [M] row of the table of each example; in a wide table one row has an example in several tasks.
    labels:     [M] names of classes.
    tasks:      [M] names of tasks, or None where the classes are a pool from which each episode takes some.
    featuriser: turns the table's cells into features; `dataset` fits it.
    notes:      what columns were taken for, a sentence each.
    """

    name: str
    table: Table
    index: np.ndarray
    labels: np.ndarray
    tasks: np.ndarray | None
    featuriser: Featuriser
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        sizes = {len(self.index), len(self.labels)} | ({len(self.tasks)} if self.tasks is not None else set())
        if len(sizes) > 1:
            raise DataError("rows, labels and tasks differ in length: give one label and one task for each row")
        if not len(self.index):
            raise DataError(f"'{self.name}' has no labelled row: fill the label column")

    @classmethod
    def from_arrays(cls, X: Any, y: Any, groups: Any = None, name: str = "arrays") -> OwnData:
        """X [R, ...] of numbers, y [R] classes, groups [R] tasks (None: the classes are a pool)."""
        features = np.asarray(X)
        labels = np.array([as_text(label) for label in np.asarray(y).reshape(-1)])
        tasks = None if groups is None else np.array([as_text(task) for task in np.asarray(groups).reshape(-1)])
        sizes = {"X": len(features), "y": len(labels)} | ({"groups": len(tasks)} if tasks is not None else {})
        if len(set(sizes.values())) > 1:
            raise DataError(f"{', '.join(f'{key} has {n} rows' for key, n in sizes.items())}: give as many of each")
        blank = np.flatnonzero(labels == "")
        if blank.size:
            raise DataError(f"row {blank[0] + 1} of y has no label: leave unlabelled rows out")
        return cls(name, Table({"x": features}, source="X"), np.arange(len(labels)), labels, tasks, Array())

    @property
    def task_names(self) -> list[str]:
        """Tasks in the order in which they first appear; of a class pool its classes."""
        return list(dict.fromkeys((self.labels if self.tasks is None else self.tasks).tolist()))

    def keep(self, names: Sequence[str]) -> OwnData:
        """The examples of some tasks (of a class pool: of some classes); of all where none are named."""
        if not names:
            return self
        units, kind = (self.labels, "class") if self.tasks is None else (self.tasks, "task")
        for name in names:
            if name not in units:
                raise unknown(kind, name, self.task_names, DataError)
        kept = np.flatnonzero(np.isin(units, list(names)))
        tasks = None if self.tasks is None else self.tasks[kept]
        return dataclasses.replace(self, index=self.index[kept], labels=self.labels[kept], tasks=tasks)

    def dataset(
        self,
        validation: Sequence[str] | None = None,
        test: Sequence[str] = (),
        seed: int = 0,
        progress: Progress = quiet,
    ) -> Dataset:
        """Pools whose features know the training tasks' rows only; `notes` says what was decided and left out.

        validation: tasks (of a class pool: classes); None sets some aside.
        """
        division = divide(self.labels, self.tasks, self.index, validation, test, seed)
        self.featuriser.fit(self.table, np.unique(self.index[division.home == TRAIN]))
        features, good, bad = self.featuriser.transform(self.table, progress)
        place = np.full(len(self.table), -1)
        place[good] = np.arange(len(good))
        warned = cautions(self.labels, self.tasks, self.index)
        notes = [*self.notes, *warned, *division.notes, *bad_notes(bad, len(self.table))]
        pools = {}
        for number in (TRAIN, VALIDATION, TEST) if test else (TRAIN, VALIDATION):
            mine = np.flatnonzero((division.home == number) & (place[self.index] >= 0))
            pools[number] = self.pool(mine, features, place, notes)
        settings = self.featuriser.settings()
        return Dataset(self.name, pools[TRAIN], pools[VALIDATION], pools.get(TEST), settings, tuple(notes))

    def pool(self, mine: np.ndarray, features: np.ndarray, place: np.ndarray, notes: list[str]) -> TaskPool:
        """A pool of the examples at `mine`, holding their rows alone; place [R] is each row's place in features."""
        used, position = np.unique(place[self.index[mine]], return_inverse=True)
        position = position.reshape(-1)
        tasks: dict[str, dict[str, np.ndarray]] = {}
        for task, label, members in Groups.of(
            self.labels[mine], None if self.tasks is None else self.tasks[mine]
        ).members():
            classes = tasks.setdefault(task, {})
            if len(members) >= LEAST_ROWS:
                classes[label] = position[members]
        for task in [task for task, classes in tasks.items() if len(classes) < 2]:
            notes.append(f"task '{task}' is left out: too few of its rows can be read")
            del tasks[task]
        if not tasks:
            first = next((note for note in notes if "left out" in note), "")
            raise DataError(f"no task of '{self.name}' has 2 classes with {LEAST_ROWS} rows that can be read; {first}")
        rows, scale = features[used], self.featuriser.scale
        if self.tasks is None:
            return TaskPool.class_pool(rows, tasks[""], scale)
        return TaskPool.fixed(rows, tasks, scale)


def bad_notes(bad: Sequence[BadRow], count: int) -> list[str]:
    """One sentence about the rows that cannot be used, with the first of them; none where there are none."""
    if not bad:
        return []
    rows = len({row.row for row in bad})
    first = "; ".join(str(row) for row in bad[:MOST_LISTED])
    more = f" and {len(bad) - MOST_LISTED} more" if len(bad) > MOST_LISTED else ""
    return [f"{rows} of {count} rows left out: {first}{more}"]
