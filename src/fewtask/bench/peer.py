"""The same ProtoNet beside another library: a step, drawing its episodes, and test episodes, in turns in one process.

Both use the same encoder with the same weights. The peer works as its own tutorials do: one episode after the other
through its sampler and collate function, gradients of a batch's episodes added up, distances of its own; products and
convolutions are those that torch has by itself.
"""

from __future__ import annotations

import copy
import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fewtask.bench.cases import state_of
from fewtask.bench.measure import interleaved
from fewtask.bench.report import Table
from fewtask.bench.sizes import Size, get_size
from fewtask.errors import SettingsError, unknown
from fewtask.evaluation import evaluate
from fewtask.pool import TaskPool
from fewtask.products import torchs_own
from fewtask.protocol import draw_episodes
from fewtask.training.loop import training_step

PEERS = ("easyfsl",)
SIZES = ("esc50", "rmnist", "cifar100-fs")
TEST_EPISODES = 1000
TRIED = 20
"""Test episodes that the peer carries out; it takes as long for each, so 1,000 are extrapolated."""


def peer_modules(name: str) -> tuple[Any, Any]:
    """The peer's methods and samplers."""
    if name not in PEERS:
        raise unknown("peer", name, PEERS)
    try:
        return importlib.import_module(f"{name}.methods"), importlib.import_module(f"{name}.samplers")
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"the comparison with {name} needs the package {error.name}: pip install {name} brings what it needs"
        ) from error


class Rows:
    """The classes of a pool as the peer wants a data set."""

    def __init__(self, pool: TaskPool) -> None:
        self.pool = pool
        pairs = [(int(row), label) for label, rows in enumerate(pool.class_rows) for row in rows]
        self.rows, self.labels = [row for row, _ in pairs], [label for _, label in pairs]

    def __getitem__(self, item: int) -> tuple[Tensor, int]:
        return self.pool.gather(np.array(self.rows[item])), self.labels[item]

    def __len__(self) -> int:
        return len(self.rows)

    def get_labels(self) -> list[int]:
        return self.labels


def compare(name: str, size: Size, seconds: float) -> dict[str, dict[str, float]]:
    """Seconds of each work by fewtask and by the peer: {work: {"fewtask": s, "peer": s}}."""
    methods, samplers = peer_modules(name)
    pool = size.pool()
    state = state_of(size, pool, "protonet")
    e, v = state.method.settings.episode, state.method.settings.evaluation
    encoder = copy.deepcopy(state.method.encoder)
    model = methods.PrototypicalNetworks(encoder)
    optimiser = torch.optim.Adam(encoder.parameters(), lr=state.method.settings.optimizer.lr)

    def episodes(query: int) -> Iterator[Any]:
        rows: Any = Rows(pool)
        try:
            sampler = samplers.TaskSampler(rows, n_way=e.way, n_shot=e.shot, n_query=query, n_tasks=10**6)
        except TypeError as error:
            raise SettingsError(f"this version of {name} does not work with this torch: {error}") from error
        loader: Any = torch.utils.data.DataLoader(rows, batch_sampler=sampler, collate_fn=sampler.episodic_collate_fn)
        return iter(loader)

    training, testing = episodes(e.query), episodes(v.query)

    @torchs_own()
    def peer_step() -> None:
        encoder.train()
        optimiser.zero_grad()
        for _ in range(e.batch):
            support, support_labels, query, labels, _ = next(training)
            model.process_support_set(support, support_labels)
            (F.cross_entropy(model(query), labels) / e.batch).backward()
        optimiser.step()

    @torchs_own()
    @torch.no_grad()
    def peer_test() -> None:
        encoder.eval()
        for _ in range(TRIED):
            support, support_labels, query, labels, _ = next(testing)
            model.process_support_set(support, support_labels)
            (model(query).argmax(1) == labels).float().mean()

    listed = draw_episodes(pool, TEST_EPISODES, e.way, e.shot, v.query, v.seed)
    works = {
        "step fewtask": lambda: training_step(state),
        "step peer": peer_step,
        "drawing fewtask": lambda: state.method.draw(state.sampler),
        "drawing peer": lambda: [next(training) for _ in range(e.batch)],
        "testing fewtask": lambda: evaluate(state.method, pool, listed),
        "testing peer": peer_test,
    }
    times = interleaved(works, seconds)
    times["testing peer"] *= TEST_EPISODES / TRIED
    found: dict[str, dict[str, float]] = {}
    for key, value in times.items():
        work, who = key.split()
        found.setdefault(work, {})[who] = value
    return found


def peer_table(name: str, results: dict[str, dict[str, dict[str, float]]]) -> Table:
    lines = [
        [
            get_size(size).title,
            work,
            f"{1e3 * t['fewtask']:.1f}",
            f"{1e3 * t['peer']:.1f}",
            f"{t['peer'] / t['fewtask']:.1f}×",
        ]
        for size, works in results.items()
        for work, t in works.items()
    ]
    title = f"ProtoNet beside {name}: a step with its drawing, the drawing alone, {TEST_EPISODES:,} test episodes"
    return title, ["size", "what", "fewtask, ms", f"{name}, ms", "faster"], lines
