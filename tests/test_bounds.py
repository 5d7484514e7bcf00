"""A small file that asks for much is refused in one sentence, before memory, disk or time are spent on it."""

from __future__ import annotations

import gzip
import io
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest

from fewtask import bounds
from fewtask.datasets import audio, mini_imagenet_s, rmnist, tox21
from fewtask.datasets.archives import open_zip, read_member, unpack_archive
from fewtask.datasets.base import quiet
from fewtask.datasets.fingerprints import read_molecules
from fewtask.datasets.raw import locate
from fewtask.datasets.sentence_pairs import read_pairs
from fewtask.errors import DataError
from fewtask.settings import DataSettings

ZEROS = bytes(1 << 20)


def refused(match: str) -> pytest.RaisesExc[DataError]:
    """Refused in a sentence, which is short whatever the file holds."""
    return pytest.raises(DataError, match=match, check=lambda error: len(str(error)) < 1_000)


def sound_file(path: Path, kind: str) -> bytearray:
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(path, np.zeros(1_000), 16_000, format=kind)
    return bytearray(path.read_bytes())


@pytest.mark.parametrize("rate", [2**31 - 1, 400_000, 10])
def test_a_wav_file_of_an_absurd_rate(tmp_path: Path, rate: int) -> None:
    path = tmp_path / "clip.wav"
    content = sound_file(path, "WAV")
    content[24:28] = struct.pack("<I", rate)
    path.write_bytes(content)
    with refused(r"clip\.wav claims .* samples a second"):
        audio.read_sound(path)


def test_a_flac_header_that_claims_more_samples_than_fit_into_memory(tmp_path: Path) -> None:
    path = tmp_path / "clip.flac"
    content = sound_file(path, "FLAC")
    # "fLaC", the block's header, 13 bytes to the 36 bits of the number of samples.
    content[21] |= 0x0F
    content[22:26] = b"\xff\xff\xff\xff"
    path.write_bytes(content)
    with refused(r"clip\.flac claims 68,719,476,735 samples"):
        audio.read_sound(path)


