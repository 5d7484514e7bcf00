"""Evaluation in batches against one episode at a time, its interval, and the fairness of its episodes."""

from __future__ import annotations

import copy
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from fewtask.encoders.normalisation import EpisodeBatchNorm
from fewtask.evaluation import episode_scores, evaluate, half_width, prepare
from fewtask.methods import METHODS, Method, make_method
from fewtask.pool import Dataset, TaskPool
from fewtask.protocol import EpisodeList, draw_episodes, selection_episodes
from fewtask.settings import DataSettings, RunSettings, update

SHAPE = (6,)


def toy_pool(tasks: int = 4, classes: int = 3, rows: int = 14) -> TaskPool:
    """Classes that can be told apart, but not always."""
    generator = torch.Generator().manual_seed(0)
    centres = 1.5 * torch.randn(tasks * classes, 1, *SHAPE, generator=generator)
    values = (centres + torch.randn(tasks * classes, rows, *SHAPE, generator=generator)).flatten(0, 1)
    index = iter(np.arange(len(values)).reshape(-1, rows))
    return TaskPool.fixed(values, {f"task {t}": {str(c): next(index) for c in range(classes)} for t in range(tasks)})


def built(name: str, changes: dict[str, Any] | None = None) -> Method:
    values = {
        "episode": {"way": 3, "shot": 2, "query": 2, "batch": 2},
        "encoder": {"name": "mlp", "width": 8},
        "set_function": {"hidden": 24, "dropout": 0.5},
        "adaptation": {"test_steps": 3, "lr": 0.1},
        "evaluation": {"query": 4},
        "train": {"validation_episodes": 20},
    }
    torch.manual_seed(1)
    method = make_method(update(update(RunSettings(method=name), values), changes or {}), SHAPE)
    with torch.no_grad():
        for p in method.parameters():
            p.add_(0.2 * torch.randn_like(p))
        for buffer in method.buffers():
            if buffer.is_floating_point():
                buffer.add_(0.2 * torch.rand_like(buffer))
    return method


def scores_of_rows(model: Method, rows: Tensor) -> Tensor:
    return model.head(model.features(rows))


def one_at_a_time(method: Method, pool: TaskPool, episodes: EpisodeList) -> tuple[list[float], list[float]]:
    """Accuracy and loss of each episode, from rows to labels by itself."""
    accuracies, losses = [], []
    for index in episodes.rows:
        K, shot = len(index), episodes.shot
        support = [pool.rows[index[k, :shot]] for k in range(K)]
        query = [pool.rows[index[k, shot:]] for k in range(K)]
        model = copy.deepcopy(method).eval()
        if hasattr(model, "head"):
            optimiser = torch.optim.SGD(model.inner(), lr=model.settings.adaptation.lr)
            target = torch.arange(K).repeat_interleave(shot)
            norms = [layer for layer in model.encoder.modules() if isinstance(layer, EpisodeBatchNorm)]
            for layer in norms:
                layer.train()
            for _ in range(model.settings.adaptation.test_steps):
                optimiser.zero_grad()
                torch.nn.functional.cross_entropy(scores_of_rows(model, torch.cat(support)), target).backward()
                optimiser.step()
            # Queries are normalised by the adapted network's statistics of the support: running ones of one pass.
            for layer in norms:
                layer.momentum = 1.0
            scores_of_rows(model, torch.cat(support))
            for layer in norms:
                layer.running_var *= (len(target) - 1) / len(target)
                layer.eval()
            scores = [scores_of_rows(model, q) for q in query]
        elif model.name == "logistic":
            known = LogisticRegression(tol=1e-10, max_iter=20_000)
            known.fit(torch.cat(support).flatten(1).double().numpy(), np.arange(K).repeat(shot))
            scores = [torch.from_numpy(known.predict_log_proba(q.flatten(1).double().numpy())) for q in query]
        else:
            prototypes = [model.features(s).mean(0) for s in support]
            scores = [
                torch.stack([torch.stack([-(z - c).pow(2).sum() for c in prototypes]) for z in model.features(q)])
                for q in query
            ]
        right = [int(row.argmax()) == k for k in range(K) for row in scores[k]]
        nll = [float(torch.logsumexp(row, 0) - row[k]) for k in range(K) for row in scores[k].detach()]
        accuracies.append(sum(right) / len(right))
        losses.append(sum(nll) / len(nll))
    return accuracies, losses


