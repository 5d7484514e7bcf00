"""CIFAR's files, which are pickles, read as the data they hold: no name in them is looked up and nothing is called.

A pickle is a program for a stack machine. The publisher's use two dozen of its operations: plain values, containers,
and arrays in numpy's own words for "rebuild this array". Here those words only select what a parser of this file
makes itself, an array of whole numbers whose bytes are all in the file. Any other operation, name or kind of number
is refused, so that bytes of a file can become neither code nor pointers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from fewtask.bounds import read_bytes
from fewtask.datasets.pickled_arrays import NoDataError, finished, give_state, known_name, rebuilt
from fewtask.errors import DataError

_MARK: Final = object()


def read_pickle(path: Path) -> Any:
    """Plain containers and arrays of whole numbers; texts that Python 2 wrote are bytes."""
    try:
        return finished(_Parser(read_bytes(path), path).run())
    except (NoDataError, struct.error, IndexError, UnicodeDecodeError, MemoryError) as error:
        raise DataError(f"{path} is damaged or is no pickle of plain data ({error}): fetch it again") from error


class _Parser:
    """The operations that hold data, each a method; `OPERATIONS` maps their bytes to them."""

    def __init__(self, content: bytes, path: Path) -> None:
        self.content, self.path = content, path
        self.at = 0
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        while True:
            code = self._take(1)
            if code == b".":
                return self._pop()
            operation = OPERATIONS.get(code)
            if operation is None:
                raise NoDataError(f"operation {code!r} at byte {self.at - 1} does not belong to data")
            operation(self)

    def _take(self, count: int) -> bytes:
        taken = self.content[self.at : self.at + count]
        if len(taken) != count:
            raise NoDataError("it is cut off")
        self.at += count
        return taken

    def _number(self, form: str) -> int:
        value: int = struct.unpack(form, self._take(struct.calcsize(form)))[0]
        return value

    def _line(self) -> str:
        end = self.content.index(b"\n", self.at) if b"\n" in self.content[self.at : self.at + 200] else -1
        if end < 0:
            raise NoDataError("a name does not end")
        return self._take(end + 1 - self.at)[:-1].decode("ascii")

    def _pop(self) -> Any:
        value = self.stack.pop()
        if value is _MARK:
            raise NoDataError("a container ends before it begins")
        return value

    def _since_mark(self) -> list[Any]:
        for place in range(len(self.stack) - 1, -1, -1):
            if self.stack[place] is _MARK:
                items = self.stack[place + 1 :]
                del self.stack[place:]
                return items
        raise NoDataError("a container ends before it begins")

    def skip(self, count: int) -> None:
        self._take(count)

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def integer(self, form: str) -> None:
        self.stack.append(self._number(form))

    def long(self) -> None:
        self.stack.append(int.from_bytes(self._take(self._number("<B")), "little", signed=True))

    def binary(self, form: str) -> None:
        self.stack.append(self._take(self._number(form)))

    def text(self, form: str) -> None:
        self.stack.append(self._take(self._number(form)).decode("utf-8"))

    def tuple_of(self, count: int) -> None:
        items = [self._pop() for _ in range(count)]
        self.stack.append(tuple(reversed(items)))

    def marked_tuple(self) -> None:
        self.stack.append(tuple(self._since_mark()))

    def append(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise NoDataError("something is added to what is no list")
        self.stack[-1].extend(items)

    def set_items(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], dict) or len(items) % 2:
            raise NoDataError("something is set in what is no dictionary")
        for key, value in zip(items[::2], items[1::2]):
            if not isinstance(key, bytes | str | int):
                raise NoDataError("a key is neither a text nor a number")
            self.stack[-1][key] = value

    def remember(self, number: int) -> None:
        self.memo[number] = self.stack[-1]

    def recall(self, number: int) -> None:
        if number not in self.memo:
            raise NoDataError(f"value {number} is used before it is there")
        self.stack.append(self.memo[number])

    def name(self, module: Any, name: Any) -> None:
        self.stack.append(known_name(module, name, self.path))

    def stacked_name(self) -> None:
        name, module = self._pop(), self._pop()
        self.name(module, name)

    def reduce(self) -> None:
        """What a name would be called with decides what is made; every other call is refused."""
        arguments, called = self._pop(), self._pop()
        self.stack.append(rebuilt(called, arguments))

    def build(self) -> None:
        state = self._pop()
        give_state(self.stack[-1], state)


OPERATIONS: Final[dict[bytes, Callable[[_Parser], None]]] = {
    b"\x80": lambda p: p.skip(1),  # PROTO
    b"\x95": lambda p: p.skip(8),  # FRAME
    b"N": lambda p: p.push(None),
    b"\x88": lambda p: p.push(True),
    b"\x89": lambda p: p.push(False),
    b"K": lambda p: p.integer("<B"),
    b"M": lambda p: p.integer("<H"),
    b"J": lambda p: p.integer("<i"),
    b"\x8a": _Parser.long,
    b"U": lambda p: p.binary("<B"),
    b"T": lambda p: p.binary("<I"),
    b"C": lambda p: p.binary("<B"),
    b"B": lambda p: p.binary("<I"),
    b"\x8e": lambda p: p.binary("<Q"),
    b"\x8c": lambda p: p.text("<B"),
    b"X": lambda p: p.text("<I"),
    b"(": lambda p: p.push(_MARK),
    b")": lambda p: p.push(()),
    b"\x85": lambda p: p.tuple_of(1),
    b"\x86": lambda p: p.tuple_of(2),
    b"\x87": lambda p: p.tuple_of(3),
    b"t": _Parser.marked_tuple,
    b"]": lambda p: p.push([]),
    b"a": lambda p: p.append([p._pop()]),
    b"e": lambda p: p.append(p._since_mark()),
    b"}": lambda p: p.push({}),
    b"s": lambda p: p.set_items([p._pop(), p._pop()][::-1]),
    b"u": lambda p: p.set_items(p._since_mark()),
    b"q": lambda p: p.remember(p._number("<B")),
    b"r": lambda p: p.remember(p._number("<I")),
    b"\x94": lambda p: p.remember(len(p.memo)),
    b"h": lambda p: p.recall(p._number("<B")),
    b"j": lambda p: p.recall(p._number("<I")),
    b"c": lambda p: p.name(p._line(), p._line()),
    b"\x93": _Parser.stacked_name,
    b"R": _Parser.reduce,
    b"b": _Parser.build,
}
