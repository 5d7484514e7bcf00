"""Small tasks that can be learned: each asks whether a weighted sum of three of nine numbers is positive."""

from __future__ import annotations

import numpy as np

QUICK = {"train": {"validate_every": 20, "validation_episodes": 20, "average": 0.9}, "encoder": {"width": 16}}


def one_task(seed: int, rows: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """X [rows, 9], the last six numbers loud and without meaning; y "no" or "yes"."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 9)) * np.array([1.0] * 3 + [5.0] * 6) + 100
    return X, np.where((X[:, :3] - 100) @ rng.normal(size=3) > 0, "yes", "no")


def many_tasks(count: int = 8, rows: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    parts = [one_task(seed, rows) for seed in range(count)]
    names = np.repeat([f"task {seed}" for seed in range(count)], rows)
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts]), names


def pictures(classes: int = 6, rows: int = 12, side: int = 14) -> tuple[np.ndarray, np.ndarray]:
    """Bytes [R, side, side, 3], channels last: a bright bar whose place is the class."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 60, (classes * rows, side, side, 3), dtype=np.uint8)
    y = np.repeat(np.arange(classes), rows)
    for row, label in enumerate(y):
        X[row, 2 * label : 2 * label + 2] += 150
    return X, y
