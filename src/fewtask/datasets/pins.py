"""What a download must be: a checksum that is known, git's hash of a folder, or what it was the first time."""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path

from fewtask.datasets.store import file_checksum
from fewtask.errors import DataError
from fewtask.files import write_json

FIRST_USE = ".checksums.json"
"""Beside the downloads of a data set: address to SHA-256 of what came from there first."""


class FirstUseWarning(UserWarning):
    """A file whose publisher gives no checksum was taken as it came."""


def first_use(folder: Path, url: str) -> str | None:
    """The checksum of the first download from an address, in pooch's form, or None before it."""
    known = _read(folder).get(url)
    return None if known is None else f"sha256:{known}"


def remember(folder: Path, url: str, file: Path) -> None:
    """Trusts a file as it came, saying so: from now on the address must give the same."""
    checksum = file_checksum(file)
    write_json(folder / FIRST_USE, {**_read(folder), url: checksum})
    warnings.warn(
        f"no checksum is known of {url}: what came has sha256 {checksum}, and later downloads must have it too",
        FirstUseWarning,
        stacklevel=2,
    )


def _read(folder: Path) -> dict[str, str]:
    path = folder / FIRST_USE
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} is damaged ({error}): remove it to trust downloads anew") from error
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise DataError(f"{path} is damaged (it is no table of checksums): remove it to trust downloads anew")
    return found


def check_trees(folder: Path, trees: Mapping[str, str], url: str) -> None:
    """Refuses and removes folders that are not, file for file, those of the commit in the address."""
    wrong = [name for name, wanted in trees.items() if not _is_tree(folder / name, wanted)]
    if wrong:
        for name in trees:
            shutil.rmtree(folder / name, ignore_errors=True)
        raise DataError(
            f"what came from {url} is not that commit's ('{wrong[0]}' differs), and was removed: try again, or name a "
            "folder of the publisher's files with --raw-dir DIR"
        )


def _is_tree(folder: Path, wanted: str) -> bool:
    return folder.is_dir() and all(path.is_file() for path in folder.iterdir()) and git_tree(folder) == wanted


def git_tree(folder: Path) -> str:
    """Git's hash of a folder of plain files, which a commit vouches for; the bytes of its archive are not fixed."""
    entries = b""
    for path in sorted(folder.iterdir(), key=lambda path: path.name.encode()):
        content = path.read_bytes()
        blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
        entries += b"100644 " + path.name.encode() + b"\0" + blob.digest()
    return hashlib.sha1(b"tree %d\0" % len(entries) + entries, usedforsecurity=False).hexdigest()
