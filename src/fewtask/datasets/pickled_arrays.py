"""Arrays of whole numbers in a pickle: what numpy's words for them mean, without numpy being called by the file."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from fewtask.errors import DataError

# What numpy and Python 2 or 3 write for an array or for bytes; the parser knows what each of them means.
_RECONSTRUCT, _NDARRAY, _DTYPE, _ENCODE = "reconstruct", "ndarray", "dtype", "encode"
NAMES: Final = {
    ("numpy", "ndarray"): _NDARRAY,
    ("numpy", "dtype"): _DTYPE,
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("_codecs", "encode"): _ENCODE,
}
WHOLE_NUMBERS: Final = ("u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8")
# The rest of a dtype's state: no sub-array, no fields, no flags. Anything else is not a plain number.
_PLAIN_STATE: Final = (None, None, None, -1, -1, 0)


class NoDataError(ValueError):
    """The file is cut off or asks for more than data."""


@dataclass(frozen=True)
class _Name:
    meaning: str


@dataclass
class _Dtype:
    code: str
    order: str = "|"


@dataclass
class _Array:
    """An array that is announced and, after its state came, whole."""

    values: np.ndarray | None = None


def known_name(module: Any, name: Any, path: Path) -> _Name:
    """What one of the few names of arrays means; any other is refused."""
    meaning = NAMES.get((module, name)) if isinstance(module, str) and isinstance(name, str) else None
    if meaning is None:
        named = ".".join(part[:80] if isinstance(part, str) else "?" for part in (module, name))
        raise DataError(
            f"{path} is refused: it contains {named}, and only arrays of whole numbers and plain containers are read"
        )
    return _Name(meaning)


def rebuilt(called: Any, arguments: Any) -> Any:
    """What stands for the result of a call: an array to come, a kind of number, bytes; every other call is refused."""
    if not isinstance(called, _Name) or not isinstance(arguments, tuple):
        raise NoDataError("it calls what is no name")
    if called.meaning == _RECONSTRUCT and len(arguments) == 3 and arguments[0] == _Name(_NDARRAY):
        return _Array()
    if called.meaning == _DTYPE and arguments and _text(arguments[0]) in WHOLE_NUMBERS:
        return _Dtype(_text(arguments[0]))
    if called.meaning == _ENCODE and len(arguments) == 2 and isinstance(arguments[0], str):
        try:
            return arguments[0].encode("latin1")
        except UnicodeEncodeError as error:
            raise NoDataError("bytes are beyond 255") from error
    raise NoDataError(f"it rebuilds something other than an array of whole numbers ({called.meaning})")


def give_state(built: Any, state: Any) -> None:
    """An array's shape and bytes, or the order of a number's bytes; any other state is refused."""
    if isinstance(built, _Dtype) and _is_plain(state):
        built.order = _text(state[1])
    elif isinstance(built, _Array) and isinstance(state, tuple) and len(state) == 5:
        built.values = _whole_array(*state[1:])
    else:
        raise NoDataError("it changes something other than an array of whole numbers")


def finished(value: Any) -> Any:
    """The array in place of what announced it, in the dictionary and the lists that the files consist of."""
    if isinstance(value, dict):
        return {key: _array(item) for key, item in value.items()}
    return _array(value)


def _array(value: Any) -> Any:
    if not isinstance(value, _Array):
        return value
    if value.values is None:
        raise NoDataError("an array has no content")
    return value.values


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("latin1")
    return value if isinstance(value, str) else ""


def _is_plain(state: Any) -> bool:
    return (
        isinstance(state, tuple)
        and len(state) == 8
        and _text(state[1]) in ("|", "<", ">")
        and state[2:] == _PLAIN_STATE
    )


def _whole_array(shape: Any, dtype: Any, fortran: Any, content: Any) -> np.ndarray:
    """Numbers [*shape] from bytes that must be exactly as many as the shape asks for."""
    if not isinstance(dtype, _Dtype) or not isinstance(content, bytes) or not isinstance(shape, tuple):
        raise NoDataError("an array's state is not one")
    if len(shape) > 8 or not all(isinstance(side, int) and 0 <= side <= len(content) for side in shape):
        raise NoDataError("an array's shape is not one")
    if math.prod(shape) * int(dtype.code[1]) != len(content):
        raise NoDataError("an array has another number of bytes than its shape")
    order = "<" if dtype.order == "|" else dtype.order
    # A copy: the array must not keep the whole file in memory.
    return np.frombuffer(content, order + dtype.code).reshape(shape, order="F" if fortran else "C").copy()
