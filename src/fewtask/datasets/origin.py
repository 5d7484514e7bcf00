"""What raw files a cache was made of, so that one made of an empty or wrong file does not outlive its repair."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fewtask.datasets.base import Source
from fewtask.datasets.store import file_checksum


def origin(source: Source, raw: Path) -> dict[str, Any]:
    """For the manifest: checksums of the raw files, and sizes and times by which a later look can spare itself them."""
    paths = _paths(source, raw)
    return {
        "raw": {path: _checksum(raw / path) for path in paths},
        "raw_seen": {path: _seen(raw / path) for path in paths},
    }


def changed_files(manifest: Mapping[str, Any], source: Source, raw: Path) -> list[str]:
    """Raw files that are not those of the cache. Only where size or time differ is a checksum made."""
    sums, seen = _mapping(manifest, "raw"), _mapping(manifest, "raw_seen")
    return [
        path
        for path in _paths(source, raw)
        if seen.get(path) != _seen(raw / path) and sums.get(path) != _checksum(raw / path)
    ]


def _paths(source: Source, raw: Path) -> list[str]:
    return [path for path in (*(file.path for file in source.files), *source.also_read) if (raw / path).exists()]


def _mapping(manifest: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = manifest.get(key)
    return found if isinstance(found, dict) else {}


def _seen(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns]


def _checksum(path: Path) -> str:
    """Of a file's bytes; of a folder's names and sizes, since it may hold tens of thousands of files."""
    if not path.is_dir():
        return file_checksum(path)
    names = sorted((entry.name, entry.stat().st_size) for entry in path.iterdir())
    return hashlib.sha256(repr(names).encode()).hexdigest()
