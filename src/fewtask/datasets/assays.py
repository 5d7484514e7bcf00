"""What the three molecule data sets share: a table of molecules by assays in, tasks of two classes out."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fewtask.datasets.base import Prepared, Progress
from fewtask.datasets.fingerprints import Form, Molecules, describe, kind_of, read_molecules, unpack
from fewtask.errors import DataError
from fewtask.pool import SPLITS, Dataset, TaskPool
from fewtask.settings import DataSettings

CLASSES = ("inactive", "active")
UNTESTED = -1
SHARES = {"train": 0.60, "validation": 0.15, "test": 0.25}
GOLDEN = (5**0.5 - 1) / 2
MOST_LISTED = 20
LONGEST_PLACE = 200


@dataclass
class AssayTable:
    """Records as the publisher has them.

    texts:  [R] SMILES or SDF records.
    labels: [R, A] 0 inactive, 1 active, -1 not tested in that assay.
    where:  [R] how to find the record again, for the list of those that fail.
    """

    assays: tuple[str, ...]
    texts: list[str]
    labels: list[list[int]]
    where: list[str]

    @classmethod
    def empty(cls, assays: Sequence[str]) -> AssayTable:
        return cls(tuple(assays), [], [], [])

    def add(self, text: str, labels: Mapping[str, int], where: str) -> None:
        self.texts.append(text)
        self.labels.append([labels.get(assay, UNTESTED) for assay in self.assays])
        self.where.append(where[:LONGEST_PLACE])


def prepare_table(table: AssayTable, settings: DataSettings, progress: Progress, form: Form) -> Prepared:
    """Fingerprints of a table's molecules, and counts of what did not parse, recurs or contradicts itself."""
    kind = kind_of(settings)
    found = read_molecules(table.texts, kind, form, progress)
    labels = np.array(table.labels, dtype=np.int8).reshape(len(table.texts), len(table.assays))
    parsed = found.index >= 0
    arrays = {"bits": found.packed, "molecule": found.index[parsed], "labels": labels[parsed]}
    info = {"fingerprint": kind, "assays": list(table.assays)} | _counts(table, found, labels)
    return Prepared(arrays, info)


def _counts(table: AssayTable, found: Molecules, labels: np.ndarray) -> dict[str, Any]:
    failed = np.flatnonzero(found.index < 0)
    listed = [{"record": int(row), "where": table.where[row]} for row in failed[:MOST_LISTED]]
    per_assay = {}
    for column, assay in enumerate(table.assays):
        tested = labels[:, column] != UNTESTED
        kept = tested & (found.index >= 0)
        molecules = found.index[kept]
        answers = labels[kept, column]
        distinct = len(np.unique(molecules))
        # A molecule with both labels appears once among the inactive and once among the active ones.
        both = np.intersect1d(molecules[answers == 0], molecules[answers == 1])
        per_assay[assay] = {
            "rows": int(tested.sum()),
            "failed": int((tested & (found.index < 0)).sum()),
            "inactive": int((answers == 0).sum()),
            "active": int((answers == 1).sum()),
            "repeated": len(molecules) - distinct,
            "contradicting": len(both),
        }
    return {
        "records": len(table.texts),
        "molecules": len(found.packed),
        "failed": len(failed),
        "failed_first": listed,
        "repeated": sum(counts["repeated"] for counts in per_assay.values()),
        "contradicting": sum(counts["contradicting"] for counts in per_assay.values()),
        "per_assay": per_assay,
    }


