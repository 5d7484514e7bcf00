"""A run's cost as a sentence, and as a refusal where memory does not suffice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fewtask.cost.estimate import Cost, CostUnknownError, estimate_cost
from fewtask.cost.machine import Machine, free_memory
from fewtask.errors import SettingsError
from fewtask.methods import get_method, make_method
from fewtask.settings import RunSettings, update

UNMEASURED = Machine(1.0, 1.0, 1.0, 1.0)
"""Rates for estimates of memory alone."""


def describe(cost: Cost, settings: RunSettings) -> str:
    """One sentence: memory, seconds of a step, of a hyper-update and of the whole training."""
    whole = settings.train.steps * cost.step_seconds
    parts = [f"about {gigabytes(cost.memory)} of memory", f"{duration(cost.step_seconds)} a step"]
    if cost.update_seconds:
        updates = settings.train.steps // settings.hyper_period
        whole += updates * cost.update_seconds
        parts.append(f"{duration(cost.update_seconds)} a hyper-update")
    return f"{', '.join(parts)}: {duration(whole)} for {settings.train.steps:,} steps, without validation"


def foretell(settings: RunSettings, input_shape: tuple[int, ...], device: str = "cpu") -> str:
    """Memory and time of a run in one sentence, before they are spent; one that does not fit is refused."""
    try:
        cost = estimate_cost(settings, input_shape, device=device)
    except CostUnknownError as error:
        return str(error)
    check_memory(settings, input_shape, cost, device)
    return f"{settings.method}: {describe(cost, settings)}"


def check_memory(settings: RunSettings, input_shape: tuple[int, ...], cost: Cost, device: str = "cpu") -> None:
    """Refuses a run that needs more memory than is free, with a setting that would fit."""
    free = free_memory(device)
    if free is None or cost.memory <= free:
        return
    for changes in _smaller(settings):
        try:
            changed = update(settings, changes)
            method = make_method(changed, input_shape) if changed.train.pieces > 1 else None
            if method is not None and not method.separable:
                continue
            memory = estimate_cost(changed, input_shape, machine=UNMEASURED).memory
        except (SettingsError, CostUnknownError):
            continue
        if memory <= free:
            hint = f"with {_flags(changes)} it would need {gigabytes(memory)}"
            break
    else:
        hint = "a smaller encoder or fewer rows an episode would need less"
    raise SettingsError(f"this run needs about {gigabytes(cost.memory)}, and {gigabytes(free)} are free: {hint}")


def _smaller(settings: RunSettings) -> Iterator[dict[str, Any]]:
    """Changes that save memory, those first that change least of what is computed."""
    groups = get_method(settings.method).groups
    batch = settings.episode.batch
    if batch > 1:
        yield {"train": {"pieces": batch}}
    if "hyper" in groups:
        yield {"hyper": {"estimator": "finite-difference"}}
        if batch > 1:
            yield {"hyper": {"estimator": "finite-difference"}, "train": {"pieces": batch}}
        yield {"hyper": {"estimator": "direct"}}
    if "interpolation" in groups and settings.interpolation.pairs == "all":
        yield {"interpolation": {"pairs": "matched"}}
        yield {"interpolation": {"pairs": "matched"}, "hyper": {"estimator": "finite-difference"}}
    if "set_function" in groups:
        yield {"set_function": {"name": "mean"}}
    while batch > 1:
        batch //= 2
        yield {"episode": {"batch": batch}}
    yield {"encoder": {"width": max(1, settings.encoder.width // 4)}}


def _flags(changes: Mapping[str, Mapping[str, Any]]) -> str:
    return " ".join(f"--{group}.{name} {value}" for group, values in changes.items() for name, value in values.items())


def gigabytes(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.0f} MB"


def duration(seconds: float) -> str:
    """Seconds with the unit that people would use."""
    for unit, size in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{1e3 * seconds:.0f} ms"
