"""Accuracy on a fixed list of episodes, with its interval and a row a task.

In evaluation a row's embedding does not depend on its episode, so each row is embedded once and the episodes
are gathered from the embeddings.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fewtask.methods.base import Method
from fewtask.pool import Pools, TaskPool
from fewtask.protocol import EpisodeList, selection_episodes
from fewtask.statistics import half_width
from fewtask.threads import keep_memory

ROWS_AT_ONCE = 1024
VALUES_AT_ONCE = 2**22
"""Of large images fewer rows: a convolution makes ten times as many numbers of them."""
EPISODES_AT_ONCE = 50


@dataclass(frozen=True)
class TaskScore:
    task: str
    episodes: int
    accuracy: float
    interval: float


@dataclass(frozen=True)
class Score:
    """Mean over episodes with the half-width of its 95 % interval.

    The interval is over episodes of these very tasks: it says how well the mean is known on them, not how the
    method fares on other tasks or with another seed.
    """

    accuracy: float
    interval: float
    loss: float
    episodes: int
    tasks: tuple[TaskScore, ...]

    def as_dict(self) -> dict[str, Any]:
        values = asdict(self)
        values["tasks"] = list(values["tasks"])
        return values


def rows_at_once(input_shape: tuple[int, ...]) -> int:
    """How many rows of a shape are embedded in one pass."""
    return max(1, min(ROWS_AT_ONCE, VALUES_AT_ONCE // max(1, math.prod(input_shape))))


@torch.no_grad()
def embed_rows(method: Method, pool: TaskPool, index: np.ndarray) -> Tensor:
    """Embeddings of the given rows, [M, D]."""
    chunks = np.array_split(index, max(1, math.ceil(len(index) / rows_at_once(pool.input_shape))))
    return torch.cat([method.embed(pool.gather(chunk)) for chunk in chunks])


def episode_logits(method: Method, pool: TaskPool, episodes: EpisodeList) -> Iterator[Tensor]:
    """Scores [e, K * Q, K] of the queries, class by class, of a few episodes at a time, in evaluation mode."""
    keep_memory()
    was_training = method.training
    method.eval()
    used, inverse = np.unique(episodes.rows, return_inverse=True)
    z = embed_rows(method, pool, used)
    position = torch.from_numpy(inverse.reshape(episodes.rows.shape)).to(z.device)
    for chunk in position.split(EPISODES_AT_ONCE):
        support = z[chunk[:, :, : episodes.shot]]
        query = z[chunk[:, :, episodes.shot :]].flatten(1, 2)
        yield method.logits(support, query).detach()
    method.train(was_training)


def episode_scores(method: Method, pool: TaskPool, episodes: EpisodeList) -> tuple[np.ndarray, np.ndarray]:
    """Accuracy [E] and loss [E] of each episode."""
    accuracies, losses = [], []
    for logits in episode_logits(method, pool, episodes):
        labels = query_labels(logits)
        accuracies.append((logits.argmax(-1) == labels).float().mean(1))
        losses.append(F.cross_entropy(logits.transpose(1, 2), labels.expand(len(logits), -1), reduction="none").mean(1))
    return torch.cat(accuracies).cpu().numpy().astype(np.float64), torch.cat(losses).cpu().numpy().astype(np.float64)


def query_labels(logits: Tensor) -> Tensor:
    """[K * Q] labels of queries whose scores [..., K * Q, K] stand class by class."""
    queries, K = logits.shape[-2:]
    return torch.arange(K, device=logits.device).repeat_interleave(queries // K)


def summarise(pool: TaskPool, episodes: EpisodeList, accuracies: np.ndarray, losses: np.ndarray) -> Score:
    rows = []
    for index, task in enumerate(pool.tasks):
        own = accuracies[episodes.tasks == index]
        if len(own):
            rows.append(TaskScore(task.name, len(own), float(own.mean()), half_width(own)))
    return Score(float(accuracies.mean()), half_width(accuracies), float(losses.mean()), len(accuracies), tuple(rows))


def evaluate(method: Method, pool: TaskPool, episodes: EpisodeList) -> Score:
    return summarise(pool, episodes, *episode_scores(method, pool, episodes))


def prepare(method: Method, pools: Pools) -> None:
    """Lets a method find what it needs in the data before its first step."""

    def accuracy() -> float:
        return evaluate(method, pools.selection, selection_episodes(method.settings, pools)).accuracy

    method.prepare(pools.train, accuracy)
