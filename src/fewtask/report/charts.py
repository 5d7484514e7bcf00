"""Small charts as inline SVG, without a plotting library.

A method has the same colour in every chart and in every other figure; lines also differ in dash. Every point carries
its numbers as a title.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from fewtask.experiments.pictures import nice_ticks
from fewtask.experiments.tables import OURS
from fewtask.plotting import METHOD_COLOURS, method_colour, method_width

WIDTH, HEIGHT = 360, 230
LEFT, RIGHT, TOP, BOTTOM = 44, 8, 24, 34
DASHES = ("", "7 3", "8 3 2 3", "2 3", "12 3", "4 2", "10 3 2 3 2 3", "1 2", "6 6")
HOVERED = 30
MAP = 320


@dataclass(frozen=True)
class Line:
    """points: (x, y, half-width of the interval or 0); the method decides on its colour and dash."""

    name: str
    points: Sequence[tuple[float, float, float]]
    method: str


@dataclass(frozen=True)
class _Axes:
    x: tuple[float, float]
    y: tuple[float, float]

    def at(self, x: float, y: float) -> tuple[str, str]:
        across = LEFT + (x - self.x[0]) / ((self.x[1] - self.x[0]) or 1) * (WIDTH - LEFT - RIGHT)
        down = HEIGHT - BOTTOM - (y - self.y[0]) / ((self.y[1] - self.y[0]) or 1) * (HEIGHT - TOP - BOTTOM)
        return f"{across:.1f}", f"{down:.1f}"


def line_chart(title: str, x_label: str, lines: Sequence[Line], *, from_zero: bool, unit: str = "") -> str:
    """An SVG element, or nothing without a point."""
    points = [point for line in lines for point in line.points]
    if not points:
        return ""
    low, high = min(y - e for _, y, e in points), max(y + e for _, y, e in points)
    y_ticks = nice_ticks(0.0 if from_zero else low, high)
    x_ticks = _x_ticks(points)
    axes = _Axes((x_ticks[0], x_ticks[-1]), (y_ticks[0], y_ticks[-1]))
    parts = [f'<text class="title" x="{LEFT}" y="14">{escape(title)}</text>']
    for tick in y_ticks:
        x, y = axes.at(axes.x[0], tick)
        parts.append(f'<path class="rule" d="M{x} {y}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 5}" y="{float(y) + 3.5:.1f}" text-anchor="end">{tick:g}</text>')
    for index, tick in enumerate(x_ticks):
        x, y = axes.at(tick, axes.y[0])
        anchor = "end" if index == len(x_ticks) - 1 else "middle"
        parts.append(f'<text x="{x}" y="{float(y) + 14:.1f}" text-anchor="{anchor}">{tick:,g}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle:.0f}" y="{HEIGHT - 4}" text-anchor="middle">{escape(x_label)}</text>')
    parts += [_line(line, axes, x_label, unit) for line in lines if line.points]
    return _svg(title, WIDTH, HEIGHT, parts)


def _x_ticks(points: Sequence[tuple[float, float, float]]) -> list[float]:
    values = sorted({x for x, _, _ in points})
    if len(values) <= 6 and all(value == int(value) and value < 20 for value in values):
        # A handful of counts, such as set sizes: each is a tick.
        return values
    return nice_ticks(0.0, values[-1])


def _line(line: Line, axes: _Axes, x_label: str, unit: str) -> str:
    name = escape(line.name)
    places = [axes.at(x, y) for x, y, _ in line.points]
    path = "M" + "L".join(f"{x} {y}" for x, y in places)
    parts = [f'<path class="line" d="{path}"{_dash(line.method)}/>']
    each = max(1, math.ceil(len(line.points) / HOVERED))
    for (x, y, error), (across, down) in list(zip(line.points, places))[::-1][::each][::-1]:
        if error:
            top, bottom = axes.at(x, y + error)[1], axes.at(x, y - error)[1]
            parts.append(f'<path class="line" d="M{across} {top}V{bottom}"/>')
        numbers = f"{y:.2f} ± {error:.2f}{unit}" if error else f"{y:.3f}{unit}"
        label = f"{name}, {escape(x_label)} {x:,g}: {numbers}"
        parts.append(f'<circle cx="{across}" cy="{down}" r="2.4"><title>{label}</title></circle>')
    return f'<g style="{_style(line.method)}">{"".join(parts)}</g>'


def _style(method: str) -> str:
    return f"color: {method_colour(method)}; stroke-width: {method_width(method)}"


def _dash(method: str) -> str:
    """Meta-Interpolation is a whole line; the others differ in dash, each the same everywhere."""
    others = [name for name in METHOD_COLOURS if name != OURS]
    dash = "" if method == OURS else DASHES[1 + others.index(method) % (len(DASHES) - 1)] if method in others else "1 1"
    return f' stroke-dasharray="{dash}"' if dash else ""


def swatch(method: str) -> str:
    """The piece of line that stands in a legend."""
    line = f'<path class="line" d="M1 6H35"{_dash(method)}/>'
    return f'<svg class="swatch" style="{_style(method)}" viewBox="0 0 36 12" aria-hidden="true">{line}</svg>'


def map_chart(title: str, values: dict[str, Any]) -> str:
    """Prototypes of original and interpolated tasks in the plane; `values` is a task map of the ledger."""
    xs, ys = [p[0] for p in values["points"]], [p[1] for p in values["points"]]
    scale = (MAP - 40) / (max(max(xs) - min(xs), max(ys) - min(ys)) or 1)
    mid_x, mid_y = (max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2
    members: dict[int, list[tuple[float, float, int]]] = {}
    for x, y, task, position in values["points"]:
        place = (MAP / 2 + (x - mid_x) * scale, MAP / 2 + 10 - (y - mid_y) * scale, int(position))
        members.setdefault(int(task), []).append(place)
    originals = values["originals"]
    pairs = sorted({tuple(sorted(p)) for p in values["parents"] if len(p) > 1})
    parts = [f'<text class="title" x="4" y="14">{escape(title)}</text>']
    # Originals last, so that they lie on top.
    for task in sorted(members, reverse=True):
        parents = values["parents"][task]
        names = " + ".join(originals[p]["name"] for p in parents)
        if len(parents) > 1:
            style = pairs.index(tuple(sorted(parents)))
            dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.2"/>' for x, y, _ in members[task])
            label = escape(f"{names}: interpolated task {task - len(originals) + 1}")
            parts.append(f'<g class="mixed m{style % 3}"><title>{label}</title>{dots}</g>')
            continue
        for x, y, position in members[task]:
            label = escape(f"{names}: {originals[task]['classes'][position]}")
            parts.append(f'<g class="original o{task % 3}"><title>{label}</title>{_shape(task, x, y)}</g>')
    return _svg(title, MAP, MAP + 20, parts)


def _shape(kind: int, x: float, y: float, r: float = 6) -> str:
    if kind % 3 == 0:
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}"/>'
    if kind % 3 == 1:
        return f'<rect x="{x - r:.1f}" y="{y - r:.1f}" width="{2 * r}" height="{2 * r}"/>'
    return f'<path d="M{x:.1f} {y - r:.1f}L{x + r:.1f} {y + r:.1f}H{x - r:.1f}Z"/>'


def map_legend(values: dict[str, Any]) -> list[tuple[str, str]]:
    """(SVG, text) for each original task and each pair."""
    names = [original["name"] for original in values["originals"]]
    start = '<svg class="swatch" viewBox="0 0 36 16" aria-hidden="true">'
    entries = [
        (f'{start}<g class="original o{i % 3}">{_shape(i, 18, 8)}</g></svg>', f"{name}, original")
        for i, name in enumerate(names)
    ]
    for style, pair in enumerate(sorted({tuple(sorted(p)) for p in values["parents"] if len(p) > 1})):
        dots = "".join(f'<circle cx="{x}" cy="8" r="3"/>' for x in (8, 18, 28))
        text = " + ".join(names[p] for p in pair)
        entries.append((f'{start}<g class="mixed m{style % 3}">{dots}</g></svg>', f"{text}, interpolated"))
    return entries


def _svg(title: str, width: int, height: int, parts: Sequence[str]) -> str:
    label = escape(title, quote=True)
    return f'<svg class="chart" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{"".join(parts)}</svg>'
