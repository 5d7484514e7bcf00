"""CIFAR's pickles are read as data: what the publisher writes comes out, and a hostile file does nothing."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fewtask.datasets.pickled import read_pickle
from fewtask.errors import DataError


def written(folder: Path, content: bytes) -> Path:
    path = folder / "train"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["uint8", "int64", ">i4"])
def test_arrays_and_plain_containers_come_out_as_python_wrote_them(tmp_path: Path, protocol: int, dtype: str) -> None:
    value = {
        b"data": np.arange(12, dtype=dtype).reshape(3, 4),
        b"transposed": np.asfortranarray(np.arange(6, dtype=dtype).reshape(2, 3)),
        b"names": [b"a", b"\xff"],
        b"numbers": [0, 255, 256, 70_000, -1, 2**40],
        b"none": (None, True, False),
        b"empty": ((), [], {}),
    }
    if protocol == 5:
        # Protocol 5 keeps arrays in buffers, in words that no publisher's file has.
        value = {key: item for key, item in value.items() if not isinstance(item, np.ndarray)}
    found = read_pickle(written(tmp_path, pickle.dumps(value, protocol=protocol)))
    assert list(found) == list(value)
    for key, item in value.items():
        if isinstance(item, np.ndarray):
            np.testing.assert_array_equal(found[key], item)
            assert found[key].dtype == item.dtype
        else:
            assert found[key] == item


def test_a_file_of_python_2_is_read_with_bytes_for_its_texts(tmp_path: Path) -> None:
    """Operation by operation what Python 2.7 and numpy 1.7 wrote: protocol 2, texts as 8-bit strings."""
    content = (
        b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85U\x01b\x87Rq\x05"
        b"(K\x01K\x02K\x03\x86cnumpy\ndtype\nq\x06U\x02u1K\x00K\x01\x87Rq\x07(K\x03U\x01|NNNJ\xff\xff\xff\xff"
        b"J\xff\xff\xff\xffK\x00tb\x89T\x06\x00\x00\x00\x01\x02\x03\x04\x05\x06tb"
        b"U\x0bfine_labelsq\x08]q\x09(K\x13K\x1deu."
    )
    found = read_pickle(written(tmp_path, content))
    np.testing.assert_array_equal(found[b"data"], [[1, 2, 3], [4, 5, 6]])
    assert found[b"fine_labels"] == [19, 29]


def hostile_array() -> bytes:
    """An array of objects whose dtype's flags are cleared: the eight bytes of its content become a pointer."""
    minus_one = b"J\xff\xff\xff\xff"
    dtype = b"\x8c\x05numpy\x8c\x05dtype\x93\x8c\x02O8\x89\x88\x87R(K\x03\x8c\x01|NNN" + 2 * minus_one + b"K\x00tb"
    array = (
        b"\x8c\x16numpy._core.multiarray\x8c\x0c_reconstruct\x93\x8c\x05numpy\x8c\x07ndarray\x93K\x00\x85C\x01b\x87R"
    )
    return b"\x80\x04" + array + b"(K\x01K\x01\x85" + dtype + b"\x89C\x08AAAAAAAAtb."


def test_bytes_of_a_file_never_become_pointers(tmp_path: Path) -> None:
    # In a process of its own: with an unpickler this ends in a segmentation fault, not in an exception.
    path = written(tmp_path, hostile_array())
    code = (
        "import sys; from pathlib import Path; from fewtask.datasets.pickled import read_pickle; "
        "from fewtask.errors import DataError\n"
        "try: print(repr(read_pickle(Path(sys.argv[1]))))\n"
        "except DataError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"exit {done.returncode}"
    assert "something other than an array of whole numbers" in done.stdout


@pytest.mark.parametrize("code", ["O8", "V4", "f8", "M8", "S5", "u3", ""])
def test_only_whole_numbers_are_rebuilt(tmp_path: Path, code: str) -> None:
    named = bytes([len(code)]) + code.encode()
    content = b"\x80\x04\x8c\x05numpy\x8c\x05dtype\x93\x8c" + named + b"\x89\x88\x87R."
    with pytest.raises(DataError, match="something other than an array of whole numbers"):
        read_pickle(written(tmp_path, content))


def test_a_dtype_with_fields_or_flags_is_refused(tmp_path: Path) -> None:
    plain = b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t"
    start = b"\x80\x04\x8c\x05numpy\x8c\x05dtype\x93\x8c\x02u1\x89\x88\x87R(K\x03\x8c\x01|"
    read_pickle(written(tmp_path, start + plain + b"b."))
    for changed in (plain.replace(b"K\x00", b"K\x3f"), plain.replace(b"NNN", b"N)N"), plain.replace(b"NNN", b")NN")):
        with pytest.raises(DataError, match="changes something other"):
            read_pickle(written(tmp_path, start + changed + b"b."))


def test_an_array_must_have_as_many_bytes_as_its_shape(tmp_path: Path) -> None:
    whole = pickle.dumps(np.zeros((5, 7), np.uint8), protocol=4)
    for sides in (b"K\x05K\x08", b"K\x06K\x07", b"J\xff\xff\xff\xffK\x07", b"K\x00K\x07"):
        with pytest.raises(DataError, match="an array"):
            read_pickle(written(tmp_path, whole.replace(b"K\x05K\x07", sides)))


class Foreign:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, ("created-by-pickle",)


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_foreign_name_is_refused_and_not_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: int
) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, pickle.dumps({"data": Foreign()}, protocol=protocol))
    with pytest.raises(DataError, match=r"refused: it contains posix\.mkdir"):
        read_pickle(path)
    assert not (tmp_path / "created-by-pickle").exists()


def test_no_prefix_and_no_changed_byte_of_a_file_is_anything_but_data_or_one_sentence(tmp_path: Path) -> None:
    whole = pickle.dumps({b"data": np.arange(6, dtype=np.uint8).reshape(2, 3), b"fine_labels": [1, 2]}, protocol=4)
    rng = np.random.default_rng(0)
    tries = [whole[:length] for length in range(len(whole))]
    for _ in range(3_000):
        changed = bytearray(whole)
        for place in rng.integers(0, len(whole), size=rng.integers(1, 4)):
            changed[place] = rng.integers(0, 256)
        tries.append(bytes(changed))
    messages = []
    for content in tries:
        try:
            read_pickle(written(tmp_path, content))
        except DataError as error:
            messages.append(str(error))
    assert len(messages) > len(whole)
    assert max(map(len, messages)) < 500
