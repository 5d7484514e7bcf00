"""Readers of files that strangers may have made, fed with changed copies of good files.

A reader may return or refuse with a FewtaskError; anything else is a traceback that its user would see.
"""

from __future__ import annotations

import io
import json
import pickle
import random
import tarfile
import traceback
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fewtask.bounds import read_npz
from fewtask.datasets import audio, mini_imagenet_s, nci, rmnist, sentence_pairs, store
from fewtask.datasets.archives import unpack_archive
from fewtask.datasets.base import Prepared
from fewtask.datasets.fingerprints import read_molecules
from fewtask.datasets.pickled import read_pickle
from fewtask.datasets.tables import read_table
from fewtask.errors import FewtaskError
from fewtask.experiments.ledger import Ledger
from fewtask.pool import Dataset, Pools
from fewtask.presets import load_preset
from fewtask.run import execute, load_run
from fewtask.settings import RunSettings, update
from fewtask.tasks import TaskPool
from fewtask.training.history import read_history
from fewtask.training.loop import new_state

TOKENS = (
    b"null",
    b"-1",
    b"1e999",
    b'"x"',
    b"[]",
    b"{}",
    b"NaN",
    b"true",
    b"\x00",
    b"\xff\xff\xff\xff",
    b"999999999999",
)
OTHER = (None, -1, 0, 1e300, float("nan"), "x", "", [], {}, True, [[]], {"a": []}, 10**30, ["x"], "../x")
SETTINGS = update(
    RunSettings(method="protonet-st", dataset="toy"),
    {
        "episode": {"way": 2, "shot": 1, "query": 1, "batch": 1},
        "encoder": {"width": 4},
        "set_function": {"hidden": 4, "heads": 2},
        "train": {"steps": 2, "validation_episodes": 2, "log_every": 1},
        "evaluation": {"episodes": 2, "query": 1},
    },
)


@dataclass
class Target:
    """A reader, the name under which it expects its file, and a good file's content."""

    name: str
    file: str
    good: bytes
    read: Callable[[Path], Any]


@dataclass
class Outcome:
    tried: int = 0
    refused: int = 0
    tracebacks: dict[str, int] = field(default_factory=dict)

    @property
    def lost(self) -> int:
        return sum(self.tracebacks.values())