def test_a_sound_of_no_numbers(tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(tmp_path / "clip.wav", np.array([0.0, np.nan]), 16_000, subtype="FLOAT")
    with refused("no finite numbers"):
        audio.read_sound(tmp_path / "clip.wav")


def bomb(megabytes: int) -> bytes:
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", compresslevel=9) as out:
        for _ in range(megabytes):
            out.write(ZEROS)
    return stream.getvalue()


def test_a_gzip_file_that_unpacks_to_a_thousand_times_its_size(tmp_path: Path) -> None:
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(bomb(70))
    with refused("unpacks to more than 67 MB"):
        rmnist.read_idx(path)


def write_zip(path: Path, name: str, megabytes: int) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out, out.open(name, "w") as stream:
        for _ in range(megabytes):
            stream.write(ZEROS)
    return path


def test_a_zip_file_that_would_fill_the_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    archive = write_zip(tmp_path / "a.zip", "x", 70)
    with refused("unpacks to more than"):
        unpack_archive(archive, "zip", tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())
    with open_zip(archive) as opened, refused("unpacks to more than"):
        read_member(opened, "x")


def test_a_zip_file_of_sentence_pairs_that_would_fill_the_memory(tmp_path: Path) -> None:
    with refused("unpacks to more than"):
        read_pairs(write_zip(tmp_path / "rte.jsonl", "RTE/train.tsv", 70), "rte")


def test_an_archive_of_too_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MEMBERS", 3)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as out:
        for number in range(4):
            out.writestr(str(number), b"")
    with refused("more than 3 files"):
        unpack_archive(tmp_path / "a.zip", "zip", tmp_path / "out")


def test_an_honest_file_may_be_large_and_a_small_one_may_be_well_packed(tmp_path: Path) -> None:
    path = tmp_path / "zeros.gz"
    path.write_bytes(bomb(60))
    assert len(bounds.gunzip(path)) == 60 << 20


def test_a_jpeg_whose_header_claims_169_megapixels(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    path = tmp_path / "n1.jpg"
    image.new("L", (16, 16)).save(path)
    content = path.read_bytes()
    start = content.index(b"\xff\xc0")
    path.write_bytes(content[: start + 5] + struct.pack(">HH", 13_000, 13_000) + content[start + 9 :])
    with refused(r"n1\.jpg has 13,000 x 13,000 pixels"):
        mini_imagenet_s.read_image(path)


def test_molecules_of_too_many_characters_or_atoms_fail_like_others_that_cannot_be_read() -> None:
    pytest.importorskip("rdkit")
    texts = ["C" * 120_000, "C" * 4_001, "C" * 20, "CCO"]
    assert read_molecules(texts, "morgan").index.tolist() == [-1, -1, 1, 0]


def write_tox21(path: Path, header: str, line: str = "") -> Path:
    path.write_text(f"{header}\n{line}\n")
    return path.parent


def test_a_table_of_a_million_columns(tmp_path: Path) -> None:
    folder = write_tox21(tmp_path / "tox21.csv", ",".join(f"column{n}" for n in range(1_000_000)))
    with refused("1,000,000 columns, and at most 100,000"):
        tox21.prepare(folder, DataSettings(), quiet)


def test_the_message_about_a_missing_column_stays_a_sentence(tmp_path: Path) -> None:
    folder = write_tox21(tmp_path / "tox21.csv", ",".join(f"c{n}" + "x" * 500 for n in range(5_000)))
    with refused("has no column 'smiles' .* and 4,992 more"):
        tox21.prepare(folder, DataSettings(), quiet)


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "LINE_CHARACTERS", 1_000)
    folder = write_tox21(tmp_path / "tox21.csv", "x" * 1_001)
    with refused("more than 1,000 characters"):
        tox21.prepare(folder, DataSettings(), quiet)


def test_a_pipe_or_a_device_is_no_raw_file(tmp_path: Path) -> None:
    # Opening either would never end.
    os.mkfifo(tmp_path / "tox21.csv")
    with refused("is a pipe and no file"):
        tox21.prepare(tmp_path, DataSettings(), quiet)
    with refused("is a pipe or a device"):
        locate(tox21.SOURCE, tmp_path)
    (tmp_path / "zero").symlink_to("/dev/zero")
    with refused("is a device and no file"):
        bounds.read_bytes(tmp_path / "zero")
    with refused("is a folder and no file"):
        bounds.read_bytes(tmp_path)


def test_a_file_beyond_the_limit(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(2_000))
    with refused("has 2 kB, and at most 1 kB"):
        bounds.read_bytes(tmp_path / "a", most=1_000)


def write_npz(path: Path, header: bytes, content: bytes = b"") -> Path:
    padded = header + b" " * (63 - (len(header) + 10) % 64) + b"\n"
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("emb.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(padded)) + padded + content)
    return path


def test_npz_arrays_come_out_as_numpy_wrote_them(tmp_path: Path) -> None:
    arrays = {
        "a": np.arange(6, dtype=np.float16).reshape(2, 3),
        "f": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "names": np.array(["x.wav", "yy.wav"]),
        "scalar": np.array(3.5),
        "none": np.zeros((0, 4)),
    }
    np.savez_compressed(tmp_path / "x.npz", **arrays)
    found = bounds.read_npz(tmp_path / "x.npz")
    assert found.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    assert list(bounds.read_npz(tmp_path / "x.npz", ["f"])) == ["f"]
    with refused("has no array g: it has a, f, names, scalar, none"):
        bounds.read_npz(tmp_path / "x.npz", ["g"])


@pytest.mark.parametrize(
    ("header", "match"),
    [
        (b"{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,)}", "claims 8,796.1 GB"),
        (b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}", "claims"),
        (b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", "Python objects"),
        (b"__import__('os').getcwd()", "plain arrays"),
    ],
)
def test_an_npz_header_that_lies(tmp_path: Path, header: bytes, match: str) -> None:
    with refused(match):
        bounds.read_npz(write_npz(tmp_path / "x.npz", header, bytes(8)))
