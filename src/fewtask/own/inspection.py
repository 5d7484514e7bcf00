"""A look at own data before training: sizes, repetitions, contradictions, blanks, and what needs no training.

Nothing here is learned across tasks: the accuracies are those of untrained centroids and of logistic regression on
the same few examples, which meta-learning must beat to be worth its time.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from fewtask.datasets.base import Progress, quiet
from fewtask.features.table import BadRow
from fewtask.own.baselines import logistic_episodes
from fewtask.own.cautions import cautions
from fewtask.own.data import OwnData
from fewtask.own.division import Groups, usable
from fewtask.own.measures import accuracies
from fewtask.pool import TaskPool
from fewtask.protocol import EpisodeList, draw_episodes
from fewtask.statistics import half_width

SHOTS = (1, 5, 10)
EPISODES = 60
MOST_QUERIES = 10
POOL_WAY = 5


@dataclass(frozen=True)
class TaskLine:
    """A task, or a class pool as a whole.

    repeated: rows that a class has more than once. contradicting: inputs with two labels in the task.
    shared:   of its different inputs, those that another task has too.
    """

    name: str
    classes: dict[str, int]
    repeated: int
    contradicting: int
    shared: int


@dataclass(frozen=True)
class Baseline:
    """Accuracy from so many examples of each class, over episodes, with half of its 95 % interval."""

    shot: int
    way: int
    centroid: float
    centroid_interval: float
    logistic: float
    logistic_interval: float


@dataclass(frozen=True)
class Inspection:
    """What `fewtask check` prints.

    bad:      rows that cannot be used, with line and column; bad_by_column counts them.
    constant: columns, or how many features, that are the same in every row.
    """

    name: str
    rows: int
    features: str
    shape: tuple[int, ...]
    tasks: tuple[TaskLine, ...]
    bad: tuple[BadRow, ...]
    bad_by_column: dict[str, int]
    constant: tuple[str, ...]
    baselines: tuple[Baseline, ...]
    notes: tuple[str, ...]


def inspect(own: OwnData, seed: int = 0, progress: Progress = quiet) -> Inspection:
    """Features are fitted to all rows here, for no task is held out."""
    labelled = np.unique(own.index)
    own.featuriser.fit(own.table, labelled)
    features, good, bad = own.featuriser.transform(own.table, progress)
    place = np.full(len(own.table), -1)
    place[good] = np.arange(len(good))
    kept = np.flatnonzero(place[own.index] >= 0)
    rows = place[own.index[kept]]
    tasks = None if own.tasks is None else own.tasks[kept]
    lines = task_lines(features, rows, own.labels[kept], tasks)
    notes = list(own.notes)
    enough, left_out = usable(own.labels[kept], tasks)
    notes += left_out
    pool = own.pool(kept[enough], features, place, notes)
    return Inspection(
        own.name,
        len(own.table),
        own.featuriser.describe(),
        tuple(features.shape[1:]),
        tuple(lines),
        tuple(bad),
        dict(Counter(row.column for row in bad)),
        constant_columns(own, features),
        _baselines(pool, seed, progress),
        (*notes, *cautions(own.labels, own.tasks, own.index)),
    )


def task_lines(features: np.ndarray, rows: np.ndarray, labels: np.ndarray, tasks: np.ndarray | None) -> list[TaskLine]:
    """features [G, ...]; rows [M] of them, labels [M] and tasks [M] of the examples."""
    # Equal rows have equal bytes; 64 bits of hash confuse two of a million rows less than once in ten million times.
    prints = np.array([hash(row.tobytes()) for row in np.ascontiguousarray(features)], dtype=np.int64)[rows]
    members: dict[str, dict[str, np.ndarray]] = {}
    for task, label, own in Groups.of(labels, tasks).members():
        members.setdefault(task, {})[label] = prints[own]
    inputs = {task: np.unique(np.concatenate(list(classes.values()))) for task, classes in members.items()}
    seen = Counter(value for own in inputs.values() for value in own.tolist())
    lines = []
    for task, classes in members.items():
        different = [np.unique(own) for own in classes.values()]
        repeated = sum(len(own) for own in classes.values()) - sum(map(len, different))
        both = sum(map(len, different)) - len(inputs[task])
        shared = sum(seen[value] > 1 for value in inputs[task].tolist())
        sizes = {label: len(own) for label, own in classes.items()}
        lines.append(TaskLine(task or "all classes", sizes, repeated, both, shared))
    return lines


def constant_columns(own: OwnData, features: np.ndarray) -> tuple[str, ...]:
    """Columns of a table whose cells are all alike; of other features how many numbers are."""
    if own.featuriser.kind == "numbers":
        return tuple(name for name in own.featuriser.columns if len(set(own.table.texts(name))) <= 1)
    if not len(features):
        return ()
    flat = features.reshape(len(features), -1)
    same = int((flat == flat[0]).all(axis=0).sum())
    return (f"{same:,} of {flat.shape[1]:,} features",) if same else ()


def centroid_episodes(pool: TaskPool, episodes: EpisodeList) -> np.ndarray:
    """Log-probabilities [E, K * Q, K] of the nearest mean of a class's examples, nothing trained."""
    found = []
    for rows in episodes.rows:
        values = pool.gather(rows).flatten(2).cpu().numpy().astype(np.float64)
        means, query = values[:, : episodes.shot].mean(axis=1), values[:, episodes.shot :].reshape(-1, values.shape[-1])
        scores = -((query[:, None] - means[None]) ** 2).sum(axis=-1)
        scores -= scores.max(axis=1, keepdims=True)
        found.append(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))
    return np.stack(found)


def _baselines(pool: TaskPool, seed: int, progress: Progress) -> tuple[Baseline, ...]:
    way = int(pool.task_counts.min())
    way = min(POOL_WAY, way) if pool.is_class_pool else way
    smallest = int(pool.sizes.min())
    found = []
    for shot in [shot for shot in SHOTS if shot < smallest]:
        episodes = draw_episodes(pool, EPISODES, way, shot, min(MOST_QUERIES, smallest - shot), seed)
        centroid = accuracies(centroid_episodes(pool, episodes))
        logistic = accuracies(logistic_episodes(pool, episodes, progress))
        found.append(
            Baseline(
                shot,
                way,
                float(centroid.mean()),
                half_width(centroid),
                float(logistic.mean()),
                half_width(logistic),
            )
        )
    return tuple(found)