@pytest.mark.parametrize("name", sorted(METHODS))
def test_evaluation_equals_one_episode_at_a_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Small portions, so that their edges fall within the list.
    monkeypatch.setattr("fewtask.evaluation.ROWS_AT_ONCE", 7)
    monkeypatch.setattr("fewtask.evaluation.EPISODES_AT_ONCE", 5)
    method, pool = built(name).train(), toy_pool()
    prepare(method, Dataset("toy", pool, pool).pools(method.settings.data))
    before = {key: value.clone() for key, value in method.state_dict().items()}
    episodes = draw_episodes(pool, 13, 3, 2, 4, seed=5)
    wanted_accuracies, wanted_losses = one_at_a_time(method, pool, episodes)
    accuracies, losses = episode_scores(method, pool, episodes)
    assert accuracies == pytest.approx(wanted_accuracies, abs=1e-6)
    assert losses == pytest.approx(wanted_losses, rel=1e-4, abs=1e-5)
    assert 0.34 < np.mean(accuracies) < 1
    score = evaluate(method, pool, episodes)
    assert score.accuracy == pytest.approx(np.mean(wanted_accuracies), abs=1e-6)
    assert score.loss == pytest.approx(np.mean(wanted_losses), rel=1e-4)
    for t, row in enumerate(score.tasks):
        own = [a for a, task in zip(wanted_accuracies, episodes.tasks) if task == t]
        assert (row.task, row.episodes) == (f"task {t}", len(own))
        assert row.accuracy == pytest.approx(np.mean(own), abs=1e-6)
    # Evaluation leaves everything as it was, and comes out the same again.
    assert method.training
    assert all(torch.equal(value, before[key]) for key, value in method.state_dict().items())
    assert evaluate(method, pool, episodes) == score


def test_the_interval_is_that_of_a_mean_over_episodes() -> None:
    values = np.array([0.2, 0.4, 0.9, 0.5])
    mean = sum(values) / 4
    deviation = math.sqrt(sum((v - mean) ** 2 for v in values) / 3)
    assert half_width(values) == pytest.approx(1.96 * deviation / 2)
    assert half_width(values[:1]) == 0.0
    method, pool = built("protonet"), toy_pool()
    episodes = draw_episodes(pool, 40, 3, 2, 4, seed=0)
    accuracies, _ = episode_scores(method, pool, episodes)
    score = evaluate(method, pool, episodes)
    assert score.interval == pytest.approx(1.96 * np.std(accuracies, ddof=1) / math.sqrt(40))
    assert score.as_dict()["tasks"][0]["episodes"] == 10


def test_every_method_and_seed_sees_the_same_episodes() -> None:
    pool = toy_pool()
    pools, lists = Dataset("toy", pool, pool).pools(DataSettings()), []
    for seed, name in enumerate(sorted(METHODS)):
        torch.manual_seed(seed)
        np.random.seed(seed)
        settings = update(RunSettings(method=name, seed=seed), {"episode": {"way": 3, "shot": 2}})
        lists.append(selection_episodes(update(settings, {"evaluation": {"query": 3}}), pools))
    assert all(np.array_equal(one.rows, lists[0].rows) for one in lists)
    assert len(lists[0].tasks) == 1000
    other = update(RunSettings(), {"episode": {"way": 3, "shot": 2}, "evaluation": {"query": 3, "seed": 1}})
    assert not np.array_equal(selection_episodes(other, pools).rows, lists[0].rows)


@pytest.mark.parametrize("episodes", [3, 10, 1201])
def test_tasks_have_equal_shares_of_the_episodes(episodes: int) -> None:
    counts = Counter(draw_episodes(toy_pool(), episodes, 2, 1, 2, seed=0).tasks.tolist())
    assert sum(counts.values()) == episodes
    assert max(counts.values()) - min(counts.values()) <= 1


def test_a_task_without_episodes_has_no_row() -> None:
    pool = toy_pool()
    score = evaluate(built("protonet"), pool, draw_episodes(pool, 2, 3, 2, 4, seed=0))
    assert [row.task for row in score.tasks] == ["task 0", "task 1"]
    assert [row.interval for row in score.tasks] == [0.0, 0.0]
