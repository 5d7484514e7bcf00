"""Molecules as fingerprints, with RDKit on all cores.

Four kinds: `morgan` (1,024 bits for circular neighbourhoods up to radius 2), `rdkit` (1,024 bits for paths), `both`
(the two beside each other) and `counts` (how often each neighbourhood of `morgan` occurs); `morgan-2048`, `rdkit-2048`
and `counts-2048` have twice as many bits, so that fewer neighbourhoods share one. The same molecule recurs
in many assays, so each distinct text is read once, and each molecule (by canonical SMILES) is kept once. A canonical
SMILES costs more than a fingerprint, and equal molecules have equal fingerprints: only texts that share theirs
with another are compared by it.
"""

from __future__ import annotations

import io
import multiprocessing
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from fewtask.bounds import ATOMS, molecule_problem
from fewtask.datasets.base import Progress, quiet
from fewtask.errors import DataError, unknown
from fewtask.settings import DataSettings
from fewtask.threads import usable_cores

BITS = 1024
RADIUS = 2
WIDE = 2048
KINDS = ("morgan", "rdkit", "both", "counts", f"morgan-{WIDE}", f"rdkit-{WIDE}", f"counts-{WIDE}")
MOST_COUNTED = 255
Form = Literal["smiles", "mol"]

CHUNK = 256
# Below this, starting processes costs more than they save.
FEW = 2000


@dataclass(frozen=True)
class Molecules:
    """Distinct molecules, and which of them each text is.

    packed: [M, bytes] uint8, eight bits a byte, of `counts` a byte a count; in an order that does not depend on that
            of the texts.
    index:  [R] molecule of each text, -1 where the text is no molecule that RDKit accepts.
    """

    packed: np.ndarray
    index: np.ndarray


def kind_of(settings: DataSettings) -> str:
    """The fingerprint that the settings ask for."""
    return check_kind(settings.features or "morgan")


def check_kind(kind: str) -> str:
    if kind not in KINDS:
        raise unknown("fingerprint", kind, KINDS)
    return kind


def bits_of(kind: str) -> int:
    """Bits, or counts, of each of its fingerprints."""
    return WIDE if kind.endswith(f"-{WIDE}") else BITS


def is_counted(kind: str) -> bool:
    return kind.startswith("counts")


def packed_width(kind: str) -> int:
    """Bytes of a packed fingerprint."""
    return bits_of(kind) if is_counted(kind) else bits_of(kind) // (4 if kind == "both" else 8)


def describe(kind: str) -> dict[str, Any]:
    """What a saved model must remember to make the same fingerprints of new molecules."""
    return {"kind": "fingerprint", "fingerprint": kind, "bits": bits_of(kind), "radius": RADIUS}


def unpack(packed: np.ndarray, kind: str = "morgan") -> np.ndarray:
    """[M, bytes] to [M, features] uint8: of 0 and 1, or of counts."""
    return packed if is_counted(kind) else np.unpackbits(packed, axis=1)


def from_smiles(smiles: Sequence[str], kind: str = "morgan") -> np.ndarray:
    """[R, features] uint8 fingerprints of molecules that must all parse: for predicting on new ones."""
    found = read_molecules(smiles, kind)
    bad = np.flatnonzero(found.index < 0)
    if bad.size:
        first = int(bad[0])
        raise DataError(
            f"{bad.size} of {len(smiles)} SMILES cannot be read, the first is number {first + 1}, "
            f"'{smiles[first][:80]}': correct or remove them"
        )
    return unpack(found.packed, kind)[found.index]


def read_molecules(
    texts: Sequence[str],
    kind: str,
    form: Form = "smiles",
    progress: Progress = quiet,
    workers: int | None = None,
) -> Molecules:
    """Fingerprints of SMILES or of SDF records, each distinct text once, in `workers` processes (all cores)."""
    check_kind(kind)
    _rdkit()
    position: dict[str, int] = {}
    which = np.array([position.setdefault(text, len(position)) for text in texts], dtype=np.int64)
    distinct = list(position)
    chunks = [distinct[start : start + CHUNK] for start in range(0, len(distinct), CHUNK)]
    workers = (usable_cores() if len(distinct) >= FEW else 1) if workers is None else workers
    work = partial(fingerprint_chunk, kind=kind, form=form)
    results = list(progress(_in_processes(work, chunks, workers), "fingerprints", len(chunks)))
    if not results:
        return Molecules(np.zeros((0, packed_width(kind)), dtype=np.uint8), np.zeros(0, dtype=np.int32))
    parsed = np.concatenate([accepted for accepted, _ in results])
    packed, of_text = _distinct_molecules(distinct, form, parsed, np.concatenate([bits for _, bits in results]))
    return Molecules(packed, of_text[which])


