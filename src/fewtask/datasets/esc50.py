"""ESC-50: 2,000 clips of environmental sound of 5 s each, 40 of each of 50 classes, as features of a frozen network.

Features: `yamnet-mean` (the mean over a clip's frames of log(1 + embedding)), `yamnet-frames` (the frames beside
each other) or `vggish` (the paper's; 5 frames of 128 numbers). 788 clips share a source recording with another
clip of their class; `strict` draws support and query from different recordings.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from fewtask.bounds import read_npz
from fewtask.datasets.audio import RATE, read_sound
from fewtask.datasets.base import Prepared, Progress, RawFile, Source
from fewtask.datasets.class_pools import class_pools
from fewtask.datasets.tables import read_table
from fewtask.errors import DataError, unknown
from fewtask.pool import SPLITS, Dataset
from fewtask.settings import DataSettings
from fewtask.threads import usable_cores

CLASSES: dict[str, tuple[str, ...]] = {
    "train": (
        "dog", "rooster", "pig", "cow", "frog", "cat", "hen", "insects", "sheep", "crow",
        "rain", "sea_waves", "crackling_fire", "crickets", "chirping_birds",
        "water_drops", "wind", "pouring_water", "toilet_flush", "thunderstorm",
    ),
    "validation": (
        "crying_baby", "sneezing", "clapping", "breathing", "coughing", "footsteps",
        "laughing", "brushing_teeth", "snoring", "drinking_sipping", "door_wood_knock",
        "mouse_click", "keyboard_typing", "door_wood_creaks", "can_opening",
    ),
    "test": (
        "washing_machine", "vacuum_cleaner", "clock_alarm", "clock_tick", "glass_breaking", "helicopter",
        "chainsaw", "siren", "car_horn", "engine", "train", "church_bells", "airplane", "fireworks", "hand_saw",
    ),
}  # fmt: skip
FEATURES = ("yamnet-mean", "yamnet-frames", "vggish")
SECONDS = 5
ARCHIVE = "https://github.com/karolpiczak/ESC-50/archive/33c8ce9eb2cf0b1c2f8bcf322eb349b6be34dbb6.zip"
TREES = {"meta": "ba0d22a19800b912c3fd90afa588feae8a4adaea", "audio": "32c077ac1bb99412a1c03394ab086a370b4cbc17"}
"""Git's hashes of two folders of that commit."""
INDEX = "meta/esc50.csv"
EMBEDDINGS = "yamnet/esc50_yamnet_embeddings.npz"
YAMNET_WEIGHTS = "yamnet/yamnet_dequantised_f32.npz"


def kind_of(settings: DataSettings) -> str:
    kind = settings.features or FEATURES[0]
    if kind not in FEATURES:
        raise unknown("features of 'esc50'", kind, FEATURES)
    return kind


def network_of(settings: DataSettings) -> str:
    """Both kinds of YAMNet features come from the same cached embeddings."""
    return kind_of(settings).split("-")[0]


def read_index(path: Path) -> dict[str, tuple[str, str]]:
    """{file name: (class, source recording)} of every clip."""
    needed = {column: (column,) for column in ("filename", "category", "src_file")}
    rows = read_table(path, needed, "'esc50' needs the publisher's folders meta and audio")
    return {line["filename"]: (line["category"], line["src_file"]) for _, line in rows}


def prepare(raw: Path, settings: DataSettings, progress: Progress) -> Prepared:
    index = read_index(raw / INDEX)
    names = list(index)
    network = network_of(settings)
    if network == "yamnet" and (raw / EMBEDDINGS).is_file():
        frames, origin = _stored_embeddings(raw / EMBEDDINGS, names), EMBEDDINGS
    else:
        frames, origin = _computed_embeddings(raw, names, network, progress), "audio"
    categories = np.array([index[name][0] for name in names])
    # Numbers for the source recordings, in the order of their names.
    recordings = np.unique([index[name][1] for name in names], return_inverse=True)[1].reshape(-1)
    arrays: dict[str, np.ndarray] = {}
    for split in SPLITS:
        kept = np.flatnonzero(np.isin(categories, CLASSES[split]))
        arrays[split] = frames[kept]
        labels = [CLASSES[split].index(category) for category in categories[kept]]
        arrays[f"{split}_labels"] = np.array(labels, dtype=np.int16)
        arrays[f"{split}_recordings"] = recordings[kept].astype(np.int32)
    return Prepared(arrays, {"network": network, "origin": origin, "clips": len(names)})


