"""The history of a run: JSON lines that any tool can read.

The checkpoint holds the rows too, so that a run that goes on loses none of them with the file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fewtask.errors import RunError
from fewtask.files import write_text


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

    def restore(self, rows: Sequence[dict[str, Any]]) -> None:
        """Takes up an interrupted run with the rows that its checkpoint holds, whatever became of the file."""
        self.rows = list(rows)
        if self.path is not None and (rows or self.path.exists()):
            write_text(self.path, "".join(json.dumps(row) + "\n" for row in rows))


def read_history(path: str | Path) -> list[dict[str, Any]]:
    """All whole lines up to the first that is none: a crash cuts the last line short."""
    path = Path(path)
    rows: list[dict[str, Any]] = []
    if path.exists():
        for line in path.read_bytes().splitlines():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                break
            if not is_row(row):
                break
            rows.append(row)
    return rows


def is_row(row: Any) -> bool:
    """A step and numbers by name; "hyper" holds what the hypergradient reports."""
    if not isinstance(row, dict) or not isinstance(row.get("step"), int):
        return False
    return all(isinstance(value, dict) if name == "hyper" else _is_number(value) for name, value in row.items())


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