def fingerprint_chunk(texts: Sequence[str], kind: str, form: Form) -> tuple[np.ndarray, np.ndarray]:
    """Whether RDKit accepts each text [n], and packed fingerprints [n, bytes]."""
    chem, _, without_messages = _rdkit()
    make = _maker(kind)
    accepted = np.zeros(len(texts), dtype=bool)
    packed = np.zeros((len(texts), packed_width(kind)), dtype=np.uint8)
    with without_messages():
        for row, text in enumerate(texts):
            molecule = _read(chem, text, form)
            # RDKit reads an empty text as a molecule without atoms, which has no fingerprint to speak of.
            if molecule is not None and 0 < molecule.GetNumAtoms() <= ATOMS:
                accepted[row] = True
                packed[row] = make(molecule)
    return accepted, packed


def _maker(kind: str) -> Callable[[Any], np.ndarray]:
    """What makes the packed fingerprint [bytes] of an RDKit molecule."""
    _, generators, _ = _rdkit()
    morgan = generators.GetMorganGenerator(radius=RADIUS, fpSize=bits_of(kind))
    paths = generators.GetRDKitFPGenerator(fpSize=bits_of(kind))
    if is_counted(kind):
        return lambda molecule: np.minimum(morgan.GetCountFingerprintAsNumPy(molecule), MOST_COUNTED)
    chosen = {"morgan": (morgan,), "rdkit": (paths,), "both": (morgan, paths)}[kind.removesuffix(f"-{WIDE}")]
    return lambda molecule: np.packbits(np.concatenate([made.GetFingerprintAsNumPy(molecule) for made in chosen]))


def _distinct_molecules(
    texts: Sequence[str], form: Form, parsed: np.ndarray, packed: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Packed fingerprints [M, bytes] of the distinct molecules, and the molecule of each text (-1: none)."""
    chem, _, without_messages = _rdkit()
    lines = np.flatnonzero(parsed)
    of_text = np.full(len(texts), -1, dtype=np.int32)
    if not lines.size:
        return packed[:0], of_text
    fingerprints, rank, counts = np.unique(packed[lines], axis=0, return_inverse=True, return_counts=True)
    rank = rank.reshape(-1)
    with without_messages():
        keys = [
            (int(place), chem.MolToSmiles(_read(chem, texts[int(line)], form)) if counts[place] > 1 else "")
            for line, place in zip(lines, rank)
        ]
    ordered = sorted(set(keys))
    number = {key: molecule for molecule, key in enumerate(ordered)}
    of_text[lines] = [number[key] for key in keys]
    return fingerprints[[place for place, _ in ordered]], of_text


def _read(chem: Any, text: str, form: Form) -> Any:
    """An RDKit molecule, or None where RDKit refuses the text."""
    if molecule_problem(text, form):
        return None
    if form == "smiles":
        return chem.MolFromSmiles(text)
    return next(chem.ForwardSDMolSupplier(io.BytesIO(text.encode())), None)


def _in_processes(work: Callable[[Any], Any], chunks: list[list[str]], workers: int) -> Iterator[Any]:
    """work(chunk) for each chunk, in order."""
    workers = min(workers, len(chunks))
    done = 0
    if workers > 1:
        # Forked children run RDKit alone and touch nothing of torch's threads. Where fork is not to be trusted
        # they start afresh, which a script without a `__main__` guard cannot do: then this process does it.
        method = "fork" if sys.platform == "linux" else "spawn"
        try:
            context = multiprocessing.get_context(method)
            with ProcessPoolExecutor(workers, mp_context=context) as pool:
                for result in pool.map(work, chunks):
                    yield result
                    done += 1
        except BrokenProcessPool:
            pass
    for chunk in chunks[done:]:
        yield work(chunk)


def _rdkit() -> tuple[Any, Any, Any]:
    try:
        from rdkit import Chem, rdBase
        from rdkit.Chem import rdFingerprintGenerator
    except ImportError as error:
        raise DataError('molecules are read with RDKit: pip install "fewtask[chem]"') from error
    return Chem, rdFingerprintGenerator, rdBase.BlockLogs
