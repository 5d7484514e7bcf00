"""The publishers' tables: comma- or tab-separated text with a header."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from fewtask.bounds import check_columns, lines, listed, open_text
from fewtask.errors import DataError


def read_table(
    path: Path, needed: Mapping[str, Sequence[str]], remedy: str = "use the publisher's file"
) -> Iterator[tuple[int, dict[str, str]]]:
    """Line numbers and cells of a table.

    needed: what each column is called here, and the names that publishers give it.
    """
    try:
        with open_text(path) as stream:
            bounded = lines(stream, path)
            header = next(bounded, "")
            reader = csv.DictReader(itertools.chain([header], bounded), delimiter="\t" if "\t" in header else ",")
            columns = reader.fieldnames or []
            check_columns(columns, path)
            found = {}
            for ours, names in needed.items():
                present = [name for name in names if name in columns]
                if not present:
                    raise DataError(
                        f"{path} has no column '{names[0]}' (its columns are {listed(columns) or 'none'}): {remedy}"
                    )
                found[ours] = present[0]
            for row in reader:
                yield reader.line_num, {ours: (row[theirs] or "").strip() for ours, theirs in found.items()}
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing: {remedy}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} is not a text table ({error}): {remedy}") from error
