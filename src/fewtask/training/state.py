"""Everything that the next step depends on, and its way to a file and back.

One safetensors file holds it all: weights, buffers, both optimisers, the averaged and the selected weights and
torch's random state as tensors; counters, schedules and the sampler's generators as JSON in its header. Nothing
is pickled.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from fewtask.errors import DamagedError, RunError
from fewtask.files import read_tensors, write_tensors
from fewtask.methods import Method
from fewtask.sampler import EpisodeSampler


@dataclass
class Best:
    """The selected weights: those with the highest accuracy on meta-validation."""

    step: int = -1
    accuracy: float = -1.0
    loss: float = float("nan")
    weights: dict[str, Tensor] = field(default_factory=dict)


@dataclass
class TrainingState:
    method: Method
    optimiser: Optimizer
    schedule: LambdaLR
    hyper_optimiser: Optimizer | None
    hyper_schedule: LambdaLR | None
    sampler: EpisodeSampler
    outer_sampler: EpisodeSampler
    average: dict[str, Tensor]
    """Exponential average of θ; empty where it is off."""
    sums: Tensor
    """Since the last line of the history: loss, accuracy and squared gradient norm added up, and their number."""
    best: Best = field(default_factory=Best)
    solution: list[Tensor] = field(default_factory=list)
    """What the next hypergradient starts from; empty where it starts cold."""
    step: int = 0
    seconds: float = 0.0

    def save(self, path: Path, history: Sequence[dict[str, Any]] = ()) -> None:
        """Writes a checkpoint and the rows of the history up to it; the one before stays beside it."""
        tensors: dict[str, Tensor] = {f"model/{k}": v for k, v in self.method.state_dict().items()}
        tensors |= {f"average/{k}": v for k, v in self.average.items()}
        tensors |= {f"best/{k}": v for k, v in self.best.weights.items()}
        tensors |= {f"solution/{i}": v for i, v in enumerate(self.solution)}
        tensors["sums"] = self.sums
        tensors["random/cpu"] = torch.get_rng_state()
        if self.sums.is_cuda:
            tensors["random/cuda"] = torch.cuda.get_rng_state(self.sums.device)
        plain: dict[str, Any] = {
            "step": self.step,
            "solution": len(self.solution),
            "seconds": self.seconds,
            "history": list(history),
            "best": {"step": self.best.step, "accuracy": self.best.accuracy, "loss": self.best.loss},
            "sampler": self.sampler.state(),
            "outer_sampler": self.outer_sampler.state(),
        }
        for name, optimiser, schedule in self._pairs():
            saved, numbers = _flatten(optimiser)
            tensors |= {f"{name}/{key}": value for key, value in saved.items()}
            plain[name] = numbers
            plain[f"{name}_updates"] = schedule.last_epoch
        write_tensors(path, tensors, {"state": json.dumps(plain)}, keep=previous(path))

    def resume(self, path: Path) -> list[dict[str, Any]]:
        """Continues from a checkpoint or, if it is damaged, from the one before, saying so.

        Returns the history up to there; without a checkpoint the state stays as it is new.
        """
        damaged = []
        for candidate in (path, previous(path)):
            if not candidate.exists():
                continue
            try:
                rows = self.load(candidate)
            except DamagedError as error:
                damaged.append(error)
                continue
            if damaged:
                warnings.warn(f"{path} is damaged: going back to step {self.step}, the checkpoint before", stacklevel=2)
            return rows
        if len(damaged) == 2:
            raise DamagedError(
                f"{path} and {previous(path).name} are both damaged; remove them to start that run again"
            )
        if damaged:
            raise damaged[0]
        return []

    def load(self, path: Path) -> list[dict[str, Any]]:
        """Takes the state of a checkpoint; returns the history up to it."""
        tensors, note = read_tensors(path)
        try:
            plain = json.loads(note["state"])
            self.method.load_state_dict(_below(tensors, "model/"))
            self.average = _below(tensors, "average/")
            best = plain["best"]
            self.best = Best(best["step"], best["accuracy"], best["loss"], _below(tensors, "best/"))
            self.solution = [tensors[f"solution/{i}"].to(self.sums.device) for i in range(plain.get("solution", 0))]
            self.sums = tensors["sums"].to(self.sums.device)
            self.step, self.seconds = plain["step"], plain["seconds"]
            self.sampler.set_state(plain["sampler"])
            self.outer_sampler.set_state(plain["outer_sampler"])
            for name, optimiser, schedule in self._pairs():
                _restore(optimiser, _below(tensors, f"{name}/"), plain[name])
                _advance(schedule, plain[f"{name}_updates"])
            torch.set_rng_state(tensors["random/cpu"])
            if "random/cuda" in tensors and self.sums.is_cuda:
                torch.cuda.set_rng_state(tensors["random/cuda"], self.sums.device)
            rows: list[dict[str, Any]] = plain["history"]
            return rows
        except (KeyError, RuntimeError, ValueError, TypeError, AttributeError, IndexError) as error:
            raise RunError(f"{path} is not a checkpoint of this run ({error}); remove it to start again") from error

    def _pairs(self) -> list[tuple[str, Optimizer, LambdaLR]]:
        pairs = [("optimiser", self.optimiser, self.schedule)]
        if self.hyper_optimiser is not None and self.hyper_schedule is not None:
            pairs.append(("hyper_optimiser", self.hyper_optimiser, self.hyper_schedule))
        return pairs


def previous(path: Path) -> Path:
    """Where the checkpoint before the newest is."""
    return path.with_name(f"previous-{path.name}")


def remove_checkpoints(path: Path) -> None:
    """When a run is finished, nothing is left to go on from."""
    previous(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def _below(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _flatten(optimiser: Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimiser's state as named tensors, and the learning rates as JSON."""
    saved = optimiser.state_dict()
    tensors = {
        f"{index}/{key}": value if isinstance(value, Tensor) else torch.tensor(value)
        for index, entries in saved["state"].items()
        for key, value in entries.items()
        if value is not None
    }
    return tensors, {"lr": [group["lr"] for group in saved["param_groups"]]}


def _restore(optimiser: Optimizer, tensors: dict[str, Tensor], plain: dict[str, Any]) -> None:
    saved = optimiser.state_dict()
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        index, key = name.split("/")
        state.setdefault(int(index), {})[key] = value
    saved["state"] = state
    for group, lr in zip(saved["param_groups"], plain["lr"]):
        group["lr"] = lr
    optimiser.load_state_dict(saved)


def _advance(schedule: LambdaLR, updates: int) -> None:
    """Puts a schedule where it was after so many updates."""
    values = schedule.state_dict()
    rates = [base * fn(updates) for base, fn in zip(schedule.base_lrs, schedule.lr_lambdas)]
    values.update(last_epoch=updates, _last_lr=rates, _step_count=updates + 1)
    schedule.load_state_dict(values)
