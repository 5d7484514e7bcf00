"""Which weights a run keeps: those that did best on the validation episodes, averaged where that is asked for."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fewtask.methods import Method, make_method
from fewtask.pool import Dataset
from fewtask.settings import RunSettings, update
from fewtask.tasks import TaskPool
from fewtask.training import loop


def pool(seed: int) -> TaskPool:
    rows = torch.randn(24, 3, generator=torch.Generator().manual_seed(seed))
    return TaskPool.fixed(
        rows, {f"task {t}": {str(c): np.arange(6) + 12 * t + 6 * c for c in range(2)} for t in (0, 1)}
    )


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_the_first_of_the_best_is_kept(average: float, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = update(
        RunSettings(method="protonet"),
        {
            "episode": {"way": 2, "shot": 1, "query": 1, "batch": 2},
            "encoder": {"width": 3},
            "optimizer": {"lr": 0.1},
            "train": {"steps": 8, "validate_every": 2, "validation_episodes": 2, "average": average},
            "evaluation": {"query": 1},
        },
    )
    scores, judged = iter([0.5, 0.8, 0.6, 0.8]), []

    def judge(method: Method, *_: object) -> SimpleNamespace:
        judged.append({name: value.clone() for name, value in method.state_dict().items()})
        return SimpleNamespace(accuracy=next(scores), loss=1.0)

    monkeypatch.setattr(loop, "evaluate", judge)
    torch.manual_seed(0)
    method = make_method(settings, (3,))
    state = loop.fit(method, Dataset("toy", pool(1), pool(2)).pools(settings.data), show_progress=False)
    assert (state.best.step, state.best.accuracy) == (4, 0.8)
    for name, value in judged[1].items():
        assert torch.equal(state.best.weights[name], value), name
    # What was judged is the average where there is one, and training goes on from the weights themselves.
    weight = "encoder.layers.2.weight"
    assert torch.equal(judged[-1][weight], method.state_dict()[weight]) == (average == 0)
