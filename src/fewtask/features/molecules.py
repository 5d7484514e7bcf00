"""Molecules, from SMILES to fingerprints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fewtask.datasets.base import Progress, quiet
from fewtask.datasets.fingerprints import check_kind, describe, read_molecules, unpack
from fewtask.features.base import Featuriser, Transformed, good_rows
from fewtask.features.table import Table

DEFAULT = "counts"
"""The best in the mean over Tox21, NCI and Metabolism on meta-validation: experiments/*/fingerprints."""


class Molecules(Featuriser):
    """A column of SMILES as fingerprints of uint8, [R, 1024] or [R, 2048].

    features: `morgan`, `rdkit`, `both` or `counts`, or a kind with 2,048 bits such as `counts-2048`.
    """

    kind = "molecules"
    extra = "chem"

    def __init__(self, column: str, features: str | None = None) -> None:
        self.columns = (column,)
        self.features = check_kind(features or DEFAULT)

    def transform(self, table: Table, progress: Progress = quiet) -> Transformed:
        texts = table.texts(self.columns[0])
        found = read_molecules(texts, self.features, progress=progress)
        bad = [
            table.bad(row, self.columns[0], f"RDKit cannot read '{texts[row]}'" if texts[row] else "there is no SMILES")
            for row in np.flatnonzero(found.index < 0).tolist()
        ]
        good = good_rows(table, bad)
        return unpack(found.packed, self.features)[found.index[good]], good, bad

    def settings(self) -> dict[str, Any]:
        return describe(self.features) | {"kind": self.kind, "column": self.columns[0]}

    @classmethod
    def from_settings(cls, values: Mapping[str, Any]) -> Molecules:
        return cls(values["column"], values["fingerprint"])

    def describe(self) -> str:
        return f"SMILES in column '{self.columns[0]}' as fingerprints ({self.features})"
