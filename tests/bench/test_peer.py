"""The comparison with another library, here a stand-in with the peer's interface, and what is said without one."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fewtask.bench import peer
from fewtask.bench.sizes import SIZES
from fewtask.cli import main


class PrototypicalNetworks(nn.Module):
    """easyfsl's interface."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def process_support_set(self, images: Tensor, labels: Tensor) -> None:
        z = self.backbone(images)
        self.prototypes = torch.stack([z[labels == k].mean(0) for k in labels.unique()])

    def forward(self, images: Tensor) -> Tensor:
        return -torch.cdist(self.backbone(images), self.prototypes)


class TaskSampler:
    def __init__(self, dataset: Any, n_way: int, n_shot: int, n_query: int, n_tasks: int) -> None:
        self.way, self.shot, self.query, self.tasks = n_way, n_shot, n_query, n_tasks
        self.items: dict[int, list[int]] = {}
        for item, label in enumerate(dataset.get_labels()):
            self.items.setdefault(label, []).append(item)

    def __iter__(self) -> Iterator[list[int]]:
        for _ in range(self.tasks):
            chosen = random.sample(sorted(self.items), self.way)
            yield [item for label in chosen for item in random.sample(self.items[label], self.shot + self.query)]

    def episodic_collate_fn(self, rows: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor, Tensor, Tensor, list[int]]:
        images = torch.stack([row for row, _ in rows]).unflatten(0, (self.way, self.shot + self.query))
        labels = torch.arange(self.way)[:, None].expand(-1, self.shot + self.query)
        support, query = images[:, : self.shot], images[:, self.shot :]
        return (
            support.flatten(0, 1),
            labels[:, : self.shot].flatten(),
            query.flatten(0, 1),
            labels[:, self.shot :].flatten(),
            [label for _, label in rows],
        )


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    methods, samplers = ModuleType("easyfsl.methods"), ModuleType("easyfsl.samplers")
    methods.PrototypicalNetworks = PrototypicalNetworks  # type: ignore[attr-defined]
    samplers.TaskSampler = TaskSampler  # type: ignore[attr-defined]
    for module in (ModuleType("easyfsl"), methods, samplers):
        monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.usefixtures("stand_in")
def test_both_do_the_same_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "TEST_EPISODES", 10)
    monkeypatch.setattr(peer, "TRIED", 2)
    found = peer.compare("easyfsl", SIZES["esc50"].small(), 0.0)
    assert set(found) == {"step", "drawing", "testing"}
    assert all(set(times) == {"fewtask", "peer"} for times in found.values())
    assert all(seconds >= 0 for times in found.values() for seconds in times.values())


def test_rows_of_the_peer_are_those_of_the_pool_with_their_labels() -> None:
    pool = SIZES["esc50"].small().pool()
    rows = peer.Rows(pool)
    assert len(rows) == sum(len(own) for own in pool.class_rows)
    for item in (0, len(rows) // 2, len(rows) - 1):
        row, label = rows[item]
        assert rows.get_labels()[item] == label
        assert any(torch.equal(row, pool.gather(np.array(own))) for own in pool.class_rows[label])


@pytest.mark.usefixtures("stand_in")
def test_the_command_prints_the_comparison(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer, "TEST_EPISODES", 10)
    monkeypatch.setattr(peer, "SIZES", ("esc50",))
    arguments = ["bench", "--peer", "easyfsl", "--small", "--seconds", "0", "--out", str(tmp_path)]
    assert main(arguments) == 0
    assert "ProtoNet beside easyfsl" in capsys.readouterr().out
    assert set(json.loads((tmp_path / "peer.json").read_text())["esc50"]) == {"step", "drawing", "testing"}


def test_a_peer_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "easyfsl.methods", None)
    monkeypatch.setitem(sys.modules, "easyfsl", None)
    assert main(["bench", "--peer", "easyfsl"]) == 1
    assert "needs the package easyfsl" in capsys.readouterr().err
    assert main(["bench", "--peer", "easyfls"]) == 1
    assert "did you mean 'easyfsl'" in capsys.readouterr().err
