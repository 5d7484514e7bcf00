"""A progress bar where there is a terminal, and silence where there is none."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class TrainingProgress:
    """Shows loss, accuracies, speed and time left."""

    def __init__(self, label: str, steps: int, done: int, show: bool | None = None) -> None:
        show = sys.stderr.isatty() if show is None else show
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not show,
            transient=True,
        )
        self.task = self.bar.add_task(label, total=steps, completed=done, note="")
        self.parts: dict[str, str] = {}

    def __enter__(self) -> TrainingProgress:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def advance(self) -> None:
        self.bar.advance(self.task)

    def show(self, row: dict[str, Any]) -> None:
        """Takes the numbers of a line of the history."""
        if "loss" in row:
            self.parts["loss"] = f"loss {row['loss']:.3f}"
            self.parts["speed"] = f"{row['steps_per_second']:.1f} steps/s"
        if "validation_accuracy" in row:
            self.parts["validation"] = f"validation {100 * row['validation_accuracy']:.1f} %"
        self.bar.update(self.task, note=" · ".join(self.parts.values()))
