"""Readers of files that strangers may have made, fed with changed copies of good files.

A reader may return or refuse with a FewtaskError; anything else is a traceback that its user would see.
"""

from __future__ import annotations

import json
import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fewtask.errors import FewtaskError

TOKENS = (
    b"null",
    b"-1",
    b"1e999",
    b'"x"',
    b"[]",
    b"{}",
    b"NaN",
    b"true",
    b"\x00",
    b"\xff\xff\xff\xff",
    b"999999999999",
)
TOML_VALUES = ("1", "-1", "0", "1e308", "nan", "true", '"x"', '""', "[]", "[1]", '["x"]', "{}", "{ a = 1 }", "[[]]")
OTHER = (None, -1, 0, 1e300, float("nan"), "x", "", [], {}, True, [[]], {"a": []}, 10**30, ["x"], "../x")


@dataclass
class Target:
    """A reader, the name under which it expects its file, and a good file's content."""

    name: str
    file: str
    good: bytes
    read: Callable[[Path], Any]


@dataclass
class Outcome:
    tried: int = 0
    refused: int = 0
    tracebacks: dict[str, int] = field(default_factory=dict)

    @property
    def lost(self) -> int:
        return sum(self.tracebacks.values())


def changed(good: bytes, rng: random.Random) -> bytes:
    """A good file with one to four accidents."""
    content = bytearray(good)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(content) + 1)
        kind = rng.randrange(6)
        if kind == 0 and content:
            content[place % len(content)] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del content[place:]
        elif kind == 2:
            content[place:place] = rng.choice(TOKENS)
        elif kind == 3:
            del content[place : place + rng.randint(1, 20)]
        elif kind == 4:
            part = content[place : place + rng.randint(1, 40)]
            content[place:place] = part
        else:
            token = rng.choice(TOKENS)
            content[place : place + len(token)] = token
    return bytes(content)


def otherwise(value: Any, rng: random.Random) -> Any:
    """JSON with one entry replaced by another kind of value, taken out or doubled, at any depth."""
    if not isinstance(value, dict | list) or not value or rng.random() < 0.15:
        return rng.choice(OTHER)
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = rng.choice(keys)
    copy = dict(value) if isinstance(value, dict) else list(value)
    if rng.random() < 0.2:
        del copy[key]
    else:
        copy[key] = otherwise(value[key], rng)
    return copy


def changed_json(good: bytes, rng: random.Random) -> bytes:
    """One line of JSON, or the whole file, with an entry changed."""
    lines = good.splitlines()
    try:
        return json.dumps(otherwise(json.loads(good), rng)).encode()
    except ValueError:
        place = rng.randrange(len(lines))
        lines[place] = json.dumps(otherwise(json.loads(lines[place]), rng)).encode()
        return b"\n".join(lines)


def changed_toml(good: bytes, rng: random.Random) -> bytes:
    """One to three lines with another value, another key, taken out or doubled."""
    lines = good.decode().splitlines()
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(len(lines))
        key, equals, value = lines[place].partition(" = ")
        kind = rng.randrange(4)
        if kind == 0 and len(lines) > 1:
            del lines[place]
        elif kind == 1 and equals:
            others = [line.partition(" = ")[0] for line in lines if " = " in line]
            lines[place] = f"{rng.choice(others)} = {value}"
        elif kind == 2 and not equals:
            lines[place] = rng.choice(["[[x]]", "[methods]", "[methods.x]", "[rows]", "[train.steps]", "[set]", ""])
        else:
            lines[place] = f"{key} = {rng.choice(TOML_VALUES)}"
    return "\n".join(lines).encode()


def another(path: Path, good: bytes, rng: random.Random) -> bytes:
    """A changed copy: of its bytes, or, for most copies of texts that have a grammar, of what they say."""
    by_meaning = {".json": changed_json, ".jsonl": changed_json, ".toml": changed_toml}.get(path.suffix)
    return by_meaning(good, rng) if by_meaning is not None and rng.random() < 0.7 else changed(good, rng)


def fuzz(targets: list[Target], count: int, folder: Path, seed: int = 0) -> dict[str, Outcome]:
    """`count` inputs, shared out evenly; what a reader fails on is kept in the folder as lost-NAME."""
    outcomes = {target.name: Outcome() for target in targets}
    rng = random.Random(seed)
    for number in range(count):
        target = targets[number % len(targets)]
        outcome = outcomes[target.name]
        path = folder / target.name / target.file
        path.parent.mkdir(parents=True, exist_ok=True)
        content = another(path, target.good, rng)
        path.write_bytes(content)
        outcome.tried += 1
        try:
            target.read(path)
        except FewtaskError:
            outcome.refused += 1
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{type(error).__name__} in {Path(frame.filename).name}:{frame.lineno}"
            outcome.tracebacks[where] = outcome.tracebacks.get(where, 0) + 1
            (folder / f"lost-{target.name}-{frame.lineno}").write_bytes(content)
    return outcomes
