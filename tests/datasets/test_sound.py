"""ESC-50: the networks behind its features, and the paper's classes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from fewtask.datasets import audio, esc50
from fewtask.datasets.base import quiet
from fewtask.datasets.cache import load_dataset
from fewtask.datasets.vggish import VggIsh
from fewtask.datasets.yamnet import YamNet
from fewtask.errors import DataError, SettingsError
from fewtask.pool import SPLITS
from fewtask.sampler import EpisodeSampler
from fewtask.settings import DataSettings

soundfile = pytest.importorskip("soundfile")


@pytest.fixture(scope="module")
def raw(raw_dir: Path) -> Path:
    return raw_dir / "esc50"


@pytest.fixture(scope="module")
def yamnet(raw: Path) -> YamNet:
    return YamNet.load(raw / esc50.YAMNET_WEIGHTS)


def cosine(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    first, second = first.astype(np.float64), second.astype(np.float64)
    lengths = np.linalg.norm(first, axis=-1) * np.linalg.norm(second, axis=-1)
    return (first * second).sum(axis=-1) / lengths


def chirp(rate: int, seconds: float = 5.0) -> np.ndarray:
    """A tone that rises from 200 to 3,000 Hz: well below half of any rate that is used here."""
    time = np.arange(int(rate * seconds)) / rate
    return 0.5 * np.sin(2 * np.pi * (200 * time + 280 * time**2))


# Wav files of other forms


def hum(rate: int) -> np.ndarray:
    """5 s of many tones up to 7 kHz: the same sound at whatever rate it is sampled."""
    rng = np.random.default_rng(0)
    time = np.arange(5 * rate) / rate
    tones = zip(rng.uniform(50, 7_000, size=80), rng.uniform(0, 2 * np.pi, size=80))
    return sum(0.015 * np.sin(2 * np.pi * hertz * time + phase) for hertz, phase in tones)


@pytest.mark.parametrize("rate", [22_050, 44_100, 48_000])
@pytest.mark.parametrize("channels", [1, 2])
def test_a_wav_of_another_rate_or_two_channels_gives_the_same_features(
    rate: int, channels: int, tmp_path: Path, yamnet: YamNet
) -> None:
    sound = hum(rate)
    # Two channels whose mean is the sound.
    stereo = np.stack([1.4 * sound, 0.6 * sound], axis=1)
    soundfile.write(tmp_path / "clip.wav", stereo if channels == 2 else sound, rate, subtype="PCM_16")
    read = audio.read_sound(tmp_path / "clip.wav")
    assert len(read) == 5 * 16_000
    expected = esc50.clip_features(yamnet.embed(hum(16_000))[None], "yamnet-mean")
    found = esc50.clip_features(yamnet.embed(read)[None], "yamnet-mean")
    assert cosine(found, expected)[0] > 0.999


# Networks


def test_yamnet_reproduces_the_stored_embeddings_of_the_ten_clips(publishers_dir: Path, yamnet: YamNet) -> None:
    raw = publishers_dir / "esc50"
    clips = sorted((raw / "audio").glob("*.wav"))
    assert len(clips) == 10
    with np.load(raw / esc50.EMBEDDINGS, allow_pickle=False) as stored:
        names, embeddings = stored["filename"].tolist(), stored["emb"]
    for clip in clips:
        found = yamnet.embed(audio.read_sound(clip))
        expected = embeddings[names.index(clip.name)]
        assert found.shape == (9, 1024)
        assert cosine(found, expected).min() > 0.999
        assert np.allclose(found, expected, atol=5e-3, rtol=5e-3)


def test_weights_that_are_not_yamnets_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", weight=np.zeros(3))
    with pytest.raises(DataError, match="not YAMNet's weights"):
        YamNet.load(tmp_path / "other.npz")
    np.savez(tmp_path / "objects.npz", weight=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match=r"not an \.npz file of plain arrays"):
        YamNet.load(tmp_path / "objects.npz")


RELEASED_SHAPES = {
    "features.0": (64, 1, 3, 3), "features.3": (128, 64, 3, 3), "features.6": (256, 128, 3, 3),
    "features.8": (256, 256, 3, 3), "features.11": (512, 256, 3, 3), "features.13": (512, 512, 3, 3),
    "embeddings.0": (4096, 12288), "embeddings.2": (4096, 4096), "embeddings.4": (128, 4096),
}  # fmt: skip


def test_vggish_has_the_layout_of_the_released_state_dict_and_128_numbers_a_patch(tmp_path: Path) -> None:
    torch.manual_seed(0)
    state = {}
    for name, shape in RELEASED_SHAPES.items():
        state[f"{name}.weight"] = torch.randn(shape) * (2 / np.prod(shape[1:])) ** 0.5
        state[f"{name}.bias"] = torch.zeros(shape[0])
    torch.save(state, tmp_path / "vggish-10086976.pth")
    model = VggIsh.load(tmp_path / "vggish-10086976.pth")
    embedded = model.embed(chirp(16_000))
    assert embedded.shape == (5, 128)
    assert esc50.clip_features(embedded[None], "vggish").shape == (1, 640)
    assert (embedded >= 0).all()
    assert (embedded > 0).any()


def test_vggish_flattens_with_channels_last() -> None:
    model = VggIsh().eval()
    patches = torch.randn(2, 96, 64)
    hidden = model.features(patches[:, None])
    flat = torch.stack([hidden[:, :, row, column] for row in range(6) for column in range(4)], dim=1).flatten(1)
    assert torch.allclose(model(patches), model.embeddings(flat))


def test_vggish_weights_that_could_run_code_are_refused(tmp_path: Path) -> None:
    class Foreign:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return print, ("a pickle must not run this",)

    torch.save({"features.0.weight": Foreign()}, tmp_path / "vggish.pth")
    with pytest.raises(DataError, match="does not hold VGGish's weights"):
        VggIsh.load(tmp_path / "vggish.pth")


# Data set


def test_esc50_has_the_papers_20_15_15_classes_of_40_clips(raw_dir: Path, prepared_dir: Path) -> None:
    dataset = load_dataset("esc50", DataSettings(), data_dir=prepared_dir, raw_dir=raw_dir)
    assert [len(dataset.split(split).class_names) for split in SPLITS] == [20, 15, 15]
    for split in SPLITS:
        pool = dataset.split(split)
        assert pool.class_names == esc50.CLASSES[split]
        assert (pool.sizes == 40).all()
    assert len({name for names in esc50.CLASSES.values() for name in names}) == 50
    assert dataset.input_shape == (1024,)


def test_esc50_rows_are_the_mean_of_the_log_or_the_frames_beside_each_other(raw_dir: Path, prepared_dir: Path) -> None:
    with np.load(raw_dir / "esc50" / esc50.EMBEDDINGS, allow_pickle=False) as stored:
        frames = stored["emb"][stored["category"] == "siren"].astype(np.float64)
    expected = {"yamnet-mean": np.log(1 + frames).mean(axis=1), "yamnet-frames": frames.reshape(40, 9 * 1024)}
    for kind, rows in expected.items():
        settings = DataSettings(features=kind)
        pool = load_dataset("esc50", settings, data_dir=prepared_dir, raw_dir=raw_dir).test
        found = pool.rows[pool.class_rows[pool.class_names.index("siren")]].numpy()
        assert np.allclose(np.sort(found, axis=0), np.sort(rows, axis=0), atol=1e-4)


def test_strict_esc50_draws_support_and_query_from_different_recordings(raw_dir: Path, prepared_dir: Path) -> None:
    pool = load_dataset("esc50", DataSettings(strict=True), data_dir=prepared_dir, raw_dir=raw_dir).test
    index = esc50.read_index(raw_dir / "esc50" / esc50.INDEX)
    in_test = [(category, source) for category, source in index.values() if category in esc50.CLASSES["test"]]
    assert pool.groups is not None
    sources = np.array([source for _, source in in_test])
    assert all(len(set(sources[pool.groups == group])) == 1 for group in np.unique(pool.groups))
    _, _, rows = EpisodeSampler(pool, seed=0).sample_index(batch=40, way=5, shot=5, query=15)
    for line in rows.reshape(-1, 20):
        assert not set(sources[line[:5]]) & set(sources[line[5:]])


def partial_copy(raw: Path, target: Path) -> Path:
    (target / "meta").mkdir(parents=True)
    shutil.copy(raw / esc50.INDEX, target / esc50.INDEX)
    shutil.copytree(raw / "audio", target / "audio")
    return target


def test_a_folder_with_some_of_the_clips_says_how_many_are_missing(raw: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"lacks 1,990 of 2,000 clips"):
        esc50.prepare(partial_copy(raw, tmp_path), DataSettings(), quiet)


def test_features_computed_from_the_clips_are_those_that_are_stored(publishers_dir: Path, tmp_path: Path) -> None:
    raw = publishers_dir / "esc50"
    folder = partial_copy(raw, tmp_path)
    lines = (folder / esc50.INDEX).read_text().splitlines()
    kept = [lines[0]] + [line for line in lines if (folder / "audio" / line.split(",")[0]).is_file()]
    (folder / esc50.INDEX).chmod(0o644)
    (folder / esc50.INDEX).write_text("\n".join(kept) + "\n")
    (folder / "yamnet").mkdir()
    shutil.copy(raw / esc50.YAMNET_WEIGHTS, folder / esc50.YAMNET_WEIGHTS)
    computed = esc50.prepare(folder, DataSettings(), quiet)
    shutil.copy(raw / esc50.EMBEDDINGS, folder / esc50.EMBEDDINGS)
    stored = esc50.prepare(folder, DataSettings(), quiet)
    assert computed.info["origin"] == "audio"
    assert sum(len(computed.arrays[split]) for split in SPLITS) == 10
    for split in SPLITS:
        assert (computed.arrays[f"{split}_labels"] == stored.arrays[f"{split}_labels"]).all()
        assert cosine(computed.arrays[split], stored.arrays[split]).min(initial=1.0) > 0.999


def test_an_unknown_kind_of_sound_features_names_the_known_ones() -> None:
    with pytest.raises(SettingsError, match="did you mean 'vggish'"):
        esc50.kind_of(DataSettings(features="vgish"))


def test_both_kinds_of_yamnet_features_share_a_cache() -> None:
    assert esc50.SOURCE.variant(DataSettings()) == esc50.SOURCE.variant(DataSettings(features="yamnet-frames"))
    assert esc50.SOURCE.variant(DataSettings(features="vggish")) != esc50.SOURCE.variant(DataSettings())
