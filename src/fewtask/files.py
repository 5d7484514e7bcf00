"""Files that are whole or not there: written beside their place, then renamed into it."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fewtask.bounds import read_bytes
from fewtask.errors import DamagedError, RunError

JSON_BYTES = 256 << 20
CHECKSUM = "sha256"
TEXTS = {"state", "fewtask", "format"}
"""What the texts of a run's files are called; "format" is what other programs write."""


def write_atomically(path: Path, write: Callable[[Path], None], keep: Path | None = None) -> None:
    """Calls `write` with a temporary path and moves the result into place; on failure the old file stays.

    keep: where the file that was there moves to, once the new one is whole.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        with temporary.open("rb") as handle:
            os.fsync(handle.fileno())
        if keep is not None and path.exists():
            os.replace(path, keep)
        os.replace(temporary, path)
    except (OSError, SafetensorError) as error:
        temporary.unlink(missing_ok=True)
        full = getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error)
        reason = "the disk is full" if full else str(error)
        raise RunError(
            f"cannot write {path}: {reason}. What was saved before is intact; make room and run the same command again"
        ) from error


def is_leftover(path: Path) -> bool:
    """Whether a file was being written when its process was killed; safetensors has temporary files of its own."""
    return path.name.startswith(".") and (path.suffix == ".part" or re.fullmatch(r"\.tmp\w{6}", path.name) is not None)


def sweep(folder: Path) -> None:
    """Removes what killed processes left half written in a folder that is this process's alone."""
    for path in folder.glob(".*"):
        if is_leftover(path):
            with contextlib.suppress(OSError):
                path.unlink()


def write_text(path: Path, text: str) -> None:
    write_atomically(path, lambda temporary: _dump(temporary, text))


def _dump(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def filled(page: str, name: str, text: str) -> str:
    """A page with a text between its marks `NAME:begin` and `NAME:end`; what stands around them stays as it is."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise RunError(f"the page has no place for this: mark it with the lines {begin} and {end}")
    return f"{before}{begin}\n{text}\n{end}{after}"


def write_json(path: Path, values: Any) -> None:
    write_text(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def one_line_each(values: Mapping[str, Any]) -> str:
    """JSON with a line for each entry: small, and a change is seen where it is."""
    lines = (f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in values.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read_json(path: Path) -> Any:
    try:
        return json.loads(read_bytes(path, JSON_BYTES))
    except FileNotFoundError:
        raise RunError(f"{path.parent} is not a run folder: it has no {path.name}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"cannot read {path}: {error}") from error


def write_tensors(
    path: Path, tensors: Mapping[str, Tensor], note: Mapping[str, str] | None = None, keep: Path | None = None
) -> None:
    """Tensors and short texts in one safetensors file, with a checksum of both among the texts."""
    plain = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    texts = dict(note or {})
    texts[CHECKSUM] = content_checksum(plain, texts)
    write_atomically(path, lambda temporary: save_file(plain, str(temporary), metadata=texts), keep)


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """What `write_tensors` wrote, compared with its checksum (files of before there was one have none)."""
    try:
        with safe_open(str(path), framework="pt") as handle:
            tensors = {name: handle.get_tensor(name) for name in handle.keys()}  # noqa: SIM118, no mapping
            texts = dict(handle.metadata() or {})
    except FileNotFoundError:
        raise RunError(f"{path} is not there") from None
    except (OSError, SafetensorError, ValueError, RuntimeError, OverflowError) as error:
        raise DamagedError(f"{path} is damaged ({error}); remove it to start that run again") from error
    stated = texts.pop(CHECKSUM, None)
    changed = stated is not None and stated != content_checksum(tensors, texts)
    # One changed letter may also have renamed the checksum.
    if changed or not texts.keys() <= TEXTS:
        raise DamagedError(f"{path} is damaged (its checksum is another); remove it to start that run again")
    return tensors, texts


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors in a safetensors file, from its header alone."""
    try:
        with safe_open(str(path), framework="pt") as handle:
            return {name: tuple(handle.get_slice(name).get_shape()) for name in handle.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, ValueError, RuntimeError, OverflowError) as error:
        raise DamagedError(f"{path} is damaged ({error}); train that run again") from error


def content_checksum(tensors: Mapping[str, Tensor], texts: Mapping[str, str]) -> str:
    """SHA-256 over names, types, shapes and bytes of tensors, and over the texts beside them."""
    sha = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name]
        sha.update(f"{name}\0{value.dtype}\0{tuple(value.shape)}\0".encode())
        sha.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    sha.update(json.dumps(dict(texts), sort_keys=True).encode())
    return sha.hexdigest()
