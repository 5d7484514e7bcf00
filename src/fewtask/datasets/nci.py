"""NCI: nine assays of activity against tumour cells, as balanced SDF files in one zip file.

Training assays are limited to 500 rows a class, drawn with the data seed: with all rows a plain ProtoNet passes
what the paper reports by far. Validation and test assays keep all rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from fewtask.datasets.archives import open_zip, read_member
from fewtask.datasets.assays import AssayTable, build_assays, prepare_table
from fewtask.datasets.base import Prepared, Progress, RawFile, Source
from fewtask.datasets.fingerprints import kind_of
from fewtask.errors import DataError
from fewtask.pool import SPLITS, Dataset
from fewtask.settings import DataSettings

ASSAYS = {
    "train": ("41", "47", "83", "109"),
    "validation": ("81", "145"),
    "test": ("1", "33", "123"),
}
FILE = "NCI_balanced.zip"
MAX_PER_CLASS = 500
HEADER_LINES = 3
_VALUE = re.compile(r"^>\s*<value>[^\n]*\n\s*(\S+)", re.MULTILINE)
_LABELS = {1.0: 1, -1.0: 0}


def prepare(folder: Path, settings: DataSettings, progress: Progress) -> Prepared:
    table = AssayTable.empty([assay for split in SPLITS for assay in ASSAYS[split]])
    # The members are read where they are: the raw folder may be read-only.
    with open_zip(folder / FILE) as opened:
        for assay in progress(table.assays, "assays", len(table.assays)):
            name = f"{assay}-balance.sdf"
            text = read_member(opened, f"NCI_balanced/{name}").decode("latin1")
            before = len(table.texts)
            for number, record in enumerate(split_records(text), start=1):
                title, molecule, label = read_record(record, f"{name}, record {number}")
                table.add(molecule, {assay: label}, f"{name}, record {number}: {title}")
            if len(table.texts) == before:
                raise DataError(f"{name} in {folder / FILE} has no records: fetch the publisher's file again")
    return prepare_table(table, settings, progress, "mol")


def split_records(text: str) -> Iterator[str]:
    """The records of an SDF file; what follows the last separator is one only if something is there."""
    for record in re.split(r"^\$\$\$\$[^\n]*\n?", text.replace("\r\n", "\n"), flags=re.MULTILINE):
        if record.strip():
            yield record


def read_record(record: str, where: str) -> tuple[str, str, int]:
    """A record's title, its molecule without what differs between assays, and its label.

    The same molecule recurs in several assays under the same structure; without title and values its text is the
    same too, and is read once.
    """
    title, _, rest = record.partition("\n")
    found = _VALUE.search(record)
    try:
        label = _LABELS[float(found.group(1))] if found else None
    except (ValueError, KeyError):
        label = None
    if label is None:
        raise DataError(f"{where} has no property 'value' of 1.0 or -1.0: use the publisher's file")
    structure = rest.partition("M  END")[0].split("\n", HEADER_LINES - 1)[-1]
    return title.strip(), "\n" * HEADER_LINES + structure + "M  END\n", label


def build(prepared: Prepared, settings: DataSettings) -> Dataset:
    limit = MAX_PER_CLASS if settings.max_per_class is None else settings.max_per_class
    most: dict[str, int | None] = {"train": limit, "validation": None, "test": None}
    return build_assays("nci", prepared, settings, ASSAYS, most)


SOURCE = Source(
    name="nci",
    title="nine assays of activity against tumour cells, as fingerprints",
    domain="molecules",
    licence="not stated: the repository asks to be cited",
    splits="4 / 2 / 3 tasks of 2 classes",
    build=build,
    prepare=prepare,
    folder="nci",
    files=(
        RawFile(
            FILE,
            "https://github.com/shiruipan/graph_datasets/blob/master/Graph_Repository/NCI_balanced.zip?raw=true",
            "sha256:72996a7ed9097d79aa23384bf8e665c8e9031c510e2cc5ffad94ae6656b6f544",
        ),
    ),
    variant=kind_of,
    needs="chem",
)
