"""Memory that is kept whichever way fewtask is used, and a busy machine that is noticed."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fewtask import threads
from fewtask.auto.vote import judge_episodes
from fewtask.bench.sizes import SIZES
from fewtask.evaluation import evaluate
from fewtask.methods import logistic, make_method
from fewtask.pool import Pools
from fewtask.protocol import draw_episodes, selection_episodes
from fewtask.settings import update
from fewtask.threads import BusyWarning, keep_memory, notice_others, settle_threads
from fewtask.training.loop import fit


class Library:
    """Stands for the C library."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []

    def mallopt(self, *values: int) -> None:
        self.calls.append(values)  # type: ignore[arg-type]


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[Library]:
    """A Linux with glibc whose settings nobody has touched."""
    found = Library()
    monkeypatch.setattr(threads, "ctypes", SimpleNamespace(CDLL=lambda name: found))
    monkeypatch.setattr(threads.platform, "system", lambda: "Linux")
    monkeypatch.setattr(threads.platform, "libc_ver", lambda: ("glibc", "2.36"))
    for name in threads.ALLOCATOR_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    keep_memory.cache_clear()
    yield found
    keep_memory.cache_clear()


def test_training_and_evaluation_from_python_keep_memory_and_ask_for_it_once(library: Library) -> None:
    size = SIZES["tox21"].small()
    pool = size.pool()
    settings = update(size.settings("protonet"), {"train": {"steps": 1, "validation_episodes": 1}})
    method = make_method(settings, size.input_shape)
    pools = Pools(dict.fromkeys(("train", "validation", "test"), pool), pool, pool)
    listed = selection_episodes(settings, pools)
    evaluate(method, pool, listed)
    wanted = [(-3, 64 << 20), (-1, (1 << 31) - 1)]
    assert library.calls == wanted
    fit(method, pools, show_progress=False)
    assert library.calls == wanted
    keep_memory.cache_clear()
    fit(method, pools, show_progress=False)
    assert library.calls == wanted * 2


def test_an_allocator_that_its_user_has_set_stays_so(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    settle_threads(0)
    assert library.calls == []


def test_several_threads_on_a_busy_machine_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "usable_cores", lambda: 2)
    monkeypatch.setattr(threads.os, "getloadavg", lambda: (2.5, 0.0, 0.0))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    with pytest.warns(BusyWarning, match=r"load 2\.5 on 2 cores"):
        notice_others()
    quiet = [{"load": (1.9, 0.0, 0.0), "threads": 2}, {"load": (50.0, 0.0, 0.0), "threads": 1}]
    for case in quiet:
        monkeypatch.setattr(threads.os, "getloadavg", lambda case=case: case["load"])
        monkeypatch.setattr(torch, "get_num_threads", lambda case=case: case["threads"])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            notice_others()


def test_threads_are_set_where_a_number_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", given.append)
    settle_threads(0)
    settle_threads(3)
    assert given == [3]
    assert keep_memory.cache_info().currsize == 1


def test_logistic_regression_computes_with_one_thread_and_gives_the_others_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []

    def newton(rows: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        seen.append(torch.get_num_threads())
        return torch.zeros(wanted.shape[1], rows.shape[1], dtype=rows.dtype)

    monkeypatch.setattr(logistic, "_newton", newton)
    with threads.computing_with(2):
        logistic.regress(torch.randn(4, 3), torch.tensor([0, 0, 1, 1]), 2, torch.randn(5, 3))
        assert torch.get_num_threads() == 2
    assert seen == [1]


def test_episodes_are_judged_with_one_thread() -> None:
    size = SIZES["tox21"].small()
    pool = size.pool()
    method = make_method(size.settings("centroid"), size.input_shape)
    seen: list[int] = []

    def progress(rows: Iterable[Any], what: str, total: int | None = None) -> Iterator[Any]:
        for row in rows:
            seen.append(torch.get_num_threads())
            yield row

    with threads.computing_with(2):
        judge_episodes([method], pool, draw_episodes(pool, 3, 2, 1, 2, seed=0), progress)
        assert torch.get_num_threads() == 2
    assert seen == [1, 1, 1]
