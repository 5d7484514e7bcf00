"""What a data set is to the rest of the house: raw files in, prepared arrays cached, a Dataset out.

A data set is one file in this folder that ends in a `SOURCE`, and one line in the registry. Its work is in two
steps, so that the slow one happens once: `prepare` reads the publisher's files into arrays (fingerprints,
embeddings, decoded images), which are cached; `build` picks rows for the run's settings and makes the pools.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from fewtask.errors import SettingsError
from fewtask.pool import Dataset
from fewtask.settings import DataSettings

T = TypeVar("T")


class Progress(Protocol):
    """Wraps an iterable with a progress bar where there is a terminal to show one on."""

    def __call__(self, items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]: ...


def quiet(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
    """Progress that shows nothing."""
    return iter(items)


@dataclass(frozen=True)
class RawFile:
    """A publisher's file: its path below the data set's raw folder, where it comes from, and its checksum.

    url is None for files that have no stable public address: the user brings them.
    known_hash is pooch's form, "md5:..." or "sha256:..."; where it is None, the first download is remembered.
    unpack names the archive member layout that pooch unpacks ("zip", "tar") before reading, or None.
    git_trees: folders of the unpacked archive of a commit, and git's hash of each, which stand for a known_hash.
    """

    path: str
    url: str | None = None
    known_hash: str | None = None
    unpack: str | None = None
    git_trees: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Prepared:
    """Cached arrays and a JSON-able description of how they came about (counts, molecules that failed, ...)."""

    arrays: Mapping[str, np.ndarray]
    info: Mapping[str, Any] = field(default_factory=dict)


def only_variant(settings: DataSettings) -> str:
    """Of a data set whose rows come in one form."""
    if settings.features is not None:
        raise SettingsError(f"data.features is '{settings.features}', and this data set has one kind: leave it out")
    return "default"


@dataclass(frozen=True)
class Source:
    """One data set.

    folder:   name of its folder below the raw folder.
    also_read: further paths there that `prepare` reads where they exist.
    version:  raised whenever `prepare` changes what it writes; older caches are then rebuilt.
    variant:  which of the settings change the prepared arrays, as a short file-name-safe text ("morgan").
    prepare:  (raw folder of this data set, settings, progress) -> Prepared. Must not write to the raw folder.
              None for a data set that ships with the package's dependencies.
    build:    (Prepared, settings) -> Dataset, in well under a second.
    """

    name: str
    title: str
    domain: str
    licence: str
    splits: str
    build: Callable[[Prepared, DataSettings], Dataset]
    prepare: Callable[[Path, DataSettings, Progress], Prepared] | None = None
    folder: str = ""
    version: int = 1
    files: tuple[RawFile, ...] = ()
    variant: Callable[[DataSettings], str] = only_variant
    also_read: tuple[str, ...] = ()
    needs: str | None = None
    """The extra of fewtask that reading it needs (`pip install "fewtask[chem]"`), if any."""
