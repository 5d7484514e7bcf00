"""Tables as people have them: each is read, or refused in one sentence with its line."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewtask.errors import DataError
from fewtask.features import reading
from fewtask.features.reading import read_chunks, read_table

PLAIN = "name,value\nab,1\ncd,2.5\n"


def written(folder: Path, content: str | bytes, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (PLAIN, "t.csv"),
        (PLAIN.replace(",", "\t"), "t.tsv"),
        (PLAIN.replace(",", "\t"), "t.csv"),
        (PLAIN.replace(",", ";"), "t.csv"),
        (PLAIN.replace("\n", "\r\n"), "windows.csv"),
        ("\ufeff" + PLAIN, "bom.csv"),
        ("\n" + PLAIN.replace("ab,", '"ab",') + "\n,\n\n", "blank_lines.csv"),
        (PLAIN.rstrip("\n"), "no_last_newline.csv"),
    ],
)
def test_the_same_table_however_it_is_written(content: str, name: str, tmp_path: Path) -> None:
    table = read_table(written(tmp_path, content, name))
    assert table.names == ["name", "value"]
    assert table.texts("name") == ["ab", "cd"]
    np.testing.assert_array_equal(table.numbers("value")[0], [1.0, 2.5])
    assert table.folder == tmp_path


def test_line_numbers_are_those_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, 'a,b\n1,"two\nlines"\n\n3,"quoted, comma"\n')
    table = read_table(path)
    assert table.lines.tolist() == [2, 5]
    assert table.texts("b") == ["two\nlines", "quoted, comma"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "is empty: it needs a header and rows"),
        ("\n\n", "is empty"),
        ("a,b\n", "has a header and no rows"),
        ("a,b,a\n1,2,3\n", "two columns 'a', number 1 and 3"),
        ("a,b\n1,2\n1,2,3\n", "line 3 has 3 cells where the header has 2"),
        ("a,b\n1,2\n7\n", "line 3 has 1 cells where the header has 2"),
        ('a,b\n1,"2\n3,4\n', "line 2: the quotes or cells cannot be read"),
        (PLAIN.encode("utf-16"), "is UTF-16: save it as UTF-8"),
        ("a,b\nÄ,1\n".encode("latin-1"), "is not UTF-8 after line 0"),
        (b"PK\x03\x04 and so on", "is no text table"),
        (b"a,b\n\0\0\0,1\n", "is no text table"),
        ("a,b\n1," + "x" * 200_000 + "\n", "line 2: the quotes or cells cannot be read"),
    ],
)
def test_what_is_no_table_is_refused_in_one_sentence(content: str | bytes, words: str, tmp_path: Path) -> None:
    path = written(tmp_path, content)
    with pytest.raises(DataError) as refused:
        read_table(path)
    assert words in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_file_and_a_missing_column_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not there"):
        read_table(tmp_path / "none.csv")
    path = written(tmp_path, PLAIN)
    with pytest.raises(DataError, match="has no column 'label': its columns are name, value"):
        read_table(path, ["name", "label"])
    assert read_table(path, ["value"]).names == ["value"]


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, PLAIN)
    for name, value, words in (
        ("bounds.COLUMNS", 1, "2 columns, and at most 1"),
        ("bounds.LINE_CHARACTERS", 5, "a line of more than 5 characters"),
        ("features.reading.MOST_CELLS", 3, "more than 3 cells"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(f"fewtask.{name}", value)
            with pytest.raises(DataError, match=words):
                read_table(path)


def test_chunks_are_the_table_in_order(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b\n" + "".join(f"{n},{n * n}\n" for n in range(25)))
    chunks = list(read_chunks(path, rows=10))
    assert [len(chunk) for chunk in chunks] == [10, 10, 5]
    assert [line for chunk in chunks for line in chunk.lines] == list(range(2, 27))
    assert [cell for chunk in chunks for cell in chunk.texts("b")] == [str(n * n) for n in range(25)]


def test_chunks_are_read_as_they_are_asked_for(tmp_path: Path) -> None:
    """A file of any length is gone through in constant memory: what comes later is not looked at before."""
    path = written(tmp_path, "a,b\n" + "1,2\n" * 10 + "damaged\n")
    chunks = read_chunks(path, rows=5)
    assert len(next(chunks)) == 5
    assert len(next(chunks)) == 5
    with pytest.raises(DataError, match="line 12 has 1 cells"):
        next(chunks)


def test_parquet_gives_the_same_as_csv(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"text": ["a", None, "c,d"], "whole": [1, None, 3], "part": [0.5, None, 2.0], "yes": [True, False, None]}
    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    table = read_table(path)
    assert table.texts("text") == ["a", "", "c,d"]
    assert table.texts("whole") == ["1", "", "3"]
    assert table.texts("part") == ["0.5", "", "2"]
    assert table.texts("yes") == ["True", "False", ""]
    np.testing.assert_array_equal(table.numbers("whole")[0], [1, np.nan, 3])
    assert [len(chunk) for chunk in read_chunks(path, ["part"], rows=2)] == [2, 1]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="not a readable Parquet file"):
        read_table(path)


cells = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=12)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(cells, min_size=2, max_size=2), min_size=1, max_size=8), st.sampled_from(",;\t|"))
def test_what_the_csv_module_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], delimiter: str
) -> None:
    stream = io.StringIO()
    csv.writer(stream, delimiter=delimiter).writerows([["first", "second"], *rows])
    path = written(tmp_path_factory.mktemp("random"), stream.getvalue())
    kept = [row for row in rows if any(cell.strip() for cell in row)]
    if not kept:
        with pytest.raises(DataError, match="no rows"):
            read_table(path)
        return
    table = read_table(path)
    assert table.texts("first") == [row[0].strip() for row in kept]
    assert table.texts("second") == [row[1].strip() for row in kept]


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=80) | st.text(st.sampled_from('a1,;"\n\r\t .-'), max_size=40).map(str.encode))
def test_any_bytes_are_a_table_or_one_sentence(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = written(tmp_path_factory.mktemp("random"), content)
    said = ""
    try:
        table = read_table(path)
        assert len(table) == len(table.lines) > 0
    except DataError as error:
        said = str(error)
    assert not said or str(path) in said


def test_a_million_rows_are_read_in_chunks_of_the_same_size(tmp_path: Path) -> None:
    path = written(tmp_path, "a,b\n" + "1,x\n" * 1_000_000)
    sizes = [len(chunk) for chunk in read_chunks(path)]
    assert sizes == [reading.CHUNK] * (1_000_000 // reading.CHUNK)
