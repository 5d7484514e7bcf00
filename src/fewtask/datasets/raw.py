"""Where the publishers' files are: in a folder that the user names, or downloaded once with pooch.

A raw folder holds one sub-folder a data set, and is only ever read. `--raw-dir DIR` may also name the data set's
own folder.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from fewtask.bounds import special
from fewtask.datasets.archives import unpack_archive
from fewtask.datasets.base import RawFile, Source
from fewtask.datasets.pins import FIRST_USE, check_trees, first_use, remember
from fewtask.errors import DataError

RAW_VARIABLE = "FEWTASK_RAW"
RETRIES = 3


def raw_folder(source: Source, raw_dir: str | Path | None, download_dir: Path, may_download: bool = False) -> Path:
    """The folder of the data set's raw files; they are downloaded into `download_dir` where that was asked for."""
    named = named_folder(raw_dir)
    if named is not None:
        return locate(source, named)
    folder = download_dir / source.folder
    missing = missing_files(source, folder)
    if missing and not may_download and all(file.url for file in missing):
        raise DataError(
            f"'{source.name}' is not on this machine, and nothing is downloaded unasked: `fewtask data prepare "
            f"{source.name}` fetches it from {_publisher(missing)}, or name a folder of its files with --raw-dir DIR"
        )
    if missing:
        download(source, folder)
    return folder


def present_folder(source: Source, raw_dir: str | Path | None, download_dir: Path) -> Path | None:
    """Where the raw files are already, or None; nothing is downloaded."""
    named = named_folder(raw_dir)
    places = [download_dir / source.folder] if named is None else [named / source.folder, named]
    return next((folder for folder in places if not missing_files(source, folder)), None)


def named_folder(raw_dir: str | Path | None) -> Path | None:
    """The raw folder that the user names, by an option or by the environment."""
    if raw_dir is None and os.environ.get(RAW_VARIABLE):
        raw_dir = Path(os.environ[RAW_VARIABLE])
    return None if raw_dir is None else Path(raw_dir).expanduser()


def locate(source: Source, named: Path) -> Path:
    """The data set's folder in or at the folder that the user named; nothing is written there."""
    if not named.is_dir():
        raise DataError(f"{named} is not a folder: name the folder of the publisher's files with --raw-dir DIR")
    inside = named / source.folder
    if not missing_files(source, inside):
        return inside
    if not missing_files(source, named):
        return named
    # The sub-folder is the better guess of what was meant whenever it exists.
    tried = inside if inside.is_dir() else named
    missing = missing_files(source, tried)
    raise DataError(
        f"'{source.name}' needs files that {tried} lacks: {_listed(missing)}; get them from "
        f"{_publisher(missing)} and name the folder with --raw-dir DIR or {RAW_VARIABLE}"
    )


def missing_files(source: Source, folder: Path) -> list[RawFile]:
    for file in source.files:
        if special(folder / file.path):
            raise DataError(f"{folder / file.path} is a pipe or a device: put the publisher's file there")
    return [file for file in source.files if not (folder / file.path).exists()]


def download(source: Source, folder: Path) -> None:
    """Fetch a data set's missing files from their publisher; each is checked and then moved into `folder`."""
    missing = missing_files(source, folder)
    homeless = [file for file in missing if file.url is None]
    if homeless:
        raise DataError(
            f"'{source.name}' needs {_listed(homeless)}, which no public address offers: name the folder "
            f"that holds the publisher's files with --raw-dir DIR or {RAW_VARIABLE}"
        )
    for url in dict.fromkeys(file.url for file in missing if file.url):
        files = [file for file in missing if file.url == url]
        one = files[0]
        known = one.known_hash or (None if one.git_trees else first_use(folder, url))
        into, name = (folder, one.path) if one.unpack is None else (folder / ".archives", _file_name(url))
        came = _fetch(source, url, known, into, name, first=one.known_hash is None)
        if known is None and not one.git_trees:
            remember(folder, url, came)
        if one.unpack is not None:
            unpack_archive(came, one.unpack, folder, wanted=[file.path for file in files])
            came.unlink()
            check_trees(folder, one.git_trees, url)
    still = missing_files(source, folder)
    if still:
        raise DataError(f"what was downloaded for '{source.name}' from {_publisher(still)} lacks {_listed(still)}")


def _fetch(source: Source, url: str, known_hash: str | None, folder: Path, name: str, first: bool) -> Path:
    try:
        import pooch
    except ImportError as error:
        raise DataError(
            f"downloading '{source.name}' needs pooch: pip install \"fewtask[data]\", or name a folder "
            "of its files with --raw-dir DIR"
        ) from error
    pooch.get_logger().setLevel("ERROR")
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    # Pooch's retries, checksum and atomic move all happen in a folder of their own, so that a file at its
    # final path is always whole.
    work = Path(tempfile.mkdtemp(prefix=".download-", dir=target.parent))
    try:
        registry = pooch.create(
            path=work,
            base_url="",
            registry={target.name: known_hash},
            urls={target.name: url},
            retry_if_failed=RETRIES,
        )
        os.replace(registry.fetch(target.name, progressbar=_shows_progress()), target)
    except OSError as error:
        # requests' network errors are OSErrors without an error number; a full disk has one.
        if error.errno is not None:
            raise
        raise _not_downloaded(source, url, error) from error
    except ValueError as error:
        raise DataError(
            f"the file at {url} does not have the checksum {known_hash} that '{source.name}' expects"
            f"{f', which its first download had ({FIRST_USE})' if first else ''}: try again, or name a folder of the "
            "publisher's files with --raw-dir DIR"
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def _not_downloaded(source: Source, url: str, error: Exception) -> DataError:
    return DataError(
        f"'{source.name}' could not be downloaded from {url} ({type(error).__name__}): with no internet, "
        f"name a folder of the publisher's files with --raw-dir DIR or {RAW_VARIABLE}"
    )


def _shows_progress() -> bool:
    return sys.stderr.isatty() and importlib.util.find_spec("tqdm") is not None


def _file_name(url: str) -> str:
    return url.split("?")[0].rstrip("/").rsplit("/", 1)[-1]


def _publisher(files: Sequence[RawFile]) -> str:
    addresses = list(dict.fromkeys(file.url for file in files if file.url))
    if not addresses:
        return "their publisher (there is no stable public address)"
    more = f" (and {len(addresses) - 1} more addresses beside it)" if len(addresses) > 1 else ""
    return addresses[0] + more


def _listed(files: Sequence[RawFile], most: int = 8) -> str:
    shown = ", ".join(file.path for file in files[:most])
    return shown if len(files) <= most else f"{shown} and {len(files) - most} more files"
