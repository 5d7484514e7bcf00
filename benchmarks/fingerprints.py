"""Fingerprints of Metabolism's 65,000 molecules: fewtask against a plain loop over the rows, in one run.

    python benchmarks/fingerprints.py FOLDER_WITH_THE_PUBLISHERS_FILES

fewtask reads every distinct text once, in as many processes as there are cores.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fewtask.datasets.assays import read_lines
from fewtask.datasets.fingerprints import fingerprint_chunk, read_molecules
from fewtask.datasets.metabolism import COLUMNS, DATAVERSE, file_name
from fewtask.errors import FewtaskError

TURNS = 2


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__)
        return 2
    folder = Path(sys.argv[1])
    texts = [cells["smiles"] for assay in DATAVERSE for _, cells in read_lines(folder / file_name(assay), COLUMNS)]
    print(f"{len(texts)} rows, {len(set(texts))} distinct texts", flush=True)
    shares = []
    for turn in range(TURNS):
        slow, plain = timed(plain_loop, texts)
        fast, found = timed(lambda rows: read_molecules(rows, "morgan"), texts)
        bits = np.where(found.index[:, None] >= 0, found.packed[np.maximum(found.index, 0)], 0)
        assert np.array_equal(bits, plain), "the two differ"
        shares.append(fast / slow)
        print(f"turn {turn + 1}: plain loop {slow:.1f} s, fewtask {fast:.1f} s: {shares[-1]:.0%} of it", flush=True)
    print(f"fewtask takes {np.mean(shares):.0%} of the plain loop's time")
    return 0


def plain_loop(texts: Sequence[str]) -> np.ndarray:
    """[R, 128] packed fingerprints, one row after the other in this process; rows that cannot be read are zero."""
    return fingerprint_chunk(texts, "morgan", "smiles")[1]


def timed(work: Callable[[Sequence[str]], Any], texts: Sequence[str]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = work(texts)
    return time.perf_counter() - started, result


if __name__ == "__main__":
    try:
        sys.exit(main())
    except FewtaskError as error:
        print(error, file=sys.stderr)
        sys.exit(1)
