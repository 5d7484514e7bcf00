"""One figure: step times of the sizes, and how they grow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fewtask import plotting
from fewtask.bench.sizes import get_size
from fewtask.plotting import method_colour

COLOURS = {
    "plain": "#555555",
    "all": method_colour("meta-interpolation"),
    "matched": "#E69F00",
    "protonet": method_colour("protonet"),
}
LABELS = {"plain": "plain transcription", "all": "all pairs", "matched": "matched pairs", "protonet": "ProtoNet"}


def draw(results: dict[str, Any], path: Path) -> None:
    growth = results.get("growth", {})

    def paint(plt: Any) -> Any:
        figure, axes = plt.subplots(
            1, 1 + len(growth), figsize=(5.2 + 2.1 * len(growth), 3.4), width_ratios=[2.4] + [1.0] * len(growth)
        )
        axes = list(axes) if growth else [axes]
        _steps(axes[0], results["sizes"])
        for axis, (what, values) in zip(axes[1:], growth.items()):
            _growth(axis, what, values)
        figure.legend(loc="upper center", ncols=4, fontsize=9)
        figure.tight_layout(rect=(0, 0, 1, 0.93))
        return figure

    plotting.draw(paint, path)


def _steps(axis: Any, sizes: dict[str, Any]) -> None:
    width = 0.2
    for place, key in enumerate(COLOURS):
        milliseconds = [1e3 * found["steps"]["times"][key] for found in sizes.values()]
        where = [i + (place - 1.5) * width for i in range(len(sizes))]
        axis.bar(where, milliseconds, width, color=COLOURS[key], label=LABELS[key])
        for x, y in zip(where, milliseconds):
            axis.text(x, y * 1.06, f"{y:.0f}", ha="center", fontsize=6)
    axis.set_yscale("log")
    axis.set_xticks(range(len(sizes)), [get_size(name).title for name in sizes], fontsize=8)
    axis.set_ylabel("a step, ms")


def _growth(axis: Any, what: str, values: dict[str, Any]) -> None:
    for key, mark in (("all", "o-"), ("matched", "s--")):
        points = [(int(value), 1e3 * times[key]) for value, times in values.items() if key in times]
        if points:
            axis.plot(*zip(*points), mark, color=COLOURS[key], markersize=4)
    axis.set_xticks([int(value) for value in values])
    axis.tick_params(labelsize=7)
    axis.set_xlabel(what if what != "q" else "q (hyper-update)")
    axis.set_ylim(bottom=0)
