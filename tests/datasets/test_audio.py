"""Reading sound files, and the log-mel front end of YAMNet and VGGish."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fewtask.datasets import audio
from fewtask.errors import DataError

pytest.importorskip("soundfile")


def chirp(rate: int, seconds: float = 5.0) -> np.ndarray:
    """A tone that rises from 200 to 3,000 Hz: well below half of any rate that is used here."""
    time = np.arange(int(rate * seconds)) / rate
    return 0.5 * np.sin(2 * np.pi * (200 * time + 280 * time**2))


def test_mel_bands_are_triangles_between_125_and_7500_hertz() -> None:
    matrix = audio.mel_matrix()
    hertz = np.linspace(0, 8_000, 257)
    assert matrix.shape == (257, 64)
    assert (matrix[(hertz <= 125) | (hertz >= 7_500)] == 0).all()
    assert (matrix >= 0).all()
    assert (matrix <= 1).all()
    # Between the first and the last centre the two triangles over a frequency sum to one.
    edges = 700 * (np.exp(np.linspace(*(1127 * np.log(1 + np.array([125, 7_500]) / 700)), 66) / 1127) - 1)
    inside = (hertz > edges[1]) & (hertz < edges[-2])
    assert np.allclose(matrix[inside].sum(axis=1), 1)


def test_the_spectrum_is_that_of_a_plain_fourier_sum() -> None:
    sound = np.random.default_rng(0).normal(size=1_000)
    found = audio.magnitudes(sound)
    assert found.shape == (1 + (1_000 - 400) // 160, 257)
    samples = np.arange(400)
    windowed = sound[320:720] * np.sin(np.pi * samples / 400) ** 2
    for k in (0, 13, 200, 256):
        assert found[2, k] == pytest.approx(abs((windowed * np.exp(-2j * np.pi * k * samples / 512)).sum()))


def test_five_seconds_give_nine_yamnet_and_five_vggish_patches() -> None:
    sound = chirp(16_000)
    yamnet, vggish = audio.YAMNET.patches(sound), audio.VGGISH.patches(sound)
    assert yamnet.shape == (9, 96, 64)
    assert vggish.shape == (5, 96, 64)
    # The patches of both start at every 96th frame; they differ by what is added before the logarithm.
    assert np.allclose(np.exp(yamnet[::2].astype(float)) - 0.001, np.exp(vggish.astype(float)) - 0.01, atol=1e-4)


def test_silence_is_the_logarithm_of_the_offset() -> None:
    assert np.allclose(audio.VGGISH.patches(np.zeros(16_000)), np.log(0.01))


def test_a_sound_shorter_than_a_patch_is_padded_to_one() -> None:
    assert audio.YAMNET.patches(chirp(16_000, 0.3)).shape == (1, 96, 64)


def test_loud_samples_are_clipped_after_resampling() -> None:
    square = np.sign(chirp(44_100))
    resampled = audio.resample(square, 44_100)
    assert np.abs(resampled).max() == 1.0


@pytest.mark.parametrize("content", [b"", b"RIFF....WAVE", b"<html>not found</html>"])
def test_a_file_that_is_no_sound_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "clip.wav").write_bytes(content)
    with pytest.raises(DataError, match=r"clip\.wav is not a readable sound file"):
        audio.read_sound(tmp_path / "clip.wav")
