"""A progress bar where there is a terminal, and silence where there is none."""

from __future__ import annotations

import sys
from typing import Any

from rich.progress import TextColumn, TimeRemainingColumn

from fewtask.bars import Bars


class TrainingProgress(Bars):
    """Shows loss, accuracies, speed and time left."""

    def __init__(self, label: str, steps: int, done: int, show: bool | None = None) -> None:
        show = sys.stderr.isatty() if show is None else show
        super().__init__(TextColumn("{task.fields[note]}"), TimeRemainingColumn(), show=show)
        self.task = self.bar.add_task(label, total=steps, completed=done, note="")
        self.parts: dict[str, str] = {}

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
