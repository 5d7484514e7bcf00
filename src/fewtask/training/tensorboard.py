"""Live logs for TensorBoard, from the lines of the history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fewtask.errors import SettingsError


@contextmanager
def tensorboard_log(folder: Path | None) -> Iterator[Callable[[dict[str, Any]], None] | None]:
    """A function that takes each line of the history, or None where no folder is given."""
    if folder is None:
        yield None
        return
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise SettingsError('--tensorboard needs TensorBoard: pip install "fewtask[tensorboard]"') from error
    writer = SummaryWriter(str(folder))

    def write(row: dict[str, Any]) -> None:
        for name, value in scalars(row).items():
            writer.add_scalar(name, value, row["step"])

    try:
        yield write
    finally:
        writer.close()


def scalars(row: dict[str, Any]) -> dict[str, float]:
    """The numbers of a line by their place in TensorBoard."""
    names = {
        "loss": "train/loss",
        "accuracy": "train/accuracy",
        "gradient_norm": "train/gradient_norm",
        "lr": "train/lr",
        "steps_per_second": "speed/steps_per_second",
        "validation_loss": "validation/loss",
        "validation_accuracy": "validation/accuracy",
    }
    found = {place: float(row[key]) for key, place in names.items() if key in row}
    hyper = row.get("hyper", {})
    found |= {f"hyper/{key}": float(hyper[key]) for key in ("direct", "indirect", "diverged") if key in hyper}
    return found
