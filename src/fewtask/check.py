"""Does a method learn on a data set at the paper's sizes, and what does it cost here?

A check runs the preset's own settings with only the number of steps and the period of hyper-updates lowered, and
looks at the two things that would be wrong first: a training loss that does not fall, and a λ that stays put.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fewtask.cost.machine import peak_memory
from fewtask.datasets.base import Progress, quiet
from fewtask.datasets.cache import load_dataset
from fewtask.errors import SettingsError
from fewtask.evaluation import prepare
from fewtask.methods import Method, make_method
from fewtask.presets import load_preset
from fewtask.settings import RunSettings, update
from fewtask.training.loop import new_state, training_step

LEAST_STEPS = 3
"""So that the first and the last third of the steps are different ones."""
LEAST_UPDATES = 2
LEAST_FALL = 2.0
"""Standard errors by which the loss must fall: training that goes wrong can still drift down by one or so."""


@dataclass(frozen=True)
class CheckRow:
    """What one run of a method on a data set showed.

    first_loss:    mean training loss of the first third of the steps; last_loss of the last third.
    noise:         standard error of their difference, from the scatter of the losses within each third.
    lambda_change: largest change of a number in λ from the start to the end; None where a method has no λ.
    step_ms:       median of the steps without a hyper-update.
    hyper_ms:      median of the steps with one, the step itself included; None where there is none.
    peak_mb:       most memory that the process has held so far, its data included.
    """

    preset: str
    method: str
    steps: int
    first_loss: float
    last_loss: float
    noise: float
    hyper_updates: int
    lambda_change: float | None
    step_ms: float
    hyper_ms: float | None
    peak_mb: float
    threads: int

    def problems(self) -> list[str]:
        """What is wrong, a sentence each; nothing where the method learns."""
        found = []
        if not (math.isfinite(self.first_loss) and math.isfinite(self.last_loss)):
            found.append(f"the training loss is not finite ({self.first_loss:g}, then {self.last_loss:g})")
        elif self.first_loss - self.last_loss <= LEAST_FALL * self.noise:
            found.append(
                f"the training loss does not fall in {self.steps} steps: {self.first_loss:.4f} in the first third, "
                f"{self.last_loss:.4f} in the last, where {LEAST_FALL:g} standard errors are "
                f"{LEAST_FALL * self.noise:.4f}"
            )
        return found + self.lambda_problems()

    def lambda_problems(self) -> list[str]:
        if self.lambda_change is None:
            return []
        found = []
        if self.hyper_updates < LEAST_UPDATES:
            found.append(f"{self.hyper_updates} hyper-updates in {self.steps} steps, and {LEAST_UPDATES} are needed")
        if not math.isfinite(self.lambda_change):
            found.append("λ is not finite after the hyper-updates")
        elif self.lambda_change == 0:
            found.append(f"λ has not changed after {self.hyper_updates} hyper-updates")
        return found


def check(
    preset: str,
    method: str,
    steps: int,
    period: int,
    *,
    changes: Mapping[str, Any] | None = None,
    data_dir: str | Path | None = None,
    raw_dir: str | Path | None = None,
    progress: Progress = quiet,
) -> CheckRow:
    """Trains for so many steps with a hyper-update every `period`; `changes` replaces further settings."""
    if steps < LEAST_STEPS:
        raise SettingsError(f"a check of {steps} steps shows nothing: at least {LEAST_STEPS} are needed")
    settings = update(load_preset(preset, method), changes or {})
    settings = update(settings, {"train": {"steps": steps}, "hyper": {"period": period}})
    dataset = load_dataset(settings.dataset, settings.data, data_dir=data_dir, raw_dir=raw_dir, progress=progress)
    pools = dataset.pools(settings.data, settings.episode.way)
    model = _fresh(settings, pools.input_shape)
    model.check(pools.train, pools.outer)
    prepare(model, pools)
    model.train()
    state = new_state(model, pools.train, pools.outer)
    losses: list[float] = []
    plain: list[float] = []
    hyper: list[float] = []
    for _ in range(steps):
        started = time.perf_counter()
        row = training_step(state)
        (plain if row is None else hyper).append(1_000 * (time.perf_counter() - started))
        losses.append(float(state.sums[0]))
        state.sums.zero_()
    first, last = np.array_split(losses, 3)[0], np.array_split(losses, 3)[-1]
    # Before λ's start is made again below, which would count as memory of the run.
    peak = peak_memory() / 2**20
    return CheckRow(
        preset=preset,
        method=method,
        steps=steps,
        first_loss=float(first.mean()),
        last_loss=float(last.mean()),
        noise=math.sqrt(first.var() / len(first) + last.var() / len(last)),
        hyper_updates=len(hyper),
        lambda_change=_largest_change(model, dataset.input_shape),
        step_ms=_median(plain),
        hyper_ms=_median(hyper) if hyper else None,
        peak_mb=peak,
        threads=torch.get_num_threads(),
    )


def _fresh(settings: RunSettings, input_shape: tuple[int, ...]) -> Method:
    torch.manual_seed(settings.seed)
    return make_method(settings, input_shape)


def _largest_change(model: Method, input_shape: tuple[int, ...]) -> float | None:
    """Against λ as the seed makes it: a copy kept from the start would be 450 MB on the largest data set."""
    if not model.outer():
        return None
    start = _fresh(model.settings, input_shape).outer()
    return max(float((now.detach() - then.detach()).abs().max()) for now, then in zip(model.outer(), start))


def _median(times: Sequence[float]) -> float:
    return float(np.median(times)) if times else float("nan")
