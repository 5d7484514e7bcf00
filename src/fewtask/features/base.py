"""What turns the cells of a table into the rows of a pool, and back to life from a run's settings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from fewtask.datasets.base import Progress, quiet
from fewtask.features.table import BadRow, Table

Transformed = tuple[np.ndarray, np.ndarray, list[BadRow]]


class Featuriser(ABC):
    """One kind of input. What it learns from data, it learns in `fit`, from the rows that it is given and no others.

    kind:    its name in the registry and in a run's settings.
    extra:   the extra of fewtask that reading such input needs, if any.
    columns: the columns of a table that it reads.
    scale:   the pool's (shift, factor) of what `transform` gives.
    """

    kind: ClassVar[str]
    extra: ClassVar[str | None] = None
    columns: tuple[str, ...]
    scale: tuple[float, float] = (0.0, 1.0)

    def fit(self, table: Table, rows: np.ndarray) -> None:
        """Learn means, deviations and category codes from the given rows: those of the training tasks.

        Most kinds learn nothing.
        """
        return

    @abstractmethod
    def transform(self, table: Table, progress: Progress = quiet) -> Transformed:
        """Features [G, ...] of the good rows, their positions [G] in the table, and the bad rows with the reason."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """All that is needed to transform again, as plain JSON; `kind` is one of its keys."""

    @classmethod
    @abstractmethod
    def from_settings(cls, values: Mapping[str, Any]) -> Featuriser: ...

    @abstractmethod
    def describe(self) -> str:
        """What it reads and makes, in a few words for people."""


def good_rows(table: Table, bad: list[BadRow]) -> np.ndarray:
    """Positions of the rows that are not among the bad ones."""
    good = np.ones(len(table), dtype=bool)
    good[[row.row for row in bad]] = False
    return np.flatnonzero(good)
