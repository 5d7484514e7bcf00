"""One prepared data set on disk: a folder of `arrays.safetensors` and a `manifest.json` that vouches for it.

The folder appears whole or not at all: it is written beside its place and then renamed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save

from fewtask.datasets.base import Prepared
from fewtask.errors import DataError

ARRAYS = "arrays.safetensors"
MANIFEST = "manifest.json"
FORMAT = 1
# Checksums of files up to this size cost less than a tenth of a second, so they are checked on every load.
SMALL = 64 << 20
ABANDONED_SECONDS = 24 * 3600


def write(folder: Path, prepared: Prepared, about: Mapping[str, Any], replace: bool = False) -> dict[str, Any]:
    """Write a prepared data set to `folder`; returns its manifest.

    One that is there is replaced if it is damaged, or, with `replace`, if it is another.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder.parent)
    work = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        arrays = {name: np.ascontiguousarray(array) for name, array in prepared.arrays.items()}
        # Written by Python and not by safetensors, so that a full disk is an OSError with its number.
        content = save(arrays)
        (work / ARRAYS).write_bytes(content)
        manifest = {
            "format": FORMAT,
            **about,
            "arrays": {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()},
            "info": dict(prepared.info),
        }
        manifest["seal"] = _seal(manifest)
        (work / MANIFEST).write_text(json.dumps(manifest, indent=1, ensure_ascii=False), encoding="utf-8")
        work.chmod(0o755)
        _put(work, folder, replace)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return manifest


def problem(folder: Path, full: bool = False, checksum: bool = True) -> str | None:
    """What is wrong with a prepared folder, or None.

    Large files are compared by size and header, small ones also by checksum; `full` sums every byte of any
    file, and `checksum=False` of none.
    """
    arrays = folder / ARRAYS
    try:
        manifest = read_manifest(folder)
        size = arrays.stat().st_size
        if size != manifest["arrays"]["size"]:
            return f"{ARRAYS} has {size} bytes instead of {manifest['arrays']['size']}"
        with safe_open(arrays, framework="numpy") as opened:
            opened.keys()
        summed = full or (checksum and size <= SMALL)
        if summed and file_checksum(arrays) != manifest["arrays"]["sha256"]:
            return f"{ARRAYS} does not have its checksum"
    except FileNotFoundError as error:
        return f"{Path(error.filename or ARRAYS).name} is missing"
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        return f"it cannot be read ({error})"
    return None


def read(folder: Path) -> Prepared:
    """Arrays and description of a folder that has no `problem`."""
    return Prepared(load((folder / ARRAYS).read_bytes()), read_manifest(folder)["info"])


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest, if it is as it was written (those of older versions have no seal)."""
    manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    if manifest["format"] != FORMAT:
        raise ValueError(f"its format is {manifest['format']}, not {FORMAT}")
    if manifest.get("seal") not in (None, _seal(manifest)):
        raise ValueError(f"{MANIFEST} was changed")
    if not isinstance(manifest["info"], dict):
        raise TypeError(f"{MANIFEST} describes nothing")
    return manifest


def _seal(manifest: Mapping[str, Any]) -> str:
    """A checksum of the manifest itself, which vouches for the arrays."""
    text = json.dumps({key: value for key, value in manifest.items() if key != "seal"}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def file_checksum(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def explained(what: str, folder: Path) -> Iterator[None]:
    """Turn a disk that is full or closed to us into one sentence."""
    remedy = "choose another folder with --data-dir or FEWTASK_DATA"
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DataError(f"no space is left to prepare {what} in {folder}: free some, or {remedy}") from error
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            named = error.filename or folder
            raise DataError(f"{what} cannot be prepared, {named} may not be used: {remedy}") from error
        raise


def _put(work: Path, folder: Path, replace: bool) -> None:
    if folder.exists() and (replace or problem(folder) is not None):
        # Renamed first: a folder that is half deleted must not stand at the place of a whole one.
        aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        os.replace(folder, aside)
        shutil.rmtree(aside, ignore_errors=True)
    try:
        os.replace(work, folder)
    except OSError:
        # Another process may have prepared the same meanwhile; what it wrote is as good.
        if problem(folder) is not None:
            raise


def _sweep(parent: Path) -> None:
    """Remove what processes that were killed left behind."""
    for path in parent.glob(".*-v*.*"):
        try:
            if path.is_dir() and time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
        except FileNotFoundError:
            continue