def _stored_embeddings(path: Path, names: list[str]) -> np.ndarray:
    """[R, 9, 1024] float16 embeddings of the named clips."""
    stored = read_npz(path, ("emb", "filename"))
    embeddings, filenames = stored["emb"], stored["filename"]
    if embeddings.ndim != 3 or filenames.shape != embeddings.shape[:1]:
        raise DataError(f"{path} does not hold frames of embeddings of each file: replace it")
    position = {str(name): number for number, name in enumerate(filenames)}
    missing = [name for name in names if name not in position]
    if missing:
        raise DataError(f"{path} lacks {len(missing)} of {len(names)} clips, the first being {missing[0]}: replace it")
    chosen: np.ndarray = embeddings[[position[name] for name in names]]
    return chosen


def _computed_embeddings(raw: Path, names: list[str], network: str, progress: Progress) -> np.ndarray:
    """[R, frames, width] embeddings of the clips in `audio`, float16 as the stored ones are."""
    paths = [raw / "audio" / name for name in names]
    missing = sum(not path.is_file() for path in paths)
    if missing:
        stored = f", and {EMBEDDINGS} is not there either" if network == "yamnet" else ""
        raise DataError(f"{raw / 'audio'} lacks {missing:,} of {len(names):,} clips{stored}: get them from {ARCHIVE}")
    embed = _network(raw, network)

    def embed_clip(path: Path) -> np.ndarray:
        return embed(five_seconds(read_sound(path))).astype(np.float16)

    with ThreadPoolExecutor(usable_cores()) as threads:
        try:
            clips = progress(threads.map(embed_clip, paths), f"embedding sounds with {network}", len(paths))
            return np.stack(list(clips))
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise


def _network(raw: Path, network: str) -> Callable[[np.ndarray], np.ndarray]:
    if network == "yamnet":
        from fewtask.datasets.yamnet import YamNet

        return YamNet.load(raw / YAMNET_WEIGHTS).embed
    from fewtask.datasets.vggish import WEIGHTS, VggIsh

    return VggIsh.load(raw / "vggish" / WEIGHTS).embed


def five_seconds(sound: np.ndarray) -> np.ndarray:
    """A clip of exactly 5 s, so that every clip has as many frames: cut, or padded with silence."""
    length = SECONDS * RATE
    return np.pad(sound[:length], (0, max(0, length - len(sound))))


def clip_features(frames: np.ndarray, kind: str) -> np.ndarray:
    """Embeddings [R, frames, width] to the encoder's rows, float32."""
    frames = frames.astype(np.float32)
    if kind == "yamnet-mean":
        return np.log1p(frames).mean(axis=1)
    return frames.reshape(len(frames), -1)


def build(prepared: Prepared, settings: DataSettings) -> Dataset:
    kind = kind_of(settings)
    arrays = dict(prepared.arrays)
    for split in SPLITS:
        arrays[split] = clip_features(arrays[split], kind)
    groups = {split: arrays[f"{split}_recordings"] for split in SPLITS} if settings.strict else None
    pools = class_pools("esc50", Prepared(arrays, prepared.info), CLASSES, settings, groups=groups)
    features = {"kind": "sound", "features": kind, "rate": RATE, "seconds": SECONDS}
    return Dataset("esc50", pools["train"], pools["validation"], pools["test"], features)


SOURCE = Source(
    name="esc50",
    title="ESC-50: environmental sounds as features of a frozen audio network",
    domain="sound",
    licence="CC BY-NC 3.0",
    splits="20 / 15 / 15 classes of 40 clips",
    build=build,
    prepare=prepare,
    folder="esc50",
    # The archive brings the folder `audio` as well; whoever has stored embeddings needs the index alone.
    files=(RawFile(INDEX, ARCHIVE, unpack="zip", git_trees=TREES),),
    also_read=(EMBEDDINGS, YAMNET_WEIGHTS, "audio"),
    variant=network_of,
    needs="sound",
)
