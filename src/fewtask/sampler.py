"""Seeded episodes as one index gather from rows in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fewtask.episodes import Episode
from fewtask.errors import TaskError
from fewtask.pool import TaskPool


class EpisodeSampler:
    """Draws batches of episodes from a pool with a generator of its own.

    Way, shot and query are arguments of each call. The state of the generator is plain JSON, so that a run can
    be continued exactly.
    """

    def __init__(self, pool: TaskPool, seed: int | tuple[int, ...]) -> None:
        self.pool = pool
        self.rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))

    def sample(self, batch: int, way: int, shot: int, query: int, tasks: np.ndarray | None = None) -> Episode:
        """B episodes; `tasks` [B] fixes the task of each, otherwise they are drawn."""
        return self.sample_groups(batch, way, shot, query, size=1, tasks=tasks)[0]

    def sample_groups(
        self,
        batch: int,
        way: int,
        shot: int,
        query: int,
        size: int,
        partner_query: int = 0,
        tasks: np.ndarray | None = None,
        aligned: bool = False,
    ) -> list[Episode]:
        """B groups of `size` different tasks: the first with queries, its partners with `partner_query` of them.

        Fixed tasks of a group differ. In a class pool the classes of a group are drawn without replacement
        while there are enough of them (Figure 1 of the paper), and else overlap between tasks. With `aligned` the
        tasks of a group have the same classes in the same order, for tasks that share their labels.
        """
        chosen, classes = self._classes(batch, way, size, tasks, aligned)
        index = self._rows(classes, shot, max(query, partner_query) if size > 1 else query)
        episodes = []
        for member in range(size):
            queries = query if member == 0 else partner_query
            picked = index[member, :, :, : shot + queries]
            rows = self.pool.gather(picked)
            device = rows.device
            episodes.append(
                Episode(
                    support=rows[:, :, :shot],
                    query=rows[:, :, shot:],
                    tasks=torch.from_numpy(chosen[member]).to(device),
                    classes=torch.from_numpy(classes[member]).to(device),
                )
            )
        return episodes

    def sample_index(
        self, batch: int, way: int, shot: int, query: int, tasks: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tasks [B], classes [B, K] and row indices [B, K, N + Q] (support first), without gathering rows."""
        chosen, classes = self._classes(batch, way, 1, tasks)
        return chosen[0], classes[0], self._rows(classes, shot, query)[0]

    def _classes(
        self, batch: int, way: int, size: int, tasks: np.ndarray | None, aligned: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Tasks [size, B] and classes [size, B, K]; the random order of classes is the paper's sigma."""
        pool = self.pool
        smallest = min(pool.tasks, key=lambda task: len(task.classes))
        if way > len(smallest.classes):
            raise TaskError(
                f"{way}-way episodes need {way} classes, and task '{smallest.name}' has {len(smallest.classes)}"
            )
        if pool.is_class_pool:
            count = len(pool.tasks[0].classes)
            chosen = np.zeros((size, batch), dtype=np.int64)
            if size * way <= count:
                drawn = self.rng.random((batch, count)).argsort(axis=1)[:, : size * way]
                return chosen, np.ascontiguousarray(drawn.reshape(batch, size, way).swapaxes(0, 1))
            drawn = self.rng.random((size, batch, count)).argsort(axis=2)[:, :, :way]
            return chosen, drawn
        if size > len(pool.tasks):
            raise TaskError(f"groups of {size} different tasks need {size} tasks, and there are {len(pool.tasks)}")
        if tasks is None:
            chosen = self.rng.random((batch, len(pool.tasks))).argsort(axis=1)[:, :size].T
        else:
            # The given task leads each group; its partners are drawn from the others.
            keys = self.rng.random((batch, len(pool.tasks)))
            keys[np.arange(batch), tasks] = -1.0
            chosen = keys.argsort(axis=1)[:, :size].T
        counts = pool.task_counts[chosen]
        keys = self.rng.random((*chosen.shape, pool.task_table.shape[1]))
        keys[np.arange(keys.shape[-1]) >= counts[..., None]] = 2.0
        if aligned:
            keys[:] = keys[:1]
        order = keys.argsort(axis=-1)[..., :way]
        return np.ascontiguousarray(chosen), np.take_along_axis(pool.task_table[chosen], order, axis=-1)

    def _rows(self, classes: np.ndarray, shot: int, query: int) -> np.ndarray:
        """Distinct rows of each class: [..., K] -> [..., K, shot + query]."""
        pool, need = self.pool, shot + query
        flat = classes.reshape(-1)
        sizes = pool.sizes[flat]
        if sizes.min() < need:
            short = int(flat[sizes.argmin()])
            task = next(task.name for task in pool.tasks if short in task.classes)
            raise TaskError(
                f"class '{pool.class_names[short]}' of task '{task}' has {pool.sizes[short]} rows, and {shot} "
                f"support and {query} query rows need {need}"
            )
        if pool.groups is not None:
            episodes = classes.reshape(-1, classes.shape[-1])
            return np.stack([self._apart(episode, shot, query) for episode in episodes]).reshape(*classes.shape, need)
        if sizes.min() < need * need:
            keys = self.rng.random((flat.size, int(sizes.max())))
            keys[np.arange(keys.shape[1]) >= sizes[:, None]] = 2.0
            position = keys.argsort(axis=1)[:, :need]
        else:
            position = self._distinct(sizes, need)
        return pool.table[flat[:, None], position].reshape(*classes.shape, need)

    def _distinct(self, sizes: np.ndarray, need: int) -> np.ndarray:
        """Distinct positions below each size, by drawing again the lines that hold a repetition.

        For classes much larger than the draw this is far cheaper than shuffling whole classes, and every ordered
        choice of distinct rows stays equally likely.
        """
        position = (self.rng.random((sizes.size, need)) * sizes[:, None]).astype(np.int64)
        if need == 1:
            return position
        while True:
            ordered = np.sort(position, axis=1)
            repeated = np.flatnonzero((ordered[:, 1:] == ordered[:, :-1]).any(axis=1))
            if not repeated.size:
                return position
            position[repeated] = (self.rng.random((repeated.size, need)) * sizes[repeated, None]).astype(np.int64)

    def _apart(self, classes: np.ndarray, shot: int, query: int) -> np.ndarray:
        """Rows [K, shot + query] of one episode in which no query has the group of any support row."""
        pool = self.pool
        assert pool.groups is not None
        mixed = [self.rng.permutation(pool.class_rows[label]) for label in classes]
        supports = [rows[:shot] for rows in mixed]
        queries = _outside(mixed, supports, pool.groups)
        if min(map(len, queries)) < query:
            # Large groups may have filled a support: take its rows from the smallest groups instead.
            supports = [_smallest_groups_first(rows, pool.groups)[:shot] for rows in mixed]
            queries = _outside(mixed, supports, pool.groups)
        for label, rows, left in zip(classes, mixed, queries):
            if len(left) < query:
                raise TaskError(
                    f"class '{pool.class_names[label]}' cannot give {query} query rows from other groups than the "
                    f"support's: it has {len(np.unique(pool.groups[rows]))} groups in {len(rows)} rows"
                )
        return np.stack([np.concatenate([s, q[:query]]) for s, q in zip(supports, queries)])

    def state(self) -> dict[str, Any]:
        """The generator's state as plain JSON."""
        return dict(self.rng.bit_generator.state)

    def set_state(self, state: dict[str, Any]) -> None:
        self.rng.bit_generator.state = state


def _outside(rows: list[np.ndarray], supports: list[np.ndarray], groups: np.ndarray) -> list[np.ndarray]:
    """Of each class's rows those whose group no support row has."""
    taken = groups[np.concatenate(supports)]
    return [own[~np.isin(groups[own], taken)] for own in rows]


def _smallest_groups_first(rows: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Rows in random order by the size of their group, the rows of each group together."""
    own = groups[rows]
    _, first, inverse = np.unique(own, return_index=True, return_inverse=True)
    # Groups of one size stay in the order in which they first appear, which is random.
    return rows[np.lexsort((first[inverse], np.bincount(groups)[own]))]
