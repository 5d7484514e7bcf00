"""The ledger: one small JSON file a finished run, named by its preset, method, seed and the hash of its settings.

New records go to one folder. Records are found there and in every folder `records` below a second one, which is
that of all experiments. A run is looked up by its settings. Records made before a setting existed count as having its
default, so that a new setting does not orphan them. Task maps lie beside the records, in `maps/`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from fewtask.errors import FewtaskError, RunError
from fewtask.files import one_line_each, read_json, write_text
from fewtask.methods import groups_of
from fewtask.record import record_problem
from fewtask.settings import RunSettings, digest, from_dict, identity

MAPS = "maps"


def run_digest(settings: RunSettings) -> str:
    """The hash of what makes a run what it is."""
    return digest(identity(settings, groups_of(settings.method)))


def run_stem(preset: str, settings: RunSettings) -> str:
    return f"{preset}-{settings.method}-{settings.seed}-{run_digest(settings)}"


class Ledger:
    """Records of finished runs: written to `folder`, read there and in the folders `records` below `also`."""

    def __init__(self, folder: str | Path, also: str | Path | None = None) -> None:
        # Whole paths: a record that both folders lead to is one record.
        self.folder = Path(folder).absolute()
        self.also = None if also is None else Path(also).absolute()
        self._digests: dict[Path, str] = {}
        self._records: dict[Path, tuple[int, dict[str, Any]]] = {}

    def path_for(self, preset: str, settings: RunSettings) -> Path:
        return self.folder / f"{run_stem(preset, settings)}.json"

    def has(self, settings: RunSettings) -> bool:
        return self.find(settings) is not None

    def find(self, settings: RunSettings) -> dict[str, Any] | None:
        """The record of a run, or None; under whatever preset it was made."""
        return self.gather([settings]).get(run_digest(settings))

    def gather(self, wanted: Iterable[RunSettings]) -> dict[str, dict[str, Any]]:
        """The records of many runs by the hash of their settings, those that there are; the folders are listed once.

        Of several records of one run, made to choose settings and made again, the one with meta-test counts, and
        then the one in the ledger's own folder.
        """
        paths = self._paths()
        found = {}
        for settings in wanted:
            key, kind = run_digest(settings), f"-{settings.method}-{settings.seed}-"
            same = [path for path in paths if kind in path.name and self._digest_of(path) == key]
            if same:
                best = max(same, key=lambda path: ("test" in self._read(path), path.parent == self.folder))
                found[key] = self._read(best)
        return found

    def read(self, settings: RunSettings) -> dict[str, Any]:
        record = self.find(settings)
        if record is None:
            raise RunError(
                f"{self.folder} has no record of {settings.method} on {settings.dataset}, seed {settings.seed}, "
                "with these settings"
            )
        return record

    def write(self, record: dict[str, Any]) -> Path:
        """Whole or not at all, whoever else is writing."""
        path = self.path_for(record["preset"], from_dict(record["settings"]))
        write_text(path, one_line_each(record))
        return path

    def add(self, run: str | Path) -> Path:
        """Takes in a run that was trained by itself: the record that its folder holds."""
        return self.write(read_json(Path(run) / "result.json"))

    def all(self) -> list[dict[str, Any]]:
        """Every record, by file name."""
        return list(self.files().values())

    def files(self) -> dict[Path, dict[str, Any]]:
        """Every record by its file."""
        return {path: self._read(path) for path in self._paths()}

    def write_map(self, settings: RunSettings, values: dict[str, Any]) -> Path:
        path = self.folder / MAPS / _map_name(settings)
        write_text(path, one_line_each(values))
        return path

    def read_map(self, settings: RunSettings) -> dict[str, Any] | None:
        name = _map_name(settings)
        path = next((path for path in self._files(MAPS) if path.name == name), None)
        return None if path is None else load_json(path)

    def _paths(self) -> list[Path]:
        files = {path for path in self._files("") if path.parent.name != MAPS}
        return sorted(files, key=lambda path: (path.name, path))

    def _files(self, folder: str) -> Iterator[Path]:
        """JSON files of the ledger, in a folder of that name."""
        yield from (self.folder / folder).glob("*.json")
        if self.also is not None:
            yield from self.also.rglob(f"records/**/{folder or '.'}/*.json")

    def _digest_of(self, path: Path) -> str:
        """The hash of a record's settings as they would be written today."""
        if path not in self._digests:
            try:
                self._digests[path] = run_digest(from_dict(self._read(path)["settings"]))
            except FewtaskError:
                # A setting that no longer exists: the record stays what it was.
                self._digests[path] = path.stem.rpartition("-")[2]
        return self._digests[path]

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            changed = path.stat().st_mtime_ns
        except OSError as error:
            raise RunError(f"cannot read {path}: {error.strerror}") from error
        known = self._records.get(path)
        if known is None or known[0] != changed:
            record = load_json(path)
            wrong = record_problem(record)
            if wrong is not None:
                raise RunError(
                    f"{path} is not a record of a run ({wrong}): keep other files out of the ledger's folder"
                )
            self._records[path] = known = (changed, record)
        return known[1]


def _map_name(settings: RunSettings) -> str:
    return f"{settings.dataset}-{settings.method}-{settings.seed}-{run_digest(settings)}.json"


def load_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path} is damaged ({error}): remove it to run it again") from error
