"""The history of a run: JSON lines that any tool can read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fewtask.errors import RunError


class History:
    """Rows in memory and, where there is a folder, appended to history.jsonl as they come."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.rows: list[dict[str, Any]] = []

    def add(self, row: dict[str, Any]) -> None:
        self.rows.append(row)
        if self.path is not None:
            try:
                with self.path.open("a", encoding="utf-8") as handle:
                    handle.write(json.dumps(row) + "\n")
            except OSError as error:
                raise RunError(
                    f"cannot write {self.path}: {error.strerror}. What was saved before is intact; "
                    "make room and run the same command again"
                ) from error

    def rewind(self, step: int) -> None:
        """Takes up the file of an interrupted run, without what came after its last checkpoint."""
        if self.path is None or not self.path.exists():
            return
        self.rows = [row for row in read_history(self.path) if row["step"] <= step]
        self.path.write_text("".join(json.dumps(row) + "\n" for row in self.rows), encoding="utf-8")


def read_history(path: str | Path) -> list[dict[str, Any]]:
    """All whole lines; a line cut short by a crash is left out."""
    path, rows = Path(path), []
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                rows.append(json.loads(line))
            except ValueError:
                break
    return rows
