"""Means with intervals over seeds, and differences on the same episodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fewtask.record import episode_accuracies
from fewtask.statistics import half_width, student_half_width

Basis = Literal["seeds", "episodes"]


@dataclass(frozen=True)
class Mean:
    """A mean with the half-width of its 95 % interval.

    basis: "seeds", over runs by Student's t; "episodes", over the episodes of a single run by the normal
    approximation, which says nothing about another seed.
    """

    value: float
    interval: float
    seeds: int
    basis: Basis


def is_clear(difference: Mean) -> bool:
    """Zero lies outside the interval; one over the episodes of a single run says nothing about another seed."""
    return difference.basis == "seeds" and abs(difference.value) > difference.interval


def over_seeds(records: Mapping[int, dict[str, Any]], split: str = "test") -> Mean | None:
    """Accuracy over the records of several seeds: {seed: record}."""
    values = [record[split]["accuracy"] for _, record in sorted(records.items()) if split in record]
    if not values:
        return None
    if len(values) > 1:
        return Mean(float(np.mean(values)), student_half_width(values), len(values), "seeds")
    record = next(record for record in records.values() if split in record)
    return Mean(values[0], half_width(episode_accuracies(record, split)), 1, "episodes")


def paired_difference(
    first: Mapping[int, dict[str, Any]], second: Mapping[int, dict[str, Any]], split: str = "test"
) -> Mean | None:
    """Accuracy of `first` minus `second`, seed by seed on the same episodes; None where nothing can be paired."""
    differences = []
    for seed in sorted(set(first) & set(second)):
        one, two = first[seed], second[seed]
        if split in one and split in two and one[split]["episode_list"] == two[split]["episode_list"]:
            differences.append(episode_accuracies(one, split) - episode_accuracies(two, split))
    if not differences:
        return None
    means = [float(d.mean()) for d in differences]
    if len(means) > 1:
        return Mean(float(np.mean(means)), student_half_width(means), len(means), "seeds")
    return Mean(means[0], half_width(differences[0]), 1, "episodes")


def over_tasks(records: Mapping[int, dict[str, Any]], split: str = "test") -> dict[str, Mean]:
    """Accuracy of each task over seeds; with one seed the interval is over the task's episodes."""
    collected: dict[str, list[dict[str, Any]]] = {}
    for _, record in sorted(records.items()):
        for row in record.get(split, {}).get("tasks", []):
            collected.setdefault(row["task"], []).append(row)
    means = {}
    for task, rows in collected.items():
        values = [row["accuracy"] for row in rows]
        if len(values) > 1:
            means[task] = Mean(float(np.mean(values)), student_half_width(values), len(values), "seeds")
        else:
            means[task] = Mean(values[0], rows[0]["interval"], 1, "episodes")
    return means
