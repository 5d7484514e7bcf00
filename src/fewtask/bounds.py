"""How much a file may ask for: the limits that every reader of strangers' files keeps, in one place.

A file of two kilobytes can claim 320 GiB of sound, and three megabytes of gzip can unpack to six gigabytes. Each
reader asks here before it spends memory, disk or time. The limits lie far above what honest files need; a file beyond
one is refused in one sentence that names it and the limit.
"""

from __future__ import annotations

import gzip
import math
import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TextIO

import numpy as np

from fewtask.errors import DataError

FILE_BYTES = 8 << 30
"""Of one raw file."""
UNPACKED_BYTES = 8 << 30
"""Of all that one archive or compressed file holds."""
UNPACKED_RATIO = 100
"""Unpacked over packed size. Texts and images stay below 30; a file made to fill a disk reaches 1,000."""
UNPACKED_FREE = 64 << 20
"""The ratio does not matter for what is small."""
MEMBERS = 1_000_000
"""Files in one archive."""
LINE_CHARACTERS = 16 << 20
"""Of one line of a text file."""
COLUMNS = 100_000
"""Of a table."""
SOUND_RATE = (1_000, 384_000)
"""Samples a second."""
SOUND_SAMPLES = 1 << 26
"""Of one file, over all channels: 23 minutes of mono at 48 kHz."""
IMAGE_PIXELS = 64_000_000
MOLECULE_CHARACTERS = {"smiles": 10_000, "mol": 1_000_000}
"""Of a SMILES and of an SDF record."""
ATOMS = 4_000
"""Of one molecule."""
CHUNK = 1 << 20


