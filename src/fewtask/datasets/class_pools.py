"""What the class-pool data sets share: one array of rows a split, a label a row, and the seeded choice of rows."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import numpy as np

from fewtask.datasets.base import Prepared
from fewtask.errors import DataError
from fewtask.pool import SPLITS, TaskPool
from fewtask.settings import DataSettings

UINT8_SCALE = (127.5, 1 / 127.5)
"""Bytes 0..255 to -1..1."""


def at_most(members: np.ndarray, most: int | None, seed: int, key: str) -> np.ndarray:
    """At most so many of the members, in their order; `key` names the class, so that each draws for itself."""
    if most is None or len(members) <= most:
        return members
    rng = np.random.default_rng([seed, zlib.crc32(key.encode())])
    return members[np.sort(rng.choice(len(members), size=most, replace=False))]


def class_pools(
    name: str,
    prepared: Prepared,
    class_names: Mapping[str, Sequence[str]],
    settings: DataSettings,
    scale: tuple[float, float] | None = (0.0, 1.0),
    groups: Mapping[str, np.ndarray] | None = None,
) -> dict[str, TaskPool]:
    """A pool a split from the arrays `<split>` [R, ...] and `<split>_labels` [R], positions in `class_names`."""
    pools = {}
    for split in SPLITS:
        labels = prepared.arrays[f"{split}_labels"]
        classes = {}
        for label, class_name in enumerate(class_names[split]):
            members = np.flatnonzero(labels == label)
            if not members.size:
                raise DataError(
                    f"class '{class_name}' of '{name}' has no rows: complete the raw files and prepare it again"
                )
            classes[class_name] = at_most(members, settings.max_per_class, settings.seed, f"{name}/{class_name}")
        chosen = None if groups is None else groups[split]
        pools[split] = TaskPool.class_pool(prepared.arrays[split], classes, scale, chosen)
    return pools
