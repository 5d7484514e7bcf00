"""Files that are whole or not there: written beside their place, then renamed into it."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from fewtask.errors import RunError


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Calls `write` with a temporary path and moves the result into place; on failure the old file stays."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        with temporary.open("rb") as handle:
            os.fsync(handle.fileno())
        os.replace(temporary, path)
    except (OSError, SafetensorError) as error:
        temporary.unlink(missing_ok=True)
        full = getattr(error, "errno", None) == errno.ENOSPC or "No space left" in str(error)
        reason = "the disk is full" if full else str(error)
        raise RunError(
            f"cannot write {path}: {reason}. What was saved before is intact; make room and run the same command again"
        ) from error


def write_text(path: Path, text: str) -> None:
    write_atomically(path, lambda temporary: _dump(temporary, text))


def _dump(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def write_json(path: Path, values: Any) -> None:
    write_text(path, json.dumps(values, indent=2, ensure_ascii=False) + "\n")


def one_line_each(values: Mapping[str, Any]) -> str:
    """JSON with a line for each entry: small, and a change is seen where it is."""
    lines = (f"  {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in values.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunError(f"{path.parent} is not a run folder: it has no {path.name}") from None
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {path}: {error}") from error


def write_tensors(path: Path, tensors: Mapping[str, Tensor], note: Mapping[str, str] | None = None) -> None:
    """Tensors and short texts in one safetensors file."""
    plain = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    write_atomically(path, lambda temporary: save_file(plain, str(temporary), metadata=dict(note or {})))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    try:
        with safe_open(str(path), framework="pt") as handle:
            names = handle.keys()
            return {name: handle.get_tensor(name) for name in names}, dict(handle.metadata() or {})
    except FileNotFoundError:
        raise RunError(f"{path} is not there") from None
    except (OSError, SafetensorError, ValueError) as error:
        raise RunError(f"{path} is damaged ({error}); remove it to start that run again") from error
