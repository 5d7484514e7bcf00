"""Tables from files, in chunks: CSV and TSV with the core alone, Parquet with pyarrow.

A chunk holds so many rows, so that a file of any length can be gone through in constant memory. What is wrong with a
file is said with its line.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from fewtask import bounds
from fewtask.errors import DataError
from fewtask.features.table import Column, Table, join

CHUNK = 10_000
PARQUET = (".parquet", ".pq")
TEXT = (".csv", ".tsv", ".tab", ".txt")
DELIMITERS = ",;\t|"
MOST_CELLS = 200_000_000
"""Of a table that is held in memory whole: about 12 GB as text."""
UTF16 = (b"\xff\xfe", b"\xfe\xff")


def is_table(path: Path) -> bool:
    return path.suffix.lower() in PARQUET + TEXT


def read_table(path: Path, columns: Sequence[str] | None = None) -> Table:
    """The whole table, or some of its columns."""
    chunks, cells = [], 0
    for chunk in read_chunks(path, columns):
        cells += len(chunk) * len(chunk.names)
        if cells > MOST_CELLS:
            raise DataError(
                f"{path} holds more than {MOST_CELLS:,} cells, which is more than fits in memory: "
                "keep the columns and rows that are needed"
            )
        chunks.append(chunk)
    return join(chunks)


def read_chunks(path: Path, columns: Sequence[str] | None = None, rows: int = CHUNK) -> Iterator[Table]:
    """Tables of at most `rows` rows; at least one of them, or a DataError."""
    if not path.is_file():
        raise DataError(f"{path} is not there: check the path")
    read = _parquet_chunks if path.suffix.lower() in PARQUET else _text_chunks
    return read(path, columns, rows)


def _text_chunks(path: Path, columns: Sequence[str] | None, rows: int) -> Iterator[Table]:
    with _opened(path) as stream:
        reader, header = _reader(stream, path)
        numbers = _positions(header, columns, path)
        records, empty = _records(reader, len(header), path), True
        while True:
            part = list(islice(records, rows))
            if not part:
                break
            empty = False
            # Equal cells of a chunk share one text: labels and categories then cost a pointer each.
            shared: dict[str, str] = {}
            cells: dict[str, Column] = {
                header[number]: [shared.setdefault(record[number], record[number]) for _, record in part]
                for number in numbers
            }
            lines = np.array([line for line, _ in part], dtype=np.int64)
            yield Table(cells, lines, path.parent, path.name)
        if empty:
            raise DataError(f"{path} has a header and no rows below it: fill the table")


def _opened(path: Path) -> TextIO:
    try:
        bounds.regular_file(path)
        with path.open("rb") as raw:
            start = raw.read(4096)
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}): check the path and its permissions") from error
    if start.startswith(UTF16):
        raise DataError(f"{path} is UTF-16: save it as UTF-8 (in a spreadsheet: CSV UTF-8)")
    if b"\0" in start or start.startswith((b"PK\x03\x04", b"\x1f\x8b")):
        raise DataError(f"{path} is no text table: save it as CSV, TSV or Parquet, not packed")
    return bounds.open_text(path)


def _reader(stream: TextIO, path: Path) -> tuple[Any, list[str]]:
    """A csv reader that stands below the header, and the header."""
    lines = _lines(stream, path)
    first = next(lines, "")
    delimiter = max(DELIMITERS, key=lambda sign: (len(next(csv.reader([first], delimiter=sign), [])), sign == ","))
    reader = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
    record = next(_records(reader, None, path), None)
    if record is None:
        raise DataError(f"{path} is empty: it needs a header and rows")
    header = [name.strip() or f"unnamed {number}" for number, name in enumerate(record[1], start=1)]
    bounds.check_columns(header, path)
    seen: dict[str, int] = {}
    for number, name in enumerate(header, start=1):
        if name in seen:
            raise DataError(f"{path} has two columns '{name}', number {seen[name]} and {number}: rename one of them")
        seen[name] = number
    return reader, header


def _records(reader: Any, width: int | None, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Line and cells of each record that is not blank; every one as wide as the header."""
    while True:
        line = reader.line_num + 1
        try:
            record = next(reader, None)
        except csv.Error as error:
            raise DataError(f"{path}, line {line}: the quotes or cells cannot be read ({error}): correct it") from error
        if record is None:
            return
        if not any(cell.strip() for cell in record):
            continue
        if width is not None and len(record) != width:
            raise DataError(
                f"{path}, line {line} has {len(record)} cells where the header has {width}: put cells that hold the "
                "delimiter in quotes"
            )
        yield line, record


def _lines(stream: TextIO, path: Path) -> Iterator[str]:
    number = 0
    try:
        for line in bounds.lines(stream, path):
            yield line
            number += 1
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 after line {number} ({error.reason}): save it as UTF-8") from error


def _positions(header: Sequence[str], columns: Sequence[str] | None, path: Path) -> list[int]:
    if columns is None:
        return list(range(len(header)))
    missing = [name for name in columns if name not in header]
    if missing:
        raise DataError(f"{path} has no column '{missing[0]}': its columns are {bounds.listed(header, most=20)}")
    return [header.index(name) for name in dict.fromkeys(columns)]


def _parquet_chunks(path: Path, columns: Sequence[str] | None, rows: int) -> Iterator[Table]:
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise DataError('Parquet is read with pyarrow: pip install "fewtask[tables]"') from error
    bounds.regular_file(path)
    try:
        with parquet.ParquetFile(path) as file:
            header = list(file.schema_arrow.names)
            bounds.check_columns(header, path)
            names = [header[number] for number in _positions(header, columns, path)]
            start = 1
            for batch in file.iter_batches(batch_size=rows, columns=names):
                cells = {name: _arrow_cells(batch.column(name), name, path) for name in names}
                yield Table(cells, np.arange(start, start + batch.num_rows), path.parent, path.name)
                start += batch.num_rows
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(
            f"{path} is not a readable Parquet file ({str(error).splitlines()[0]}): write it again"
        ) from error
    if start == 1:
        raise DataError(f"{path} has no rows: fill the table")


def _arrow_cells(column: Any, name: str, path: Path) -> Column:
    """Numbers as an array, NaN where null; all else as a list of Python values."""
    import pyarrow.types as types

    kind = column.type
    if types.is_floating(kind) or (types.is_integer(kind) and not column.null_count):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if types.is_nested(kind):
        raise DataError(f"{path}: column '{name}' holds {kind}, and a table of plain cells is needed")
    values: list[Any] = column.to_pylist()
    return values
