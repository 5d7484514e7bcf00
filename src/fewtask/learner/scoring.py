"""The accuracy of a model on tasks that it has not been trained on, by episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fewtask.auto.vote import judge_episodes
from fewtask.errors import InputError
from fewtask.learner.held_out import EPISODES, held_out_episodes
from fewtask.learner.inputs import as_array, as_labels
from fewtask.learner.model import Model
from fewtask.own.measures import accuracies
from fewtask.pool import TaskPool


def episode_accuracy(model: Model, seed: int, X: Any, y: Any, groups: Any = None) -> float:
    """Mean accuracy of episodes with the shot of training, or what the smallest class allows."""
    features = model.features(X)
    labels = as_labels(y, len(features))
    tasks = None if groups is None else as_labels(as_array(groups), len(features))
    pool = pool_of(features, labels, tasks, model.scale).to(model.device)
    shot = min(int(model.members[0].settings.episode.shot), int(pool.sizes.min()) - 1)
    episodes = held_out_episodes(pool, shot, seed, EPISODES)
    return float(accuracies(judge_episodes(model.members, pool, episodes).log_probabilities).mean())


def pool_of(
    features: np.ndarray, labels: np.ndarray, tasks: np.ndarray | None, scale: tuple[float, float] | None
) -> TaskPool:
    """A pool of all tasks, or of all classes where there are no tasks; classes with one row are left out."""
    of = np.zeros(len(labels), dtype=np.int64) if tasks is None else tasks
    members: dict[str, dict[str, np.ndarray]] = {}
    for task in np.unique(of):
        found = {
            str(label): np.flatnonzero((of == task) & (labels == label)) for label in np.unique(labels[of == task])
        }
        usable = {label: rows for label, rows in found.items() if len(rows) > 1}
        if len(usable) > 1:
            members[str(task)] = usable
    if not members:
        raise InputError("no task has two classes with two rows each: there is nothing to show and to ask about")
    rows = torch.as_tensor(features)
    if tasks is None:
        return TaskPool.class_pool(rows, next(iter(members.values())), scale)
    return TaskPool.fixed(rows, members, scale)
