"""Opening what strangers packed: archives whose members stay in their folder."""

from __future__ import annotations

import errno
import os
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from fewtask.bounds import Unpacking, regular_file
from fewtask.errors import DataError

# What zipfile and tarfile raise for a file that is cut off, wants a password or is something else.
DAMAGED = (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, NotImplementedError, RuntimeError)


def unpack_archive(archive: Path, form: str, folder: Path, wanted: Sequence[str] = ()) -> None:
    """Unpack a zip or tar file into `folder`, all of it or, after any error, nothing.

    A member that would leave the folder, and any link, is refused. Where every member lies below one top
    folder and the wanted paths appear only without it (a repository's archive), that top folder is dropped.
    """
    folder.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".unpack-", dir=folder))
    try:
        budget = Unpacking(archive)
        for name, stream in _members(archive, form):
            target = work / safe_path(name, archive)
            target.parent.mkdir(parents=True, exist_ok=True)
            budget.member()
            with stream, target.open("wb") as out:
                budget.copy(stream, out)
        _move(_without_top(work, wanted), folder)
    except DAMAGED as error:
        raise DataError(
            f"{archive.name} is damaged or is no {form} file ({error}): remove it and fetch it again"
        ) from error
    except OSError as error:
        # An offset that no file has comes from the archive; a full disk has another number.
        if error.errno not in (None, errno.EINVAL):
            raise
        raise DataError(f"{archive.name} is damaged ({error}): remove it and fetch it again") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def open_zip(archive: Path) -> zipfile.ZipFile:
    """A zip file to read members from, or a DataError where it is cut off or no zip at all."""
    regular_file(archive)
    try:
        return zipfile.ZipFile(archive)
    except DAMAGED as error:
        raise DataError(f"{archive} is damaged or is no zip file ({error}): fetch it again") from error


def read_member(opened: zipfile.ZipFile, name: str) -> bytes:
    """A zip member's bytes, checked against the checksum that the zip file keeps of it."""
    try:
        # A zip file's reader gives no more than the size that its index states.
        Unpacking(Path(opened.filename or "")).take(opened.getinfo(name).file_size)
        return opened.read(name)
    except KeyError as error:
        raise DataError(f"{opened.filename} has no member {name}: fetch the publisher's file again") from error
    except DAMAGED as error:
        raise DataError(f"{name} in {opened.filename} is damaged ({error}): fetch the file again") from error


def safe_path(name: str, archive: Path) -> PurePosixPath:
    """A member's path, refused where it is absolute, climbs out of the folder or could do so on Windows."""
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or ":" in name:
        raise DataError(f"{archive.name} is refused: its member '{name}' would be written outside the folder")
    return path


def _members(archive: Path, form: str) -> Iterator[tuple[str, IO[bytes]]]:
    if form == "zip":
        with zipfile.ZipFile(archive) as opened:
            for info in opened.infolist():
                safe_path(info.filename, archive)
                if not info.is_dir():
                    yield info.filename, opened.open(info)
    elif form == "tar":
        with tarfile.open(archive) as opened_tar:
            for member in opened_tar:
                safe_path(member.name, archive)
                if member.isdir():
                    continue
                stream = opened_tar.extractfile(member) if member.isreg() else None
                if stream is None:
                    raise DataError(f"{archive.name} is refused: its member '{member.name}' is a link or a device")
                yield member.name, stream
    else:
        raise DataError(f"archives of the form '{form}' cannot be unpacked: known are tar, zip")


def _without_top(work: Path, wanted: Sequence[str]) -> Path:
    entries = list(work.iterdir())
    if len(entries) != 1 or not entries[0].is_dir() or not wanted:
        return work
    as_packed = all((work / path).exists() for path in wanted)
    below_top = all((entries[0] / path).exists() for path in wanted)
    return entries[0] if below_top and not as_packed else work


def _move(work: Path, folder: Path) -> None:
    for path in sorted(work.rglob("*")):
        target = folder / path.relative_to(work)
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            os.replace(path, target)
