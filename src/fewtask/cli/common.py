"""What several commands share."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro
from rich.console import Console
from rich.progress import track

from fewtask.errors import SettingsError

T = TypeVar("T")
PluginFiles = Annotated[tuple[Path, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="FILE.py")]
"""Type of the flag --plugin, which `fewtask.cli.main` heeds before a command is chosen."""
PLAIN_WIDTH = 200


def parse(kind: type[T], argv: list[str], prog: str, description: str | None = None, default: T | None = None) -> T:
    """Flags from a dataclass; a wrong flag prints what is known and exits with 2."""
    if default is None:
        return tyro.cli(kind, args=argv, prog=prog, description=description)
    return tyro.cli(kind, args=argv, prog=prog, description=description, default=default)


def make_console(stderr: bool = False) -> Console:
    """A console; without a terminal rich assumes 80 columns, which breaks a table into syllables."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr) if stream.isatty() else Console(stderr=stderr, width=PLAIN_WIDTH)


def progress_on(console: Console) -> Any:
    """Progress bars on a terminal, nothing elsewhere."""

    def progress(items: Iterable[T], what: str, total: int | None = None) -> Iterator[T]:
        if not console.is_terminal:
            return iter(items)
        return iter(track(items, description=what, total=total, console=console))

    return progress


def choose_device(name: str) -> str:
    """ "auto" is a GPU where there is one."""
    import torch

    if name == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "cpu"
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise SettingsError(f"device '{name}' cannot be used here ({reason}); try --device auto") from error
    return name