def changed(good: bytes, rng: random.Random) -> bytes:
    """A good file with one to four accidents."""
    content = bytearray(good)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(content) + 1)
        kind = rng.randrange(6)
        if kind == 0 and content:
            content[place % len(content)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del content[place:]
        elif kind == 2:
            content[place:place] = rng.choice(TOKENS)
        elif kind == 3:
            del content[place : place + rng.randint(1, 20)]
        elif kind == 4:
            part = content[place : place + rng.randint(1, 40)]
            content[place:place] = part
        else:
            token = rng.choice(TOKENS)
            content[place : place + len(token)] = token
    return bytes(content)


def otherwise(value: Any, rng: random.Random) -> Any:
    """JSON with one entry replaced by another kind of value, taken out or doubled, at any depth."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.15:
        return rng.choice(
            [None, -1, 0, 1e300, float("nan"), "x", "", [], {}, True, [[]], {"a": []}, 10**30, ["x"], "../x"]
        )
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = rng.choice(keys)
    copy = dict(value) if isinstance(value, dict) else list(value)
    if rng.random() < 0.2:
        del copy[key]
    else:
        copy[key] = otherwise(value[key], rng)
    return copy


def changed_json(good: bytes, rng: random.Random) -> bytes:
    """One line of JSON, or the whole file, with an entry changed."""
    lines = good.splitlines()
    try:
        return json.dumps(otherwise(json.loads(good), rng)).encode()
    except ValueError:
        place = rng.randrange(len(lines))
        lines[place] = json.dumps(otherwise(json.loads(lines[place]), rng)).encode()
        return b"\n".join(lines)


def fuzz(targets: list[Target], count: int, folder: Path, seed: int = 0) -> dict[str, Outcome]:
    """`count` inputs, shared out evenly; what a reader fails on is kept in the folder as lost-NAME."""
    outcomes = {target.name: Outcome() for target in targets}
    rng = random.Random(seed)
    for number in range(count):
        target = targets[number % len(targets)]
        outcome = outcomes[target.name]
        path = folder / target.name / target.file
        path.parent.mkdir(parents=True, exist_ok=True)
        is_json = path.suffix in (".json", ".jsonl")
        content = changed_json(target.good, rng) if is_json and rng.random() < 0.7 else changed(target.good, rng)
        path.write_bytes(content)
        outcome.tried += 1
        try:
            target.read(path)
        except FewtaskError:
            outcome.refused += 1
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{type(error).__name__} in {Path(frame.filename).name}:{frame.lineno}"
            outcome.tracebacks[where] = outcome.tracebacks.get(where, 0) + 1
            (folder / f"lost-{target.name}-{frame.lineno}").write_bytes(content)
    return outcomes


def toy_run(folder: Path) -> tuple[Path, Pools]:
    """A small finished run, a checkpoint of it, and its pools."""
    rows = torch.randn(24, 3, generator=torch.Generator().manual_seed(0))
    index = iter(np.arange(24).reshape(-1, 4))
    pools = [TaskPool.fixed(rows, {split: {c: next(index) for c in "ab"}}) for split in ("train", "validation", "test")]
    dataset = Dataset("toy", *pools)
    execute(SETTINGS, dataset, folder / "run", show_progress=False)
    return folder / "run", dataset.pools(SETTINGS.data)


def all_targets(folder: Path) -> list[Target]:
    run, pools = toy_run(folder)
    targets = [*data_targets(folder), *run_targets(run, pools, folder)]
    for target in targets:
        # A good file must be read, or changed ones prove nothing.
        path = folder / target.name / target.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(target.good)
        target.read(path)
    return targets


def data_targets(folder: Path) -> list[Target]:
    import soundfile
    from PIL import Image

    wav, flac, jpeg, npz = (folder / name for name in ("a.wav", "a.flac", "a.jpg", "a.npz"))
    for path in (wav, flac):
        soundfile.write(path, np.zeros(800), 16_000)
    Image.new("RGB", (16, 16)).save(jpeg)
    np.savez_compressed(npz, a=np.arange(5.0), b=np.array(["x"]))
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("a/b.txt", "text " * 20)
    with tarfile.open(fileobj=tarred, mode="w:gz") as out_tar:
        info = tarfile.TarInfo("a.txt")
        info.size = 5
        out_tar.addfile(info, io.BytesIO(b"hello"))
    import gzip

    idx = gzip.compress(b"\0\0\x08\x01" + (4).to_bytes(4, "big") + bytes(4))
    data = pickle.dumps({b"data": np.zeros((2, 6), np.uint8), b"fine_labels": [1, 2]}, protocol=4)
    atom = b"  1  0  0  0  0  0  0  0  0  0999 V2000\n    0.0    0.0    0.0 C   0  0\n"
    sdf = b"t\n\n\n" + atom + b"M  END\n> <value>\n1.0\n$$$$\n"
    pairs = b'{"premise": "a", "hypothesis": "b", "label": "entailment"}\n' * 3

    def molecules(path: Path) -> None:
        records = [nci.read_record(r, "x") for r in nci.split_records(path.read_bytes().decode("latin1"))]
        read_molecules([molecule for _, molecule, _ in records], "morgan", "mol")

    return [
        Target("pickle", "train", data, read_pickle),
        Target("npz", "a.npz", npz.read_bytes(), read_npz),
        Target("wav", "a.wav", wav.read_bytes(), audio.read_sound),
        Target("flac", "a.flac", flac.read_bytes(), audio.read_sound),
        Target("idx", "a.gz", idx, rmnist.read_idx),
        Target("jpeg", "a.jpg", jpeg.read_bytes(), mini_imagenet_s.read_image),
        Target("zip", "a.zip", zipped.getvalue(), lambda p: unpack_archive(p, "zip", folder / "unpacked")),
        Target("tar", "a.tar", tarred.getvalue(), lambda p: unpack_archive(p, "tar", folder / "unpacked")),
        Target("table", "a.csv", b"smiles,Y\nCCO,1\nC,0\n", lambda p: list(read_table(p, {"s": ("smiles",)}))),
        Target(
            "smiles", "a.txt", b"CC(=O)Oc1ccccc1", lambda p: read_molecules([p.read_bytes().decode("latin1")], "morgan")
        ),
        Target("sdf", "a.sdf", sdf, molecules),
        Target("sentence pairs", "rte.jsonl", pairs, lambda p: sentence_pairs.read_pairs(p, "rte")),
    ]


def run_targets(run: Path, pools: Pools, folder: Path) -> list[Target]:
    from fewtask.methods import make_method

    def beside(path: Path, *names: str) -> Path:
        for name in names:
            (path.parent / name).write_bytes((run / name).read_bytes())
        return path.parent

    state = new_state(make_method(SETTINGS, (3,)), pools.train, pools.outer)
    state.save(folder / "checkpoint.safetensors", [{"step": 1, "loss": 1.0}])
    cache = folder / "cache"
    store.write(cache, Prepared({"rows": np.zeros((2, 2))}, {"a": 1}), {})
    ledger = Ledger(folder / "ledger")
    ledger.write(json.loads((run / "result.json").read_text()))
    (record,) = (folder / "ledger").glob("*.json")

    def cached(path: Path) -> None:
        (path.parent / store.ARRAYS).write_bytes((cache / store.ARRAYS).read_bytes())
        if store.problem(path.parent) is None:
            store.read(path.parent)

    return [
        Target(
            "config",
            "config.json",
            (run / "config.json").read_bytes(),
            lambda p: load_run(beside(p, "model.safetensors")),
        ),
        Target(
            "model",
            "model.safetensors",
            (run / "model.safetensors").read_bytes(),
            lambda p: load_run(beside(p, "config.json")),
        ),
        Target("checkpoint", "checkpoint.safetensors", (folder / "checkpoint.safetensors").read_bytes(), state.load),
        Target("history", "history.jsonl", (run / "history.jsonl").read_bytes(), read_history),
        Target("ledger", record.name, record.read_bytes(), lambda p: Ledger(p.parent).all()),
        Target("cache", store.MANIFEST, (cache / store.MANIFEST).read_bytes(), cached),
        Target("preset", "own.toml", b'extends = "tox21"\n[train]\nsteps = 10\n', lambda p: load_preset(p, "protonet")),
    ]
