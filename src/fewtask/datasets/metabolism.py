"""Metabolism: which molecules inhibit, or are turned over by, eight variants of the enzyme CYP P450 (TDC).

Five assays of inhibition (Veith et al.) with some 12,500 molecules and three of substrates (Carbon-Mangels and
Hutter) with some 670. At most 500 rows a class are used in every split, drawn with the data seed; the classes of
the substrate sets that are shorter stay as they are.
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
    "train": ("CYP1A2_Veith", "CYP3A4_Veith", "CYP2C9_Substrate_CarbonMangels"),
    "validation": ("CYP2D6_Veith", "CYP2D6_Substrate_CarbonMangels"),
    "test": ("CYP2C19_Veith", "CYP2C9_Veith", "CYP3A4_Substrate_CarbonMangels"),
}
# Identifiers of the files at Harvard Dataverse. No checksum is known: its row order may differ between copies.
DATAVERSE = {
    "CYP1A2_Veith": 4259573,
    "CYP3A4_Veith": 4259582,
    "CYP2C9_Substrate_CarbonMangels": 4259584,
    "CYP2D6_Veith": 4259580,
    "CYP2D6_Substrate_CarbonMangels": 4259578,
    "CYP2C19_Veith": 4259576,
    "CYP2C9_Veith": 4259577,
    "CYP3A4_Substrate_CarbonMangels": 4259581,
}
MAX_PER_CLASS = 500
COLUMNS = {"smiles": ("Drug", "X"), "label": ("Y",)}


def file_name(assay: str) -> str:
    return f"{assay.lower()}.tab"


def prepare(folder: Path, settings: DataSettings, progress: Progress) -> Prepared:
    table = AssayTable.empty(tuple(DATAVERSE))
    for assay in table.assays:
        path = folder / file_name(assay)
        for line, cells in read_table(path, COLUMNS):
            label = read_label(cells["label"], path, line)
            table.add(cells["smiles"], {assay: label}, f"{path.name}, line {line}: {cells['smiles']}")
    return prepare_table(table, settings, progress, "smiles")


def build(prepared: Prepared, settings: DataSettings) -> Dataset:
    most = MAX_PER_CLASS if settings.max_per_class is None else settings.max_per_class
    return build_assays("metabolism", prepared, settings, ASSAYS, dict.fromkeys(SPLITS, most))


SOURCE = Source(
    name="metabolism",
    title="inhibitors and substrates of CYP P450 enzymes, as fingerprints",
    domain="molecules",
    licence="CC BY 4.0 (Therapeutics Data Commons)",
    splits="3 / 2 / 3 tasks of 2 classes",
    build=build,
    prepare=prepare,
    folder="metabolism",
    files=tuple(
        RawFile(file_name(assay), f"https://dataverse.harvard.edu/api/access/datafile/{number}")
        for assay, number in DATAVERSE.items()
    ),
    variant=kind_of,
    needs="chem",
)
