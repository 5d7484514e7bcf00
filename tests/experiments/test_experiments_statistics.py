"""Means, intervals and paired differences against scipy and numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from grid_helpers import QUERIES, made_up, small
from scipy import stats

from fewtask.experiments.statistics import over_seeds, over_tasks, paired_difference, student_half_width


def records(values: list[np.ndarray], **more: str) -> dict[int, dict]:
    return {seed: made_up(small(seed=seed), correct, **more) for seed, correct in enumerate(values)}


def test_the_interval_of_three_seeds_is_430_standard_errors() -> None:
    # Standard deviation 0.02, standard error 0.02 / √3, t of 2 degrees of freedom 4.302653.
    assert student_half_width([0.80, 0.82, 0.84]) == pytest.approx(4.302653 * 0.02 / math.sqrt(3), rel=1e-6)


@pytest.mark.parametrize("count", [2, 5, 9])
def test_the_interval_over_seeds_is_scipys(count: int) -> None:
    values = np.random.default_rng(count).normal(size=count)
    low, high = stats.t.interval(0.95, count - 1, loc=values.mean(), scale=stats.sem(values))
    assert student_half_width(list(values)) == pytest.approx((high - low) / 2)


def test_the_mean_over_seeds_uses_students_t() -> None:
    mean = over_seeds(records([np.full(40, 20), np.full(40, 25)]))
    assert mean is not None
    assert (mean.seeds, mean.basis) == (2, "seeds")
    assert mean.value == pytest.approx(0.45)
    assert mean.interval == pytest.approx(12.7062 * 0.05, rel=1e-4)


def test_with_one_seed_the_interval_is_over_episodes_and_says_so() -> None:
    correct = np.random.default_rng(0).integers(0, QUERIES, 400)
    mean = over_seeds(records([correct]))
    assert mean is not None
    assert mean.basis == "episodes"
    assert mean.interval == pytest.approx(1.96 * stats.sem(correct / QUERIES))


def test_a_paired_difference_is_as_narrow_as_scipys_paired_test_allows() -> None:
    rng = np.random.default_rng(1)
    hard = rng.integers(10, 30, (3, 400))
    first = [h + rng.integers(0, 6, 400) for h in hard]
    difference = paired_difference(records(first), records(list(hard)))
    assert difference is not None
    per_seed = [(a - b).mean() / QUERIES for a, b in zip(first, hard)]
    low, high = stats.ttest_1samp(per_seed, 0).confidence_interval(0.95)
    assert (difference.value, difference.seeds) == (pytest.approx(np.mean(per_seed)), 3)
    assert difference.interval == pytest.approx((high - low) / 2)
    # Episodes differ much more than the methods do: unpaired, one seed would show nothing.
    single = paired_difference(records(first[:1]), records([hard[0]]))
    assert single is not None
    assert single.basis == "episodes"
    assert single.interval == pytest.approx(1.96 * stats.sem((first[0] - hard[0]) / QUERIES))


def test_runs_on_other_episodes_are_not_paired() -> None:
    one, two = records([np.arange(40)]), records([np.arange(40)], episode_list="other")
    assert paired_difference(one, two) is None
    assert paired_difference(one, {}) is None


def test_only_seeds_of_both_are_paired() -> None:
    both = records([np.full(40, 20), np.full(40, 30), np.full(40, 40)])
    difference = paired_difference(both, {2: records([np.full(40, 1)] * 3)[2]})
    assert difference is not None
    assert (difference.seeds, difference.value) == (1, pytest.approx(39 / 50))


def test_a_row_a_task_is_averaged_over_seeds() -> None:
    tasks = over_tasks(records([np.full(40, 20), np.full(40, 25)]))
    assert tasks["first"].value == pytest.approx(0.45)
    assert tasks["first"].seeds == 2
