"""Cross-validation over tasks: which are trained on and which are held out.

The tasks that may be learned from (classes, in a class pool) are dealt into folds, and each is held out once. What is
held out serves the score alone: no weight, no λ and no number of steps of that fold is chosen on it.

λ of a bilevel method has an outer objective, whose tasks must not be those that θ learns from, and not the held-out
ones either. In a fold its outer tasks are those that the next fold holds out; θ learns from the rest. So such a method
has one part fewer to learn from than the others while it is judged, which is the price of its λ; when the winner is
trained on all tasks, λ comes frozen from the folds (see `refit`). With two folds the training tasks are halved for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fewtask.errors import TaskError
from fewtask.pool import Dataset, Pools, TaskPool, joined
from fewtask.settings import DataSettings


@dataclass(frozen=True, eq=False)
class Fold:
    """train: all tasks but the held-out ones. inner, outer: those of λ's methods, None where there are too few."""

    number: int
    train: TaskPool
    held_out: TaskPool
    inner: TaskPool | None
    outer: TaskPool | None

    def pools(self, learns_lambda: bool) -> Pools:
        """What a run of this fold learns from; the weights of its last step are kept."""
        train, outer = self.train, self.train
        if learns_lambda:
            if self.inner is None or self.outer is None:
                raise TaskError("there are too few tasks to learn lambda on others than those that are trained on")
            train, outer = self.inner, self.outer
        splits = {"train": train, "validation": self.held_out}
        return Pools(splits, outer, self.held_out, selects=False)


def available(dataset: Dataset, data: DataSettings, way: int) -> TaskPool:
    """All tasks that may be learned from: those of training and of validation."""
    pools = dataset.pools(data, way)
    if data.train_on_validation:
        return pools.train
    return joined(pools.train, pools.splits["validation"])


def units(pool: TaskPool) -> list[str]:
    """Names of what is dealt: tasks, or the classes of a class pool."""
    return list(pool.class_names) if pool.is_class_pool else [task.name for task in pool.tasks]


def fold_count(pool: TaskPool, wanted: int, way: int) -> int:
    """As many folds as are wanted, or as the tasks allow: a class pool's must have `way` classes each."""
    there, least = len(units(pool)), way if pool.is_class_pool else 1
    count = min(wanted, there // least)
    if count < 2:
        kind = "classes" if pool.is_class_pool else "tasks"
        raise TaskError(
            f"cross-validation needs at least {2 * least} {kind}, and there are {there}: name a method to train instead"
        )
    return count


def deal(pool: TaskPool, wanted: int, way: int, seed: int) -> list[Fold]:
    """The folds; every task, or class, is held out in exactly one of them."""
    count = fold_count(pool, wanted, way)
    mixed = np.random.default_rng([seed, 0xF01D]).permutation(len(units(pool)))
    parts = [sorted(mixed[f::count].tolist()) for f in range(count)]
    folds = []
    for number, held_out in enumerate(parts):
        train = [u for part in parts if part is not held_out for u in part]
        inner, outer = _for_lambda(parts, number, way if pool.is_class_pool else 1)
        folds.append(
            Fold(
                number,
                pool.subset(sorted(train)),
                pool.subset(held_out),
                None if inner is None else pool.subset(inner),
                None if outer is None else pool.subset(outer),
            )
        )
    return folds


def _for_lambda(parts: Sequence[list[int]], number: int, least: int) -> tuple[list[int] | None, list[int] | None]:
    """Tasks that θ learns from and tasks of the outer objective; neither are held out here."""
    rest = [parts[(number + k) % len(parts)] for k in range(1, len(parts))]
    if len(rest) == 1:
        half = len(rest[0]) // 2
        rest = [rest[0][:half], rest[0][half:]]
    outer, inner = rest[0], sorted(u for part in rest[1:] for u in part)
    return (inner, outer) if min(len(inner), len(outer)) >= least else (None, None)
