"""The ledger: one small JSON file a finished run, named by its preset, method, seed and the hash of its settings.

A run is looked up by its settings. Records made before a setting existed count as having its default, so that a
new setting does not orphan them. Task maps lie beside the records, in `maps/`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fewtask.errors import FewtaskError, RunError
from fewtask.files import one_line_each, read_json, write_text
from fewtask.methods import get_method
from fewtask.settings import RunSettings, digest, from_dict, identity


def run_digest(settings: RunSettings) -> str:
    """The hash of what makes a run what it is."""
    return digest(identity(settings, get_method(settings.method).groups))


def run_stem(preset: str, settings: RunSettings) -> str:
    return f"{preset}-{settings.method}-{settings.seed}-{run_digest(settings)}"


class Ledger:
    """Records of finished runs in a folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._digests: dict[Path, str] = {}
        self._records: dict[Path, tuple[int, dict[str, Any]]] = {}

    def path_for(self, preset: str, settings: RunSettings) -> Path:
        return self.folder / f"{run_stem(preset, settings)}.json"

    def has(self, settings: RunSettings) -> bool:
        return self._path_of(settings) is not None

    def find(self, settings: RunSettings) -> dict[str, Any] | None:
        """The record of a run, or None; under whatever preset it was made."""
        path = self._path_of(settings)
        return None if path is None else self._read(path)

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
        return [self._read(path) for path in self._paths()]

    def map_path(self, settings: RunSettings) -> Path:
        return (
            self.folder / "maps" / f"{settings.dataset}-{settings.method}-{settings.seed}-{run_digest(settings)}.json"
        )

    def write_map(self, settings: RunSettings, values: dict[str, Any]) -> Path:
        path = self.map_path(settings)
        write_text(path, one_line_each(values))
        return path

    def read_map(self, settings: RunSettings) -> dict[str, Any] | None:
        path = self.map_path(settings)
        return load_json(path) if path.exists() else None

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("*.json")) if self.folder.is_dir() else []

    def _path_of(self, settings: RunSettings) -> Path | None:
        wanted = run_digest(settings)
        exact = next(iter(self.folder.glob(f"*-{wanted}.json")), None)
        if exact is not None:
            return exact
        name = f"-{settings.method}-{settings.seed}-"
        candidates = [path for path in self._paths() if name in path.name]
        return next((path for path in candidates if self._digest_of(path) == wanted), None)

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
            if not isinstance(record, dict) or "settings" not in record or "validation" not in record:
                raise RunError(f"{path} is not a record of a run: keep other files out of the ledger's folder")
            self._records[path] = known = (changed, record)
        return known[1]


def load_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path} is damaged ({error}): remove it to run it again") from error
