"""Tox21: twelve assays of toxicity on one list of molecules, with blanks where a molecule was not tested (TDC).

Seven on nuclear receptors (NR) and five on stress responses (SR). All rows are used unless `max_per_class`
says otherwise.
"""

from __future__ import annotations

from pathlib import Path

from fewtask.datasets.assays import AssayTable, build_assays, prepare_table, read_label
from fewtask.datasets.base import Prepared, Progress, RawFile, Source
from fewtask.datasets.fingerprints import kind_of
from fewtask.datasets.tables import read_table
from fewtask.pool import SPLITS, Dataset
from fewtask.settings import DataSettings

ASSAYS = {
    "train": ("NR-AR", "NR-AR-LBD", "NR-AhR", "NR-Aromatase", "NR-ER", "NR-ER-LBD"),
    "validation": ("NR-PPAR-gamma", "SR-ARE"),
    "test": ("SR-ATAD5", "SR-HSE", "SR-MMP", "SR-p53"),
}
FILE = "tox21.csv"
# TDC calls the column of SMILES X or Drug, DeepChem calls it smiles.
SMILES = ("smiles", "X", "Drug")


def prepare(folder: Path, settings: DataSettings, progress: Progress) -> Prepared:
    table = AssayTable.empty([assay for split in SPLITS for assay in ASSAYS[split]])
    path = folder / FILE
    columns = {"smiles": SMILES} | {assay: (assay,) for assay in table.assays}
    for line, cells in read_table(path, columns):
        labels = {assay: read_label(cells[assay], path, line) for assay in table.assays}
        table.add(cells["smiles"], labels, f"{path.name}, line {line}: {cells['smiles']}")
    return prepare_table(table, settings, progress, "smiles")


def build(prepared: Prepared, settings: DataSettings) -> Dataset:
    return build_assays("tox21", prepared, settings, ASSAYS, dict.fromkeys(SPLITS, settings.max_per_class))


SOURCE = Source(
    name="tox21",
    title="twelve assays of toxicity, as fingerprints",
    domain="molecules",
    licence="not stated with the file: see the terms of TDC",
    splits="6 / 2 / 4 tasks of 2 classes",
    build=build,
    prepare=prepare,
    folder="tox21",
    files=(RawFile(FILE, "https://dataverse.harvard.edu/api/access/datafile/4259612"),),
    variant=kind_of,
    needs="chem",
)
