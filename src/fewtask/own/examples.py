"""Small ready-made problems to try every command on, from data that scikit-learn and RDKit bring along.

Each has tasks to learn from, and a new task: ten or more labelled rows of it in `support.csv`, and others in
`query.csv`, whose column `truth` says what a prediction can be compared with.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fewtask.datasets.rainbow import paint
from fewtask.errors import DataError
from fewtask.features.images import pillow
from fewtask.files import write_atomically, write_text

SHOWN, ASKED = 5, 40
PICTURE_TASKS = {
    "red": ("red", "full", (0, 1, 2)),
    "orange": ("orange", "full", (2, 3, 4)),
    "yellow": ("yellow", "full", (4, 5, 6)),
    "green": ("green", "full", (0, 3, 6)),
    "violet": ("violet", "full", (1, 4, 6)),
    "indigo": ("indigo", "full", (0, 2, 5)),
    "red small": ("red", "half", (1, 3, 5)),
    "green small": ("green", "half", (2, 4, 6)),
}
"""Colour, size and digits of each task."""


@dataclass(frozen=True)
class Example:
    """What was written: the file or folder to train on, below the folder, and a sentence about it."""

    data: str
    about: str


def write_example(kind: str, folder: Path) -> Example:
    if folder.exists() and any(folder.iterdir()):
        raise DataError(f"{folder} is not empty: choose another --out")
    folder.mkdir(parents=True, exist_ok=True)
    return EXAMPLES[kind](folder)


def table_example(folder: Path) -> Example:
    """Handwritten digits by how much ink is in each row and column: which of two digits is it?"""
    from sklearn.datasets import load_digits

    bundle = load_digits()
    rng = np.random.default_rng(0)
    ink = {f"row{i + 1}": bundle.images.sum(axis=2)[:, i] for i in range(8)}
    ink |= {f"column{i + 1}": bundle.images.sum(axis=1)[:, i] for i in range(8)}
    total = bundle.images.sum(axis=(1, 2))
    weight = np.array(["light", "medium", "heavy"])[np.digitize(total, np.quantile(total, [1 / 3, 2 / 3]))]
    columns = {name: values.astype(int).astype(str) for name, values in ink.items()} | {"weight": weight}
    rows: list[list[str]] = []
    for low, high in ((0, 1), (2, 3), (4, 5), (6, 7), (0, 3), (1, 4), (2, 5), (3, 6), (4, 7), (1, 6)):
        for digit in (low, high):
            for row in rng.permutation(np.flatnonzero(bundle.target == digit))[:30]:
                rows.append([f"{low} or {high}", str(digit), *(values[row] for values in columns.values())])
    write_csv(folder / "tasks.csv", ["task", "label", *columns], rows)
    of = {d: rng.permutation(np.flatnonzero(bundle.target == d)) for d in (8, 9)}
    cells = {str(d): [[values[row] for values in columns.values()] for row in of[d]] for d in of}
    _new_task(folder, list(columns), cells)
    return Example("tasks.csv", "ten tasks in a long table: which of two digits is it? The new task is 8 or 9")


def folder_example(folder: Path) -> Example:
    """Digits on coloured paper as pictures in task/class/file."""
    from sklearn.datasets import load_digits

    image, _ = pillow()
    bundle = load_digits()
    rng = np.random.default_rng(0)
    enlarged = np.kron(bundle.images * (255 / 16), np.ones((3, 3))).round().astype(np.uint8)
    for name, (colour, size, digits) in PICTURE_TASKS.items():
        for digit in digits:
            chosen = rng.permutation(np.flatnonzero(bundle.target == digit))[:20]
            place = folder / "pictures" / name / str(digit)
            _save(image, paint(enlarged[chosen], (colour, size, 0)), place)
    cells = {}
    for digit in (7, 8, 9):
        chosen = rng.permutation(np.flatnonzero(bundle.target == digit))[: SHOWN + ASKED]
        names = _save(image, paint(enlarged[chosen], ("blue", "full", 0)), folder / "new" / str(digit))
        cells[str(digit)] = [[f"new/{digit}/{name}"] for name in names]
    _new_task(folder, ["file"], cells)
    return Example(
        "pictures", "eight tasks as folders of pictures: which of three digits is it? The new task is 7, 8 or 9"
    )


def molecules_example(folder: Path) -> Example:
    """A wide table of molecules with blanks: is a property of theirs above the median?"""
    smiles, values = _properties()
    rng = np.random.default_rng(0)
    labels = {name: (own > np.median(own)).astype(int).astype(str) for name, own in values.items()}
    new = labels.pop("refractivity")
    tested = rng.random((len(smiles), len(labels))) < 0.8
    half = len(smiles) // 2
    rows = [
        [smiles[row], *(own[row] if tested[row, place] else "" for place, own in enumerate(labels.values()))]
        for row in range(half)
    ]
    write_csv(folder / "assays.csv", ["smiles", *labels], rows)
    cells = {label: [[smiles[row]] for row in np.flatnonzero(new == label) if row >= half] for label in ("0", "1")}
    _new_task(folder, ["smiles"], cells)
    about = "eight properties of molecules in a wide table with blanks. The new task is molar refractivity"
    return Example("assays.csv", about)


def _properties() -> tuple[list[str], dict[str, np.ndarray]]:
    """SMILES of 1,200 molecules that RDKit carries, and what it computes of them."""
    try:
        from rdkit import Chem, RDConfig, rdBase
        from rdkit.Chem import rdMolDescriptors
    except ImportError as error:
        raise DataError('molecules are read with RDKit: pip install "fewtask[chem]"') from error
    source = Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi"
    if not source.is_file():
        raise DataError("this RDKit comes without its folder Data/NCI: install RDKit with pip, or try another example")
    functions: dict[str, Callable[[Any], float]] = {
        "lipophilic": lambda molecule: rdMolDescriptors.CalcCrippenDescriptors(molecule)[0],
        "polar": rdMolDescriptors.CalcTPSA,
        "flexible": rdMolDescriptors.CalcNumRotatableBonds,
        "aromatic": rdMolDescriptors.CalcNumAromaticRings,
        "donors": rdMolDescriptors.CalcNumHBD,
        "acceptors": rdMolDescriptors.CalcNumHBA,
        "saturated": rdMolDescriptors.CalcFractionCSP3,
        "heavy": rdMolDescriptors.CalcExactMolWt,
        "refractivity": lambda molecule: rdMolDescriptors.CalcCrippenDescriptors(molecule)[1],
    }
    texts, values = [], []
    with rdBase.BlockLogs():
        for line in source.read_text(encoding="utf-8").splitlines():
            molecule = Chem.MolFromSmiles(line.split()[0])
            if molecule is not None and 8 <= molecule.GetNumHeavyAtoms() <= 40:
                texts.append(Chem.MolToSmiles(molecule))
                values.append([function(molecule) for function in functions.values()])
            if len(texts) == 1200:
                break
    return texts, dict(zip(functions, np.array(values).T))


def _new_task(folder: Path, columns: Sequence[str], cells: Mapping[str, Sequence[Sequence[str]]]) -> None:
    """support.csv with a few labelled rows of each class, and query.csv with others in turn."""
    support = [[*row, label] for label, rows in cells.items() for row in rows[:SHOWN]]
    query = [[*row, label] for label, rows in cells.items() for row in rows[SHOWN : SHOWN + ASKED]]
    write_csv(folder / "support.csv", [*columns, "label"], support)
    order = np.random.default_rng(1).permutation(len(query))
    write_csv(folder / "query.csv", [*columns, "truth"], [query[row] for row in order])


def _save(image: Any, pictures: np.ndarray, folder: Path) -> list[str]:
    """Writes [n, 3, H, W] bytes as PNG files and gives their names."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{number:02d}.png" for number in range(len(pictures))]
    for name, picture in zip(names, pictures.transpose(0, 2, 3, 1)):
        made = image.fromarray(np.ascontiguousarray(picture))
        write_atomically(folder / name, lambda path, made=made: made.save(path, format="PNG"))  # type: ignore[misc]
    return names


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    write_text(path, text.getvalue())


EXAMPLES: dict[str, Callable[[Path], Example]] = {
    "table": table_example,
    "folder": folder_example,
    "molecules": molecules_example,
}