def regular_file(path: Path, most: int = FILE_BYTES) -> int:
    """The size of a file that is one: a pipe or a device never ends, and a folder has no content."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise DataError(f"{path} is a {_kind(found.st_mode)} and no file: put the publisher's file there")
    if found.st_size > most:
        raise DataError(f"{path} has {_size(found.st_size)}, and at most {_size(most)} are read: use a smaller file")
    return found.st_size


def special(path: Path) -> bool:
    """Whether something is there that is neither a file nor a folder."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def read_bytes(path: Path, most: int = FILE_BYTES) -> bytes:
    regular_file(path, most)
    with path.open("rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise DataError(f"{path} grows while it is read: at most {_size(most)} are read")
    return content


def open_text(path: Path, newline: str | None = "") -> TextIO:
    """A text file in UTF-8 to read line by line; use `lines` for its lines."""
    regular_file(path)
    return path.open(newline=newline, encoding="utf-8-sig")


def lines(stream: TextIO, path: Path) -> Iterator[str]:
    """The lines of a stream, none longer than the limit: iterating over a file would first read all of a line."""
    while True:
        line = stream.readline(LINE_CHARACTERS + 1)
        if not line:
            return
        if len(line) > LINE_CHARACTERS:
            raise DataError(f"{path} has a line of more than {LINE_CHARACTERS:,} characters: it is no table of records")
        yield line


def check_columns(names: Sequence[str], path: Path) -> None:
    if len(names) > COLUMNS:
        raise DataError(f"{path} has {len(names):,} columns, and at most {COLUMNS:,} are read: keep those you need")


def listed(names: Iterable[str], most: int = 8, longest: int = 60) -> str:
    """Names for an error message, which must stay one sentence whatever a file is called or holds."""
    shown: list[str] = []
    left = 0
    for name in names:
        if len(shown) < most:
            shown.append(name if len(name) <= longest else f"{name[:longest]}…")
        else:
            left += 1
    return ", ".join(shown) + (f" and {left:,} more" if left else "")


class Unpacking:
    """What one compressed file may still give: `take` counts, and refuses what is too much."""

    def __init__(self, path: Path) -> None:
        self.path, self.bytes, self.members = path, 0, 0
        self.most = min(UNPACKED_BYTES, max(UNPACKED_FREE, UNPACKED_RATIO * regular_file(path)))

    def take(self, count: int) -> None:
        self.bytes += count
        if self.bytes > self.most:
            raise DataError(f"{self.path} unpacks to more than {_size(self.most)}: it is refused, fetch it again")

    def member(self) -> None:
        self.members += 1
        if self.members > MEMBERS:
            raise DataError(f"{self.path} holds more than {MEMBERS:,} files: it is refused, fetch it again")

    def copy(self, stream: IO[bytes], out: IO[bytes]) -> None:
        for chunk in self.chunks(stream):
            out.write(chunk)

    def chunks(self, stream: IO[bytes]) -> Iterator[bytes]:
        while chunk := stream.read(CHUNK):
            self.take(len(chunk))
            yield chunk


def gunzip(path: Path) -> bytes:
    """The content of a gzipped file."""
    budget = Unpacking(path)
    try:
        with gzip.open(path, "rb") as stream:
            return b"".join(budget.chunks(stream))  # type: ignore[arg-type]
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged or is no gzip file ({error}): fetch it again") from error


def read_npz(path: Path, names: Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """Arrays of an .npz file, all or those named; none is unpickled, and none is larger than what the file holds."""
    budget = Unpacking(path)
    try:
        with zipfile.ZipFile(path) as opened:
            stored = {name.removesuffix(".npy"): name for name in opened.namelist()}
            missing = [name for name in names or () if name not in stored]
            if missing:
                raise DataError(f"{path} has no array {listed(missing)}: it has {listed(stored)}")
            arrays = {}
            for name in stored if names is None else names:
                info = opened.getinfo(stored[name])
                budget.take(info.file_size)
                with opened.open(info) as stream:
                    arrays[name] = _read_array(stream, info.file_size)
            return arrays
    except (OSError, ValueError, TypeError, EOFError, zlib.error, zipfile.BadZipFile, NotImplementedError) as error:
        raise DataError(f"{path} is not an .npz file of plain arrays ({error}): replace it") from error


def _read_array(stream: IO[bytes], size: int) -> np.ndarray:
    """An array whose header claims no more bytes than there are."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    wanted = math.prod(shape) * dtype.itemsize
    if wanted > size or min(shape, default=1) < 0:
        raise ValueError(f"an array claims {_size(wanted)}")
    content = stream.read(wanted)
    array = np.frombuffer(content, dtype, count=math.prod(shape)) if dtype.itemsize else np.empty(shape, dtype)
    # A copy, since what frombuffer gives cannot be written to.
    return array.reshape(shape, order="F" if fortran else "C").copy()


def check_sound(path: Path, frames: int, channels: int, rate: int) -> None:
    """What a sound file's header claims, before its samples are asked for."""
    slowest, fastest = SOUND_RATE
    if not slowest <= rate <= fastest:
        raise DataError(f"{path} claims {rate:,} samples a second: between {slowest:,} and {fastest:,} are read")
    if frames * channels > SOUND_SAMPLES:
        raise DataError(f"{path} claims {frames * channels:,} samples: at most {SOUND_SAMPLES:,} of a file are read")


def check_pixels(path: Path, width: int, height: int) -> None:
    """What an image's header claims, before it is decoded."""
    if width * height > IMAGE_PIXELS:
        raise DataError(f"{path} has {width:,} x {height:,} pixels: at most {IMAGE_PIXELS:,} are read, make it smaller")


def molecule_problem(text: str, form: str = "smiles") -> str | None:
    """Why a SMILES or an SDF record ("mol") is not to be parsed at all, or None."""
    most = MOLECULE_CHARACTERS[form]
    return f"it has {len(text):,} characters, and at most {most:,} are read" if len(text) > most else None


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "folder", stat.S_IFIFO: "pipe", stat.S_IFSOCK: "socket"}
    return kinds.get(stat.S_IFMT(mode), "device")


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1_000:
            return f"{count:,.0f} {unit}"
        count /= 1_000
    return f"{count:,.1f} GB"
