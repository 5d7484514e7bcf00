"""GLUE-SciTail: does the hypothesis follow from the premise? Five sets of sentence pairs, one task each.

Features: `minilm`, sentence-pair features of a frozen all-MiniLM-L6-v2, which a machine without a GPU can run;
or `electra`, token ids for fine-tuning (`electra:FOLDER` names another tokenizer). SciTail's test part has 171
distinct hypotheses: `strict` keeps rows that share one together, in the support or in the query.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from fewtask.datasets.base import Prepared, Progress, RawFile, Source
from fewtask.datasets.class_pools import at_most
from fewtask.datasets.sentence_pairs import ARCHIVES, Pair, read_pairs
from fewtask.datasets.text_encoder import MINILM, embed_sentences, pair_features, tokenise_pairs
from fewtask.errors import DataError, unknown
from fewtask.pool import SPLITS, Dataset, TaskPool
from fewtask.settings import DataSettings, EncoderSettings

TASKS = {"train": ("MNLI", "QNLI"), "validation": ("SNLI", "RTE"), "test": ("SciTail",)}
NAMES = tuple(task for split in SPLITS for task in TASKS[split])
CLASSES = ("not entailment", "entailment")
MAX_PER_CLASS = 5_000
"""Embedding is slow without a GPU: MNLI, QNLI and SNLI are large, and episodes need no more rows than this."""
LENGTH = 128
"""Longest pair in tokens (ELECTRA)."""


def kind_of(settings: DataSettings) -> tuple[str, str]:
    """The kind of features, and the tokenizer of ELECTRA."""
    kind, _, path = (settings.features or "minilm").partition(":")
    if kind not in ("minilm", "electra") or (kind == "minilm" and path):
        raise unknown("features of 'glue-scitail'", settings.features or "", ("minilm", "electra"))
    return kind, path or EncoderSettings().path


def limit_of(settings: DataSettings) -> int:
    return MAX_PER_CLASS if settings.max_per_class is None else settings.max_per_class


def variant(settings: DataSettings) -> str:
    """Rows are chosen before they are embedded, so the choice is part of what is cached."""
    kind, path = kind_of(settings)
    if kind == "electra":
        kind += "-" + hashlib.sha256(path.encode()).hexdigest()[:8]
    return f"{kind}-{limit_of(settings)}-seed{settings.seed}"


def prepare(raw: Path, settings: DataSettings, progress: Progress) -> Prepared:
    kind, path = kind_of(settings)
    chosen: list[Pair] = []
    tasks: list[int] = []
    info: dict[str, Any] = {"features": kind, "rows": {}}
    for number, task in enumerate(progress(NAMES, "reading sentence pairs", len(NAMES))):
        pairs = read_pairs(raw / f"{task.lower()}.jsonl", task.lower())
        picked = _choose(pairs, task, settings)
        chosen += picked
        tasks += [number] * len(picked)
        info["rows"][task] = {"read": len(pairs), "kept": len(picked)}
    sentences = list(dict.fromkeys(text for pair in chosen for text in (pair.premise, pair.hypothesis)))
    position = {text: number for number, text in enumerate(sentences)}
    arrays: dict[str, np.ndarray] = {
        "task": np.array(tasks, dtype=np.int8),
        "label": np.array([pair.label for pair in chosen], dtype=np.int8),
        "line": np.array([pair.line for pair in chosen], dtype=np.int32),
        "premise": np.array([position[pair.premise] for pair in chosen], dtype=np.int32),
        "hypothesis": np.array([position[pair.hypothesis] for pair in chosen], dtype=np.int32),
    }
    if kind == "minilm":
        arrays["sentences"] = embed_sentences(sentences, progress).astype(np.float16)
        info["encoder"] = MINILM
    else:
        premises, hypotheses = [pair.premise for pair in chosen], [pair.hypothesis for pair in chosen]
        arrays["tokens"] = tokenise_pairs(premises, hypotheses, path, LENGTH)
        info["encoder"] = path
    return Prepared(arrays, info)


def _choose(pairs: list[Pair], task: str, settings: DataSettings) -> list[Pair]:
    labels = np.array([pair.label for pair in pairs])
    kept = []
    for label, class_name in enumerate(CLASSES):
        members = np.flatnonzero(labels == label)
        if not members.size:
            raise DataError(f"{task} has no pair of class '{class_name}': use the publisher's file")
        kept.append(at_most(members, limit_of(settings), settings.seed, f"glue-scitail/{task}/{label}"))
    return [pairs[index] for index in np.sort(np.concatenate(kept))]


def build(prepared: Prepared, settings: DataSettings) -> Dataset:
    kind, _ = kind_of(settings)
    pools = {split: _pool(prepared, split, kind, settings.strict) for split in SPLITS}
    features: dict[str, Any] = {"kind": "text", "features": kind, "encoder": prepared.info["encoder"]}
    if kind == "electra":
        features["length"] = LENGTH
    return Dataset("glue-scitail", pools["train"], pools["validation"], pools["test"], features)


def _pool(prepared: Prepared, split: str, kind: str, strict: bool) -> TaskPool:
    arrays = prepared.arrays
    numbers = [NAMES.index(task) for task in TASKS[split]]
    rows = np.flatnonzero(np.isin(arrays["task"], numbers))
    task, label = arrays["task"][rows], arrays["label"][rows]
    tasks = {
        NAMES[number]: {
            class_name: np.flatnonzero((task == number) & (label == value)) for value, class_name in enumerate(CLASSES)
        }
        for number in numbers
    }
    groups = arrays["hypothesis"][rows] if strict else None
    if kind == "electra":
        return TaskPool.fixed(arrays["tokens"][rows], tasks, scale=None, groups=groups)
    sentences = arrays["sentences"]
    pairs = pair_features(sentences[arrays["premise"][rows]], sentences[arrays["hypothesis"][rows]])
    return TaskPool.fixed(pairs, tasks, groups=groups)


SOURCE = Source(
    name="glue-scitail",
    title="GLUE-SciTail: entailment between sentences (MNLI, QNLI / SNLI, RTE / SciTail)",
    domain="text",
    licence="MNLI: OANC and others; QNLI, SNLI: CC BY-SA 4.0; RTE: research use; SciTail: Apache 2.0",
    splits="2 / 2 / 1 tasks of 2 classes",
    build=build,
    prepare=prepare,
    folder="glue_scitail",
    # What the addresses offer are zip files; `read_pairs` tells them from lines of JSON.
    files=tuple(
        RawFile(f"{task.lower()}.jsonl", ARCHIVES[task.lower()].url, ARCHIVES[task.lower()].known_hash)
        for task in NAMES
    ),
    variant=variant,
    needs="text-frozen",
)
