"""Progress bars on the error stream, which go when the work is done."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn


class Bars:
    """What, how far, and then the columns given; nothing where it is not to be shown."""

    def __init__(self, *more: ProgressColumn, show: bool, console: Console | None = None) -> None:
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            *more,
            console=console or Console(stderr=True),
            disable=not show,
            transient=True,
        )

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()