def build_assays(
    name: str,
    prepared: Prepared,
    settings: DataSettings,
    splits: Mapping[str, Sequence[str]],
    most: Mapping[str, int | None],
) -> Dataset:
    """Pools of two-class tasks: `splits` names each split's assays, `most` limits the rows of a class there.

    strict: the molecules are divided 60 / 15 / 25 % between the splits first, a molecule counts once in a class,
    and a task keeps those of its rows that fell to its split, however few.
    """
    assays: list[str] = list(prepared.info["assays"])
    molecule, labels = prepared.arrays["molecule"].astype(np.int64), prepared.arrays["labels"]
    bits, kind = prepared.arrays["bits"], str(prepared.info["fingerprint"])
    home = _divide(molecule, labels, len(bits), settings.seed) if settings.strict else None
    pools = {}
    for number, split in enumerate(SPLITS):
        tasks = {}
        for assay in splits[split]:
            column = labels[:, assays.index(assay)]
            classes = {}
            for label, class_name in enumerate(CLASSES):
                members = molecule[column == label]
                if home is not None:
                    members = np.unique(members[home[members] == number])
                rng = np.random.default_rng([settings.seed, zlib.crc32(f"{name}/{assay}/{label}".encode())])
                classes[class_name] = _at_most(_numbered(members), most[split], rng)
            tasks[assay] = classes
        pools[split] = _pool(bits, kind, tasks)
    return Dataset(name, pools["train"], pools["validation"], pools["test"], describe(kind))


def _divide(molecule: np.ndarray, labels: np.ndarray, count: int, seed: int) -> np.ndarray:
    """[M] split of each molecule: 0 train, 1 validation, 2 test.

    Shuffled molecules are ordered by their labels, those of the scarcest class first, and spread evenly along that
    order: otherwise chance alone would leave a short class with too few rows for an episode.
    """
    rng = np.random.default_rng([seed, zlib.crc32(b"molecules")])
    answers = np.full((count, labels.shape[1]), UNTESTED)
    np.maximum.at(answers, molecule, labels)
    scarcest_last = np.argsort([-min((column == 0).sum(), (column == 1).sum()) for column in labels.T])
    shuffled = rng.permutation(count)
    order = shuffled[np.lexsort([answers[shuffled, column] for column in scarcest_last])]
    # Multiples of the golden ratio fill the interval evenly in every stretch of the order.
    place = (np.arange(count) * GOLDEN + rng.random()) % 1.0
    home = np.empty(count, dtype=np.int64)
    home[order] = np.searchsorted(np.cumsum([SHARES[split] for split in SPLITS])[:-1], place, side="right")
    return home


def _numbered(members: np.ndarray) -> np.ndarray:
    """[n, 2] molecule and how often it came before: a molecule that a class lists twice stays two rows."""
    order = np.argsort(members, kind="stable")
    ordered = members[order]
    starts = np.searchsorted(ordered, ordered)
    before = np.empty(len(members), dtype=np.int64)
    before[order] = np.arange(len(members)) - starts
    return np.stack([members, before], axis=1)


def _at_most(members: np.ndarray, most: int | None, rng: np.random.Generator) -> np.ndarray:
    if most is None or len(members) <= most:
        return members
    return members[np.sort(rng.choice(len(members), size=most, replace=False))]


def _pool(bits: np.ndarray, kind: str, tasks: Mapping[str, Mapping[str, np.ndarray]]) -> TaskPool:
    """A pool whose tasks share the row of a molecule that several of them contain."""
    used = np.concatenate([members for classes in tasks.values() for members in classes.values()])
    distinct, position = np.unique(used, axis=0, return_inverse=True)
    position = position.reshape(-1)
    indexed: dict[str, dict[str, np.ndarray]] = {}
    start = 0
    for assay, classes in tasks.items():
        indexed[assay] = {}
        for class_name, members in classes.items():
            indexed[assay][class_name] = position[start : start + len(members)]
            start += len(members)
    return TaskPool.fixed(unpack(bits[distinct[:, 0]], kind), indexed)


def read_label(cell: str, path: Path, line: int) -> int:
    """0 or 1, in any way of writing it; a blank is an assay in which the molecule was not tested."""
    if not cell:
        return UNTESTED
    try:
        value = float(cell)
    except ValueError:
        value = np.nan
    if value not in (0.0, 1.0):
        raise DataError(f"{path}, line {line}: the label is '{cell[:40]}' where 0 or 1 is needed")
    return int(value)
