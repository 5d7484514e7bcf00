"""The whole benchmark, within a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fewtask.bench import cases
from fewtask.bench.sizes import Size, get_size

GOAL_SIZES = ("tox21", "esc50")
"""Sizes with goals: at least two rounds of steps, a profile, equality on whole episodes, and always a hyper-update
(half a minute at image sizes)."""


def run(
    names: Sequence[str],
    seconds: float,
    full: bool = False,
    tell: Callable[[str], None] = lambda text: None,
    small: bool = False,
) -> dict[str, Any]:
    """All measurements; `seconds` is shared between them, and each makes at least one round however short it is.

    full: hyper-updates of every size. small: everything at the sizes of tests.
    """

    def sized(name: str) -> Size:
        return get_size(name).small() if small else get_size(name)

    # What has to be done once takes most of a hundred seconds already.
    share = seconds / 100
    results: dict[str, Any] = {"sizes": {}}
    for name in names:
        size, goals = sized(name), name in GOAL_SIZES and not small
        tell(f"{size.title}: steps, evaluation, equality")
        found = {
            "steps": cases.step_times(size, share, 2 if goals else 1, profiled=goals),
            "evaluation": cases.evaluation_times(size, 30 if small else 3000),
            "equality": cases.equality(size, whole=goals),
        }
        if full or small or goals:
            tell(f"{size.title}: hyper-update")
            found["hyper"] = cases.hyper_times(size, share)
        results["sizes"][name] = found
    if small:
        return results
    tell("memory, and growth with shot, way, d_h and q")
    watched = cases.start_memory("esc50")
    results["growth"] = cases.growth(get_size("esc50"), share)
    results["memory"] = cases.peak_memory(watched)
    return results
