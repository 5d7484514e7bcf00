"""From a data set's name to its pools, preparing it once and reading the cache ever after.

A prepared data set is the folder `<data folder>/<name>/<variant>-v<version>`. It is keyed by what changes the
arrays (fingerprint kind, feature model); which rows make up the tasks is decided on each load.
"""

from __future__ import annotations

import dataclasses
import os
import time
from importlib import metadata
from pathlib import Path
from typing import Any

from fewtask.datasets import get_source, store
from fewtask.datasets.base import Prepared, Progress, Source, quiet
from fewtask.datasets.origin import changed_files, origin
from fewtask.datasets.raw import present_folder, raw_folder
from fewtask.encoders.electra import downloading
from fewtask.errors import DataError
from fewtask.pool import Dataset
from fewtask.settings import DataSettings

DATA_VARIABLE = "FEWTASK_DATA"


def data_folder(data_dir: str | Path | None = None) -> Path:
    """The folder of prepared data: the argument, FEWTASK_DATA, or the user's cache folder."""
    if data_dir is not None:
        return Path(data_dir).expanduser()
    if os.environ.get(DATA_VARIABLE):
        return Path(os.environ[DATA_VARIABLE]).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "fewtask"


def prepared_folder(source: Source, data: DataSettings, data_dir: str | Path | None = None) -> Path:
    return data_folder(data_dir) / source.name / f"{source.variant(data)}-v{source.version}"


def load_dataset(
    settings_dataset_name: str,
    data: DataSettings,
    *,
    data_dir: str | Path | None = None,
    raw_dir: str | Path | None = None,
    progress: Progress = quiet,
    download: bool = False,
) -> Dataset:
    """A data set, prepared first where there is no whole cache of it; `Dataset.pools` says what serves what."""
    source = get_source(settings_dataset_name)
    if source.prepare is None:
        source.variant(data)
        prepared = Prepared({})
    else:
        prepare(source.name, data, data_dir=data_dir, raw_dir=raw_dir, progress=progress, download=download)
        prepared = store.read(prepared_folder(source, data, data_dir))
    return dataclasses.replace(source.build(prepared, data), made_with=data)


def is_ready(name: str, data: DataSettings, data_dir: str | Path | None = None) -> bool:
    """Whether a data set can be loaded without its raw files."""
    source = get_source(name)
    return source.prepare is None or store.problem(prepared_folder(source, data, data_dir)) is None


def prepare(
    name: str,
    data: DataSettings,
    *,
    data_dir: str | Path | None = None,
    raw_dir: str | Path | None = None,
    progress: Progress = quiet,
    download: bool = False,
) -> dict[str, Any]:
    """Read a data set's raw files into the cache unless a whole one of these files is there; returns its manifest.

    Where the raw files are gone, or only downloads would bring them, a whole cache is trusted. Without `download`
    nothing is fetched.
    """
    source = get_source(name)
    if source.prepare is None:
        return {}
    folder = prepared_folder(source, data, data_dir)
    with store.explained(f"'{name}'", folder):
        downloads = data_folder(data_dir) / "raw"
        whole = store.problem(folder) is None
        if whole:
            manifest = store.read_manifest(folder)
            present = present_folder(source, raw_dir, downloads)
            if present is None or not changed_files(manifest, source, present):
                return manifest
        raw = raw_folder(source, raw_dir, downloads, download)
        begun = time.perf_counter()
        with downloading(download):
            prepared = source.prepare(raw, data, progress)
        _refuse_empty(prepared, name, raw)
        about = {
            "dataset": name,
            "variant": source.variant(data),
            "version": source.version,
            "fewtask": _own_version(),
            "seconds": round(time.perf_counter() - begun, 2),
            **origin(source, raw),
        }
        return store.write(folder, prepared, about, replace=whole)


def verify(name: str, data: DataSettings, data_dir: str | Path | None = None) -> dict[str, Any]:
    """The manifest of a prepared data set, after checking every byte of it against its checksum."""
    source = get_source(name)
    if source.prepare is None:
        return {}
    folder = prepared_folder(source, data, data_dir)
    if not folder.exists():
        raise DataError(f"'{name}' is not prepared in {folder}: run `fewtask data prepare {name}`")
    wrong = store.problem(folder, full=True)
    if wrong:
        raise DataError(
            f"the prepared '{name}' in {folder} is damaged: {wrong}; `fewtask data prepare {name}` makes it again"
        )
    return store.read_manifest(folder)


def _refuse_empty(prepared: Prepared, name: str, raw: Path) -> None:
    """A file with a header and no records must not become a cache that later loads trust."""
    empty = [array for array, values in prepared.arrays.items() if not values.size]
    if empty:
        raise DataError(f"'{name}' has no records in {raw} ({', '.join(empty)} would be empty): complete its files")


def _own_version() -> str:
    try:
        return metadata.version("fewtask")
    except metadata.PackageNotFoundError:
        return "unknown"
