"""Memory does not grow with the number of steps, hyper-updates included."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from fewtask.methods import make_method
from fewtask.pool import TaskPool
from fewtask.settings import RunSettings, update
from fewtask.training.loop import new_state, training_step
from fewtask.training.state import TrainingState

STATM = Path("/proc/self/statm")


def small_state(method: str) -> TrainingState:
    rows = torch.randn(160, 16)
    index = iter(np.arange(160).reshape(-1, 20))
    pool = TaskPool.fixed(rows, {f"task {t}": {"a": next(index), "b": next(index)} for t in range(4)})
    settings = update(
        RunSettings(method=method),
        {
            "episode": {"way": 2, "shot": 2, "query": 5, "batch": 2},
            "encoder": {"name": "mlp", "width": 64},
            "set_function": {"hidden": 64},
            "hyper": {"period": 10, "terms": 1},
            "train": {"steps": 1000},
        },
    )
    torch.manual_seed(0)
    model = make_method(settings, pool.input_shape).train()
    return new_state(model, pool, pool)


def megabytes() -> float:
    """Resident memory after collection."""
    gc.collect()
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def tensors() -> int:
    gc.collect()
    # By type: asking a lazy module for an attribute would import it.
    return sum(issubclass(type(thing), torch.Tensor) for thing in gc.get_objects())


@pytest.mark.skipif(not STATM.exists(), reason="resident memory is read from /proc/self/statm, which is not here")
def test_memory_does_not_grow_from_step_100_to_step_1000() -> None:
    """The graph of one hyper-update takes about a megabyte here, and there are 90 of them in between."""
    state = small_state("meta-interpolation")
    updates = 0
    while state.step < 100:
        updates += training_step(state) is not None
    assert updates == 10
    resident, alive = megabytes(), tensors()
    while state.step < 1000:
        updates += training_step(state) is not None
    assert updates == 100
    assert tensors() <= alive
    assert megabytes() - resident < 15
