"""What cells that name files share: they are read on every core, and a file that cannot be read is a bad row."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import numpy as np

from fewtask.datasets.base import Progress
from fewtask.errors import DataError
from fewtask.features.base import good_rows
from fewtask.features.table import BadRow, Table
from fewtask.threads import usable_cores

T = TypeVar("T")


def read_files(
    table: Table, column: str, read: Callable[[Path], T], progress: Progress, what: str
) -> tuple[list[T], np.ndarray, list[BadRow]]:
    """read(path) of each good row, the positions [G] of these rows, and the bad ones."""
    names = table.texts(column)

    def attempt(name: str) -> T | str:
        path = table.folder / name
        if not name:
            return "there is no path"
        if not path.is_file():
            return f"'{name}' is not there"
        try:
            return read(path)
        except DataError as error:
            # Errors begin with the path, which is said as the table has it.
            return f"'{name}'{str(error).removeprefix(str(path))}"

    with ThreadPoolExecutor(usable_cores()) as threads:
        try:
            results = list(progress(threads.map(attempt, names), what, len(names)))
        except BaseException:
            # Otherwise leaving the block would first read all that is still waiting.
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    bad = [table.bad(row, column, result) for row, result in enumerate(results) if isinstance(result, str)]
    return [result for result in results if not isinstance(result, str)], good_rows(table, bad), bad
