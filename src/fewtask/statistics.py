"""Means with intervals, and what many comparisons at once do to their significance."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

LEVEL = 0.95


def half_width(values: np.ndarray) -> float:
    """Half of the 95 % confidence interval of a mean over many values."""
    return float(1.96 * values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0


def student_half_width(values: Sequence[float]) -> float:
    """Half of the 95 % interval of the mean of a few values: 12.7 standard errors of two, 2.78 of five."""
    from scipy import stats

    count = len(values)
    error = float(np.std(values, ddof=1)) / math.sqrt(count)
    return float(stats.t.ppf(0.5 + LEVEL / 2, count - 1)) * error
