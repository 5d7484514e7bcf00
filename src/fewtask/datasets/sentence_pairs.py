"""Reading pairs of sentences: lines of JSON, or the archives in which GLUE, SNLI and SciTail are published."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from fewtask.bounds import Unpacking, lines, open_text
from fewtask.datasets.archives import DAMAGED, open_zip
from fewtask.errors import DataError

ENTAILMENT = {"entailment": 1, "entails": 1, "not_entailment": 0, "neutral": 0, "contradiction": 0}
NO_GOLD_LABEL = "-"
OWN_KEYS = ("premise", "hypothesis", "label")


@dataclass(frozen=True)
class Pair:
    """A premise, a hypothesis, 1 where the one entails the other and 0 where not, and the line it stands on."""

    premise: str
    hypothesis: str
    label: int
    line: int


@dataclass(frozen=True)
class Archive:
    """A publisher's zip file: its address, the members to read, and what premise, hypothesis and label are called.

    Members that end in .tsv have a header and no quoting; the others are lines of JSON.
    """

    url: str
    members: tuple[str, ...]
    keys: tuple[str, str, str]
    known_hash: str


# The checksums are those that the data sets' listings at Hugging Face record for these archives.
GLUE = "https://dl.fbaipublicfiles.com/glue/data"
ARCHIVES: dict[str, Archive] = {
    "mnli": Archive(
        f"{GLUE}/MNLI.zip",
        ("MNLI/train.tsv",),
        ("sentence1", "sentence2", "gold_label"),
        "sha256:e7c1d896d26ed6caf700110645df426cc2d8ebf02a5ab743d5a5c68ac1c83633",
    ),
    "qnli": Archive(
        f"{GLUE}/QNLIv2.zip",
        ("QNLI/train.tsv",),
        ("sentence", "question", "label"),
        "sha256:e634e78627a29adaecd4f955359b22bf5e70f2cbd93b493f2d624138a0c0e5f5",
    ),
    "rte": Archive(
        f"{GLUE}/RTE.zip",
        ("RTE/train.tsv", "RTE/dev.tsv"),
        ("sentence1", "sentence2", "label"),
        "sha256:6bf86de103ecd335f3441bd43574d23fef87ecc695977a63b82d5efb206556ee",
    ),
    "snli": Archive(
        "https://nlp.stanford.edu/projects/snli/snli_1.0.zip",
        ("snli_1.0/snli_1.0_train.jsonl",),
        ("sentence1", "sentence2", "gold_label"),
        "sha256:afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e",
    ),
    "scitail": Archive(
        "http://data.allenai.org.s3.amazonaws.com/downloads/SciTailV1.1.zip",
        ("SciTailV1.1/snli_format/scitail_1.0_test.txt",),
        ("sentence1", "sentence2", "gold_label"),
        "sha256:3fccd37350a94ca280b75998568df85fc2fc62843a3198d644fcbf858e6943d5",
    ),
}


def read_pairs(path: Path, name: str) -> list[Pair]:
    """The pairs of one task; those on which the annotators did not agree carry no gold label and are left out.

    A download is kept as the publisher packed it, so the file may be lines of JSON or a zip file of them: its
    content tells which.
    """
    if not path.is_file():
        raise DataError(f"{path} is missing: 'glue-scitail' needs a file of sentence pairs of {name}")
    try:
        if not zipfile.is_zipfile(path):
            with open_text(path, newline=None) as text:
                return list(_pairs(_json_lines(lines(text, path), path), OWN_KEYS, path))
        archive, pairs = ARCHIVES[name], []
        budget = Unpacking(path)
        with open_zip(path) as opened:
            for member in archive.members:
                if member not in opened.namelist():
                    raise DataError(f"{path} has no member {member}: fetch {archive.url} again")
                # A zip file's reader gives no more than the size that its index states.
                budget.take(opened.getinfo(member).file_size)
                with io.TextIOWrapper(opened.open(member), encoding="utf-8", newline="\n") as stream:
                    read = _tsv_lines if member.endswith(".tsv") else _json_lines
                    pairs += list(_pairs(read(lines(stream, path), path), archive.keys, path))
        return pairs
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not a text file in UTF-8 ({error}): fetch it again") from error
    except DAMAGED as error:
        raise DataError(f"{path} is damaged ({error}): fetch it again") from error


def _json_lines(stream: Iterable[str], path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    for number, text in enumerate(stream, start=1):
        if not text.strip():
            continue
        try:
            values = json.loads(text)
        except ValueError as error:
            raise DataError(f"{path}, line {number} is not JSON ({error}): fetch the file again") from error
        if not isinstance(values, dict):
            raise DataError(f"{path}, line {number} is not a JSON object: fetch the file again")
        yield number, values


def _tsv_lines(stream: Iterable[str], path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    lines = iter(stream)
    header = next(lines, "").rstrip("\r\n").split("\t")
    for number, text in enumerate(lines, start=2):
        yield number, dict(zip(header, text.rstrip("\r\n").split("\t")))


def _pairs(lines: Iterable[tuple[int, Mapping[str, object]]], keys: tuple[str, str, str], path: Path) -> Iterator[Pair]:
    for number, values in lines:
        for key in keys:
            if not isinstance(values.get(key), str):
                raise DataError(f"{path}, line {number} has no text for '{key}': each line needs {', '.join(keys)}")
        premise, hypothesis, label = (str(values[key]) for key in keys)
        if label == NO_GOLD_LABEL:
            continue
        if label not in ENTAILMENT:
            known = ", ".join(ENTAILMENT)
            raise DataError(f"{path}, line {number}: the label is '{label[:40]}' where one of {known} is needed")
        yield Pair(premise, hypothesis, ENTAILMENT[label], number)
