"""Sound files to log-mel patches: the front end that YAMNet and VGGish share.

Both take 16 kHz mono sound, frames of 25 ms every 10 ms and 64 mel bands between 125 and 7,500 Hz; they differ in
the number that is added before the logarithm and in how far the patches of 0.96 s are apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np

from fewtask.bounds import check_sound
from fewtask.errors import DataError

RATE = 16_000
FRAME = 400
FRAME_HOP = 160
FFT = 512
MEL_BANDS = 64
LOWEST_HZ = 125.0
HIGHEST_HZ = 7_500.0
PATCH = 96


@dataclass(frozen=True)
class FrontEnd:
    """log_offset is added to the mel magnitudes; a patch of 96 frames starts every `patch_hop` frames."""

    log_offset: float
    patch_hop: int

    def patches(self, sound: np.ndarray) -> np.ndarray:
        """Sound [samples] at 16 kHz to log-mel patches [P, 96, 64]; a short sound is padded with silence."""
        shortest = FRAME + (PATCH - 1) * FRAME_HOP
        if len(sound) < shortest:
            sound = np.pad(sound, (0, shortest - len(sound)))
        mel = np.log(magnitudes(sound) @ mel_matrix() + self.log_offset).astype(np.float32)
        starts = range(0, len(mel) - PATCH + 1, self.patch_hop)
        return np.stack([mel[start : start + PATCH] for start in starts])


YAMNET = FrontEnd(log_offset=0.001, patch_hop=48)
VGGISH = FrontEnd(log_offset=0.01, patch_hop=96)


def import_soundfile() -> Any:
    try:
        import soundfile
    except (ImportError, OSError) as error:
        raise DataError('reading sound files needs soundfile: pip install "fewtask[sound]"') from error
    return soundfile


def read_sound(path: Path, most_seconds: float | None = None) -> np.ndarray:
    """A sound file, or its first seconds, as mono [samples] at 16 kHz, clipped to [-1, 1]."""
    soundfile = import_soundfile()
    if not path.is_file():
        raise DataError(f"{path} is missing: complete the folder of sound files")
    try:
        claimed = soundfile.info(path)
        check_sound(path, claimed.frames, claimed.channels, claimed.samplerate)
        most = -1 if most_seconds is None else int(most_seconds * claimed.samplerate)
        samples, rate = soundfile.read(path, most, dtype="float64", always_2d=True)
    except (soundfile.SoundFileError, RuntimeError, TypeError) as error:
        raise DataError(f"{path} is not a readable sound file ({error}): replace the file") from error
    if not len(samples):
        raise DataError(f"{path} holds no sound: replace the file")
    if not np.isfinite(samples).all():
        raise DataError(f"{path} holds samples that are no finite numbers: replace the file")
    return resample(samples.mean(axis=1), rate)


def resample(sound: np.ndarray, rate: int) -> np.ndarray:
    """Sound [samples] of any rate to 16 kHz by a polyphase filter, clipped to [-1, 1]."""
    if rate != RATE:
        from scipy.signal import resample_poly

        shared = gcd(rate, RATE)
        sound = resample_poly(sound, RATE // shared, rate // shared)
    return np.clip(sound, -1.0, 1.0)


def magnitudes(sound: np.ndarray) -> np.ndarray:
    """Magnitude spectrum [frames, 257] of overlapping frames under a periodic Hann window."""
    frames = np.lib.stride_tricks.sliding_window_view(sound, FRAME)[::FRAME_HOP]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FRAME) / FRAME)
    return np.abs(np.fft.rfft(frames * window, FFT))


def hertz_to_mel(hertz: np.ndarray | float) -> np.ndarray:
    """The HTK mel scale."""
    return 1127.0 * np.log(1.0 + np.asarray(hertz) / 700.0)


@cache
def mel_matrix() -> np.ndarray:
    """[257, 64] triangles that are straight on the mel scale; the constant part of the sound has no weight."""
    bins = hertz_to_mel(np.linspace(0.0, RATE / 2, FFT // 2 + 1))[:, None]
    edges = np.linspace(hertz_to_mel(LOWEST_HZ), hertz_to_mel(HIGHEST_HZ), MEL_BANDS + 2)
    lower, centre, upper = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (bins - lower) / (centre - lower), (upper - bins) / (upper - centre)
    matrix = np.maximum(0.0, np.minimum(rising, falling))
    matrix[0] = 0.0
    return matrix
