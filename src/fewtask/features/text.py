"""Text in one or two columns, as embeddings of a frozen sentence encoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fewtask.datasets.base import Progress, quiet
from fewtask.datasets.text_encoder import MINILM, embed_sentences, pair_features
from fewtask.errors import DataError
from fewtask.features.base import Featuriser, Transformed, good_rows
from fewtask.features.table import Table


class Text(Featuriser):
    """One column: unit vectors [R, 384]. Two columns u and v: [u, v, |u - v|, u * v], [R, 1536]."""

    kind = "text"
    extra = "text-frozen"

    def __init__(self, columns: Sequence[str]) -> None:
        if not 1 <= len(columns) <= 2:
            raise DataError(f"text is read from one column or two, not {len(columns)}: name them with --text-column")
        self.columns = tuple(columns)

    def transform(self, table: Table, progress: Progress = quiet) -> Transformed:
        texts = {name: table.texts(name) for name in self.columns}
        bad = [
            table.bad(row, name, "there is no text")
            for name in self.columns
            for row in np.flatnonzero([not text for text in texts[name]]).tolist()
        ]
        good = good_rows(table, bad)
        # The same premise stands in many pairs: each distinct sentence is embedded once.
        number: dict[str, int] = {}
        places = [[number.setdefault(texts[name][row], len(number)) for row in good.tolist()] for name in self.columns]
        vectors = embed_sentences(list(number), progress)
        parts = [vectors[place] for place in places]
        features = parts[0] if len(parts) == 1 else pair_features(*parts)
        return features, good, sorted(bad, key=lambda row: row.row)

    def settings(self) -> dict[str, Any]:
        return {"kind": self.kind, "columns": list(self.columns), "model": MINILM}

    @classmethod
    def from_settings(cls, values: Mapping[str, Any]) -> Text:
        if values["model"] != MINILM:
            raise ValueError(f"the text encoder '{values['model']}' is unknown")
        return cls(values["columns"])

    def describe(self) -> str:
        return f"text in {' and '.join(repr(name) for name in self.columns)} as embeddings of {MINILM}"
