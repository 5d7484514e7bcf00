"""Sounds, named by their paths: statistics of their spectrum, or YAMNet's embedding where its weights are at hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fewtask.datasets.audio import FRAME, FRAME_HOP, YAMNET, import_soundfile, magnitudes, mel_matrix, read_sound
from fewtask.datasets.base import Progress, quiet
from fewtask.datasets.cache import data_folder
from fewtask.datasets.esc50 import YAMNET_WEIGHTS, clip_features
from fewtask.datasets.raw import RAW_VARIABLE
from fewtask.datasets.yamnet import YamNet
from fewtask.errors import DataError, unknown
from fewtask.features.base import Featuriser, Transformed
from fewtask.features.files import read_files
from fewtask.features.table import Table

FEATURES = ("mel", "yamnet")
ENDINGS = (".wav", ".flac", ".ogg", ".mp3", ".aif", ".aiff", ".au")
MOST_SECONDS = 30.0


class Sound(Featuriser):
    """A column of paths to sound files of any rate; their first half minute counts.

    features: `mel` [R, 256], or `yamnet` [R, 1024]. Unset: `yamnet` where its weights are found.
    weights:  YAMNet's file; unset: esc50/yamnet/ in the folder of publishers' files.
    """

    kind = "sound"
    extra = "sound"

    def __init__(self, column: str, features: str | None = None, weights: Path | None = None) -> None:
        if features is not None and features not in FEATURES:
            raise unknown("feature of sounds", features, FEATURES)
        self.columns = (column,)
        self.weights = weights or _weights_here()
        self.features = features or ("mel" if self.weights is None else "yamnet")

    def transform(self, table: Table, progress: Progress = quiet) -> Transformed:
        # Here, because a missing library or model is no fault of any row.
        import_soundfile()
        make = self._maker()

        def read(path: Path) -> np.ndarray:
            return make(read_sound(path, MOST_SECONDS))

        rows, good, bad = read_files(table, self.columns[0], read, progress, "reading sounds")
        return np.stack(rows) if rows else np.zeros((0, 0), np.float32), good, bad

    def _maker(self) -> Callable[[np.ndarray], np.ndarray]:
        if self.features == "mel":
            return mel_statistics
        if self.weights is None:
            raise DataError(
                f"this model hears with YAMNet, whose weights are not here: put them in esc50/{YAMNET_WEIGHTS} in "
                f"the folder that {RAW_VARIABLE} names"
            )
        network = YamNet.load(self.weights)
        return lambda sound: clip_features(network.embed(sound)[None], "yamnet-mean")[0]

    def settings(self) -> dict[str, Any]:
        return {"kind": self.kind, "column": self.columns[0], "features": self.features}

    @classmethod
    def from_settings(cls, values: Mapping[str, Any]) -> Sound:
        return cls(values["column"], values["features"])

    def describe(self) -> str:
        what = "embeddings of YAMNet" if self.features == "yamnet" else "statistics of their spectrum"
        return f"sounds named in column '{self.columns[0]}' as {what}"


def mel_statistics(sound: np.ndarray) -> np.ndarray:
    """Sound [samples] at 16 kHz to [256]: of each of 64 bands, in time, mean, deviation, maximum and mean change."""
    shortest = FRAME + FRAME_HOP
    if len(sound) < shortest:
        sound = np.pad(sound, (0, shortest - len(sound)))
    bands = np.log(magnitudes(sound) @ mel_matrix() + YAMNET.log_offset)
    change = np.abs(np.diff(bands, axis=0)).mean(axis=0)
    parts = [bands.mean(axis=0), bands.std(axis=0), bands.max(axis=0), change]
    return np.concatenate(parts).astype(np.float32)


def _weights_here() -> Path | None:
    """YAMNet's file in the folder of publishers' files, named or downloaded."""
    named = os.environ.get(RAW_VARIABLE)
    folders = [Path(named).expanduser()] if named else []
    for folder in (*folders, data_folder() / "raw"):
        path = folder / "esc50" / YAMNET_WEIGHTS
        if path.is_file():
            return path
    return None
