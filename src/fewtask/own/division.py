"""Which labelled examples train, which validate and which test: whole tasks, or whole classes of a class pool.

Where there is only one task, or too few classes, its rows are divided instead, which is said: what is learned then
has seen the very task that it is validated on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fewtask.errors import DataError, unknown
from fewtask.pool import ASIDE, SPLITS

NOWHERE, TRAIN, VALIDATION, TEST = -1, 0, 1, 2
LEAST_ROWS = 2
"""Of a class: one to show and one to ask about."""
MOST_LISTED = 5


@dataclass(frozen=True)
class Division:
    """home: [M] split of each example (-1: left out); notes: what was decided and why, a sentence each."""

    home: np.ndarray
    notes: tuple[str, ...]


def divide(
    labels: np.ndarray,
    tasks: np.ndarray | None,
    rows: np.ndarray,
    validation: Sequence[str] | None,
    test: Sequence[str],
    seed: int,
) -> Division:
    """labels [M], tasks [M] or None for a class pool, rows [M] of the table."""
    kept, notes = usable(labels, tasks)
    units, kind = (labels, "class") if tasks is None else (tasks, "task")
    names = list(dict.fromkeys(units[kept].tolist()))
    _check_names(names, validation or (), test, kind)
    home = np.full(len(labels), NOWHERE)
    home[kept] = TRAIN
    home[kept & np.isin(units, list(test))] = TEST
    left = [name for name in names if name not in test]
    if validation is None:
        validation = _set_aside(left, kind, seed)
        if not validation:
            return _halve(home, labels, tasks, rows, seed, notes, kind, len(left))
        notes.append(f"{kind}es set aside for validation: " if kind == "class" else "tasks set aside for validation: ")
        notes[-1] += f"{', '.join(validation)} (others with --validation-tasks)"
    home[kept & np.isin(units, list(validation))] = VALIDATION
    _check_left(home, units, kind)
    return Division(home, tuple(notes))


def usable(labels: np.ndarray, tasks: np.ndarray | None) -> tuple[np.ndarray, list[str]]:
    """[M] whether an example's class has rows enough and its task classes enough; what is left out, and why."""
    groups = Groups.of(labels, tasks)
    enough = groups.counts >= LEAST_ROWS
    short = [
        f"class '{groups.labels[c]}'{_of(groups.tasks[t])} is left out: it has 1 row, and {LEAST_ROWS} are needed"
        for t, c in zip(groups.task[~enough], groups.label[~enough])
    ]
    classes = np.bincount(groups.task[enough], minlength=len(groups.tasks))
    poor = [
        f"task '{groups.tasks[t]}' is left out: it has {classes[t]} usable class, and 2 are needed"
        for t in np.flatnonzero(classes < 2)
        if tasks is not None
    ]
    kept = (enough & (classes[groups.task] >= 2))[groups.example]
    if not kept.any():
        raise DataError(
            f"no task has 2 classes of at least {LEAST_ROWS} rows: label more rows, or name another label column"
        )
    return kept, _first(short, "classes") + _first(poor, "tasks")


def _of(task: str) -> str:
    return f" of task '{task}'" if task else ""


def _first(notes: list[str], what: str) -> list[str]:
    """The first few notes of a kind, and how many more there are."""
    more = len(notes) - MOST_LISTED
    return notes[:MOST_LISTED] + ([f"{more:,} more {what} are left out for the same reason"] if more > 0 else [])


@dataclass(frozen=True)
class Groups:
    """The classes of the tasks, each once: G pairs of a task and a label.

    tasks, labels: names; task, label [G] positions in them; counts [G] examples; example [M] pair of each example.
    """

    tasks: list[str]
    labels: list[str]
    task: np.ndarray
    label: np.ndarray
    counts: np.ndarray
    example: np.ndarray

    @classmethod
    def of(cls, labels: np.ndarray, tasks: np.ndarray | None) -> Groups:
        """Tasks in the order in which they first appear, their classes in the order of their names."""
        names, code = np.unique(labels, return_inverse=True)
        first: dict[str, int] = {}
        numbers = [0] * len(labels) if tasks is None else [first.setdefault(t, len(first)) for t in tasks.tolist()]
        pair = np.array(numbers, dtype=np.int64) * len(names) + code.reshape(-1)
        pairs, example, counts = np.unique(pair, return_inverse=True, return_counts=True)
        task, label = np.divmod(pairs, len(names))
        return cls(list(first) or [""], names.tolist(), task, label, counts, example.reshape(-1))

    def members(self) -> Iterator[tuple[str, str, np.ndarray]]:
        """Task, label and examples of each pair, one after the other."""
        order = np.argsort(self.example, kind="stable")
        for t, c, own in zip(self.task, self.label, np.split(order, np.cumsum(self.counts)[:-1])):
            yield self.tasks[t], self.labels[c], own


def _check_names(names: Sequence[str], validation: Sequence[str], test: Sequence[str], kind: str) -> None:
    for name in (*validation, *test):
        if name not in names:
            raise unknown(kind, name, names, DataError)
    both = sorted(set(validation) & set(test))
    if both:
        raise DataError(f"{kind} '{both[0]}' is named for validation and for test: a {kind} can serve only one")


def _set_aside(names: Sequence[str], kind: str, seed: int) -> list[str]:
    """A quarter of the tasks, or of the classes and then at least 2 of them; none where too few would be left."""
    least = 2 if kind == "class" else 1
    count = max(least, round(ASIDE * len(names)))
    if len(names) - count < least:
        return []
    chosen = np.random.default_rng([seed, len(names)]).permutation(len(names))[:count]
    return [names[number] for number in sorted(chosen)]


def _halve(
    home: np.ndarray,
    labels: np.ndarray,
    tasks: np.ndarray | None,
    rows: np.ndarray,
    seed: int,
    notes: list[str],
    kind: str,
    count: int,
) -> Division:
    """Half of the rows of each class validate; a row of the table stays on one side with all its labels."""
    rng = np.random.default_rng([seed, count])
    side = np.full(int(rows.max()) + 1, NOWHERE)
    mine = np.flatnonzero(home == TRAIN)
    for _, _, members in Groups.of(labels[mine], None if tasks is None else tasks[mine]).members():
        own = np.unique(rows[mine[members]])
        fresh = rng.permutation(own[side[own] == NOWHERE])
        side[fresh[::2]], side[fresh[1::2]] = TRAIN, VALIDATION
    home[mine] = side[rows[mine]]
    many = f"{count} {'classes' if kind == 'class' else 'task' if count == 1 else 'tasks'}"
    notes.append(f"with {many} nothing can be set aside for validation, so half of the rows of each class validate")
    return Division(home, tuple(notes))


def _check_left(home: np.ndarray, units: np.ndarray, kind: str) -> None:
    least = 2 if kind == "class" else 1
    for split, number in (("train", TRAIN), ("validation", VALIDATION)):
        count = len(np.unique(units[home == number]))
        if count < least:
            raise DataError(
                f"{count} {kind}{'' if count == 1 else 'es' if kind == 'class' else 's'} left for {split}, and {least} "
                f"needed: name fewer with {' and '.join(_flags(split))}"
            )


def _flags(split: str) -> list[str]:
    assert split in SPLITS
    return ["--validation-tasks", "--test-tasks"] if split == "train" else ["--test-tasks"]
