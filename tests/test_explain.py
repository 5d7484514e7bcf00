"""The share of each element in a merged pair."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fewtask.datasets.cache import load_dataset
from fewtask.errors import RunError
from fewtask.explain import class_shares, draw, draw_merging, merge_two_tasks, second_share
from fewtask.explain.merging import plane
from fewtask.methods import Method, make_method
from fewtask.pool import TaskPool
from fewtask.presets import load_preset
from fewtask.sets import Mean
from fewtask.sets.base import SetFunction
from fewtask.settings import DataSettings, update


class FixedMixture(SetFunction):
    """W((1 - α) h + α h') + b: the map of the paper's analysis with a fixed α."""

    def __init__(self, d: int, alpha: float) -> None:
        super().__init__()
        self.affine, self.alpha = nn.Linear(d, d).double(), alpha

    def forward(self, sets: Tensor) -> Tensor:
        return self.affine((1 - self.alpha) * sets[:, 0] + self.alpha * sets[:, 1])


@pytest.mark.parametrize("alpha", [0.0, 0.3, 0.9])
def test_the_share_is_alpha_where_alpha_is_fixed(alpha: float) -> None:
    torch.manual_seed(0)
    h, other = torch.randn(2, 7, 5, dtype=torch.float64)
    share = second_share(FixedMixture(5, alpha), h, other)
    torch.testing.assert_close(share, torch.full((7,), alpha, dtype=torch.float64))


def test_the_mean_shares_evenly() -> None:
    h, other = torch.randn(2, 4, 3)
    torch.testing.assert_close(second_share(Mean(3), h, other), torch.full((4,), 0.5))


def test_a_run_is_drawn_with_shares_that_add_up(tmp_path) -> None:
    settings = update(load_preset("rainbow-digits", "meta-interpolation"), {"set_function": {"hidden": 16}})
    dataset = load_dataset("rainbow-digits", DataSettings(max_per_class=5))
    method = make_method(settings, dataset.input_shape)
    shares = class_shares(method, dataset.train, rows_a_pair=2)
    assert shares.labels == [str(digit) for digit in range(10)]
    assert abs(shares.share + shares.share.T - 1)[~torch.eye(10, dtype=torch.bool).numpy()].max() < 1e-6
    draw(shares, "test", tmp_path / "mixing.png")
    assert (tmp_path / "mixing.png").stat().st_size > 10_000
    assert (tmp_path / "mixing.csv").read_text().count("\n") == 11


def test_a_method_without_a_set_function_cannot_be_explained() -> None:
    dataset = load_dataset("rainbow-digits", DataSettings(max_per_class=5))
    method = make_method(load_preset("rainbow-digits", "protonet"), dataset.input_shape)
    with pytest.raises(RunError, match="no learned set function"):
        class_shares(method, dataset.train)


def mean_method(name: str = "mean-interpolation") -> tuple[Method, TaskPool]:
    dataset = load_dataset("rainbow-digits", DataSettings(max_per_class=8))
    return make_method(load_preset("rainbow-digits", name), dataset.input_shape), dataset.train


def test_two_tasks_are_merged_as_in_training() -> None:
    """By the mean at the output, a merged prototype lies half way between the two that it is made of."""
    method, pool = mean_method()
    method.layer = len(method.encoder.shapes) - 1
    found = merge_two_tasks(method, pool, seed=1)
    np.testing.assert_allclose(found.merged, (found.alone + found.partner) / 2, atol=1e-4)
    assert found.tasks[0] != found.tasks[1]
    assert len({first for first, _ in found.classes}) == 4
    assert found.rows.shape == (2, 4, 3, 16, 16)
    assert found.queries.shape[::2] == (4, 2)
    assert 0 <= found.merged_accuracy <= 1


def test_two_tasks_merged_are_drawn_the_same_every_time(tmp_path: Path) -> None:
    method, pool = mean_method()
    one, two = merge_two_tasks(method, pool, seed=2), merge_two_tasks(method, pool, seed=2)
    assert (one.tasks, one.classes) == (two.tasks, two.classes)
    np.testing.assert_array_equal(one.queries, two.queries)
    assert merge_two_tasks(method, pool, seed=3).classes != one.classes
    draw_merging(one, tmp_path / "merging.png")
    assert (tmp_path / "merging.png").stat().st_size > 10_000


def test_the_plane_keeps_distances_within_it() -> None:
    points = torch.randn(4, 2, dtype=torch.float64) @ torch.randn(2, 9, dtype=torch.float64)
    flat = plane(points)(points)
    torch.testing.assert_close(torch.cdist(torch.from_numpy(flat), torch.from_numpy(flat)), torch.cdist(points, points))
    assert plane(points[:2])(points[:2]).shape == (2, 2)


def test_a_method_that_merges_nothing_has_no_such_picture() -> None:
    method, pool = mean_method("protonet-st")
    with pytest.raises(RunError, match="merges no tasks"):
        merge_two_tasks(method, pool)
