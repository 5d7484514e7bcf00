"""Every reader of the package, each with a small good file to begin with."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import torch
from fuzz import Target
from own_targets import own_targets

from fewtask.bounds import read_npz
from fewtask.datasets import audio, mini_imagenet_s, nci, rmnist, sentence_pairs, store
from fewtask.datasets.archives import unpack_archive
from fewtask.datasets.base import Prepared
from fewtask.datasets.fingerprints import read_molecules
from fewtask.datasets.pickled import read_pickle
from fewtask.datasets.tables import read_table
from fewtask.experiments.ledger import Ledger
from fewtask.methods import make_method
from fewtask.pool import Dataset, Pools
from fewtask.presets import load_preset
from fewtask.run import execute, load_run
from fewtask.settings import RunSettings, update
from fewtask.tasks import TaskPool
from fewtask.training.history import read_history
from fewtask.training.loop import new_state

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
    targets = [*data_targets(folder), *run_targets(run, pools, folder), *own_targets(folder)]
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
