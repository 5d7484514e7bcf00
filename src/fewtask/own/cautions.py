"""Where learning across tasks cannot work, or says less than it seems to."""

from __future__ import annotations

import numpy as np

from fewtask.own.division import LEAST_ROWS, Groups

LEAST_CLASSES = 4
"""Of a class pool: two to learn from and two to validate on."""


def cautions(labels: np.ndarray, tasks: np.ndarray | None, rows: np.ndarray) -> list[str]:
    """A sentence each, of examples with labels [M], tasks [M] and rows [M] of the table."""
    groups = Groups.of(labels, tasks)
    found = []
    if tasks is not None and len(groups.tasks) == 1:
        found.append(
            "warning: there is one task, and learning across tasks needs several: expect no more than an ordinary "
            "classifier would give"
        )
    if tasks is None and len(groups.labels) < LEAST_CLASSES:
        found.append(
            f"warning: {len(groups.labels)} classes are too few for a pool of which some are set aside: give a column "
            f"of tasks, or {LEAST_CLASSES} classes"
        )
    small = np.flatnonzero(groups.counts == LEAST_ROWS)
    if len(small):
        first, task = groups.labels[groups.label[small[0]]], groups.tasks[groups.task[small[0]]]
        place = f" of task '{task}'" if task else ""
        many = "1 class has" if len(small) == 1 else f"{len(small)} classes have"
        found.append(
            f"warning: {many} two rows ('{first}'{place}), so that every episode has one example and one question a "
            "class: label more rows, or leave such classes out"
        )
    if len(groups.tasks) > 1 and _share_all(groups, rows):
        found.append(
            "warning: all tasks share all rows: validation and test then speak of new questions about known rows, not "
            "of new rows"
        )
    return found


def _share_all(groups: Groups, rows: np.ndarray) -> bool:
    """Whether every task has the same rows: there are then no more pairs of task and row than all of them."""
    of = groups.task[groups.example]
    pairs = len(np.unique(of * (int(rows.max()) + 1) + rows))
    return pairs == len(groups.tasks) * len(np.unique(rows))
