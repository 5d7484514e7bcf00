"""Small pictures that stand by themselves: all methods of a data set as dots, maps of where a method pays, and what
choices bring against what they cost.

They are SVG without a plotting library, with one fixed colour a method.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from fewtask.experiments.statistics import Mean, is_clear
from fewtask.experiments.summary import CellResult, Summary
from fewtask.experiments.tables import METHOD_TITLES, OURS, Axis
from fewtask.plotting import method_colour

INK, SOFT, LINE, GROUND = "#1b1f24", "#57606a", "#d5dae0", "#ffffff"
LABEL, WIDTH, ROW, FOOT = 112, 320, 11.5, 14
CELL_WIDTH, CELL_HEIGHT, HEAD, PANELS = 92, 40, 34, 2
COST_WIDTH, COST_HEIGHT, COST_LEFT, COST_FOOT = 300, 210, 40, 30
AHEAD, BEHIND = (213, 94, 0), (0, 114, 178)


def nice_ticks(low: float, high: float, wanted: int = 4) -> list[float]:
    """Round numbers from below `low` to above `high`: steps of 1, 2 or 5 times a power of ten."""
    span = (high - low) or abs(high) or 1.0
    rough = span / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(index * step, 10) for index in range(first, max(last, first + 1) + 1)]


def dot_chart(results: Sequence[CellResult]) -> str:
    """A dot a method with its 95 % interval; the axis is that of the trained methods."""
    trained = [r.accuracy for r in results if r.accuracy and r.cell.method != "centroid"]
    if not trained:
        return ""
    low = 100 * min(mean.value - mean.interval for mean in trained)
    high = 100 * max(mean.value + mean.interval for mean in trained)
    ticks = nice_ticks(low, high, 3)
    height = ROW * len(results) + FOOT

    def across(value: float) -> float:
        share = (value - ticks[0]) / (ticks[-1] - ticks[0])
        return LABEL + 8 + min(1.0, max(0.0, share)) * (WIDTH - LABEL - 16)

    parts = []
    for tick in ticks:
        x = across(tick)
        parts.append(f'<path d="M{x:.1f} 2V{height - FOOT + 2}" stroke="{LINE}"/>')
        parts.append(_text(x, height - 3, f"{tick:g}", "middle", SOFT))
    for place, result in enumerate(results):
        parts.append(_dot(result, ROW * place + ROW / 2 + 1, across, ticks))
    return _svg("Test accuracy in percent with 95 % intervals", WIDTH, height, parts)


def _dot(result: CellResult, y: float, across: Any, ticks: Sequence[float]) -> str:
    assert result.accuracy is not None
    value, half = 100 * result.accuracy.value, 100 * result.accuracy.interval
    ours = result.cell.method == OURS
    colour = method_colour(result.cell.method)
    label = _text(LABEL, y + 3.3, result.cell.row, "end", INK, bold=ours)
    title = f"<title>{escape(result.cell.row)}: {value:.2f} ± {half:.2f}</title>"
    if value < ticks[0] or value > ticks[-1]:
        # Far from the others, such as untrained centroids: an arrow and the number.
        below = value < ticks[0]
        x = across(value)
        tip = f"M{x} {y}l{6 if below else -6} -4v8z"
        number = _text(x + (9 if below else -9), y + 3.5, f"{value:.1f}", "start" if below else "end", SOFT)
        return f'<g>{title}{label}<path d="{tip}" fill="{colour}"/>{number}</g>'
    left, right = across(value - half), across(value + half)
    whisker = f'<path d="M{left:.1f} {y}H{right:.1f}" stroke="{colour}" stroke-width="{2.6 if ours else 1.6}"/>'
    dot = f'<circle cx="{across(value):.1f}" cy="{y}" r="{4 if ours else 2.9}" fill="{colour}"/>'
    return f"<g>{title}{label}{whisker}{dot}</g>"


def heat_map(summary: Summary) -> str:
    """A panel for each row but the reference: a paired difference for every pair of values of the map's axes.

    It is Meta-Interpolation minus the row, or, where the map has another reference, the row minus that. Clear ones have
    a frame, missing ones a broken line. One scale of colours for all panels.
    """
    down, across = summary.table.axes
    reference = summary.table.reference
    turned = reference != METHOD_TITLES[OURS]
    # What the map is about comes first, the nearest relatives after it.
    rows = sorted(
        (row for row in reversed(summary.rows) if row != reference), key=lambda row: row != METHOD_TITLES[OURS]
    )
    found = {row: _differences(summary, row, -1 if turned else 1) for row in rows}
    largest = max((abs(mean.value) for own in found.values() for mean in own.values()), default=0.0) or 1.0
    width = LABEL + CELL_WIDTH * len(across.values) + 12
    height = HEAD + CELL_HEIGHT * len(down.values) + 14
    parts = []
    for place, row in enumerate(rows):
        left, top = place % PANELS * width, place // PANELS * height
        title = f"{row} − {reference}" if turned else f"{reference} − {row}"
        panel = _panel(title, (down, across), found[row], largest)
        parts.append(f'<g transform="translate({left:g} {top:g})">{panel}</g>')
    whole, lines = width * min(PANELS, len(rows)), -(-len(rows) // PANELS) * height
    note = f"Points of {summary.split} accuracy on the same episodes ± half of the 95 % interval."
    parts.append(_text(8, lines + 12, note, "start", SOFT))
    parts.append(
        _text(8, lines + 24, "Orange: ahead. Blue: behind. Framed: the interval is all on one side.", "start", SOFT)
    )
    return _svg(summary.table.title, whole, lines + 32, parts)


def _differences(summary: Summary, row: str, sign: int) -> dict[tuple[int, int], Mean]:
    """By the places of their values on the two axes."""
    down, across = summary.table.axes
    found = {}
    for i, first in enumerate(down.values):
        for j, second in enumerate(across.values):
            result = summary.at(row, f"{down.label(first)}, {across.label(second)}")
            if result is not None and result.behind is not None:
                found[i, j] = replace(result.behind, value=sign * result.behind.value)
    return found


def _panel(title: str, axes: tuple[Axis, ...], found: dict[tuple[int, int], Mean], largest: float) -> str:
    down, across = axes
    parts = [_text(8, 14, title, "start", INK, True)]
    for j, value in enumerate(across.values):
        parts.append(_text(LABEL + CELL_WIDTH * (j + 0.5), HEAD - 6, across.label(value), "middle", SOFT))
    for i, value in enumerate(down.values):
        y = HEAD + CELL_HEIGHT * i
        parts.append(_text(LABEL - 6, y + CELL_HEIGHT / 2 + 3, down.label(value), "end", SOFT))
        parts += [_heat_cell(found.get((i, j)), LABEL + CELL_WIDTH * j, y, largest) for j in range(len(across.values))]
    return "".join(parts)


def _heat_cell(mean: Mean | None, x: float, y: float, largest: float) -> str:
    box = f'<rect x="{x + 2}" y="{y + 2}" width="{CELL_WIDTH - 4}" height="{CELL_HEIGHT - 4}" rx="3"'
    middle = x + CELL_WIDTH / 2
    if mean is None:
        dashed = f'{box} fill="none" stroke="{LINE}" stroke-dasharray="3 3"/>'
        return dashed + _text(middle, y + CELL_HEIGHT / 2 + 3, "not run", "middle", SOFT)
    share = min(1.0, abs(mean.value) / largest) * 0.75
    red, green, blue = (round(255 + (end - 255) * share) for end in (AHEAD if mean.value > 0 else BEHIND))
    frame = f' stroke="{INK}" stroke-width="2.5"' if is_clear(mean) else ""
    value = _text(middle, y + 18, f"{100 * mean.value:+z.2f}", "middle", INK, is_clear(mean))
    interval = _text(middle, y + 31, f"± {100 * mean.interval:.2f}", "middle", INK)
    return f'{box} fill="rgb({red},{green},{blue})"{frame}/>{value}{interval}'


@dataclass(frozen=True)
class Dot:
    """A choice in a picture of costs: its number there, its name, its cost and what it brings."""

    number: str
    name: str
    cost: float
    lead: Mean


def cost_chart(panels: Sequence[tuple[str, Sequence[Dot]]], across: str) -> str:
    """A panel for each title: what choices bring (points, up) against what they cost (by doublings, across)."""
    dots = [dot for _, own in panels for dot in own]
    if not dots:
        return ""
    edges = [100 * (dot.lead.value + sign * dot.lead.interval) for dot in dots for sign in (-1, 1)]
    ups = nice_ticks(min(0.0, *edges), max(0.0, *edges))
    costs = [math.log2(max(dot.cost, 1e-3)) for dot in dots]
    sides = list(range(math.floor(min(0.0, *costs)), math.ceil(max(1.0, *costs)) + 1))
    parts = []
    for place, (title, own) in enumerate(panels):
        left, top = place % PANELS * COST_WIDTH, place // PANELS * COST_HEIGHT
        parts.append(f'<g transform="translate({left} {top})">{_cost_panel(title, own, ups, sides)}</g>')
    height = -(-len(panels) // PANELS) * COST_HEIGHT
    parts.append(_text(8, height + 10, f"Up: points of accuracy; across: {across}.", "start", SOFT))
    return _svg("Accuracy against cost", COST_WIDTH * min(PANELS, len(panels)), height + 18, parts)


def _cost_panel(title: str, dots: Sequence[Dot], ups: Sequence[float], sides: Sequence[int]) -> str:
    def x(cost: float) -> float:
        share = (math.log2(max(cost, 1e-3)) - sides[0]) / (sides[-1] - sides[0])
        return COST_LEFT + share * (COST_WIDTH - COST_LEFT - 14)

    def y(points: float) -> float:
        return COST_HEIGHT - COST_FOOT - (points - ups[0]) / (ups[-1] - ups[0]) * (COST_HEIGHT - COST_FOOT - 24)

    parts = [_text(8, 14, title, "start", INK, True)]
    for tick in ups:
        # Zero is where the reference is.
        line = f'stroke="{SOFT if tick == 0 else LINE}"'
        parts.append(f'<path d="M{COST_LEFT} {y(tick):.1f}H{COST_WIDTH - 14}" {line}/>')
        parts.append(_text(COST_LEFT - 5, y(tick) + 3, f"{tick:+g}" if tick else "0", "end", SOFT))
    for power in sides:
        parts.append(_text(x(2.0**power), COST_HEIGHT - COST_FOOT + 14, f"{2.0**power:g}", "middle", SOFT))
    for dot in dots:
        colour = "rgb({},{},{})".format(*(AHEAD if dot.lead.value > 0 else BEHIND))
        low, high = (y(100 * (dot.lead.value + sign * dot.lead.interval)) for sign in (-1, 1))
        at, height = x(dot.cost), y(100 * dot.lead.value)
        words = f"{dot.name}: {100 * dot.lead.value:+z.2f} ± {100 * dot.lead.interval:.2f} at {dot.cost:.1f}"
        mark = f'<path d="M{at:.1f} {low:.1f}V{high:.1f}" stroke="{colour}" stroke-opacity="0.4"/>'
        mark += f'<circle cx="{at:.1f}" cy="{height:.1f}" r="2.6" fill="{colour}"/>'
        label = _text(at + 4, height - 3, dot.number, "start", INK)
        parts.append(f"<g><title>{escape(words)}</title>{mark}{label}</g>")
    return "".join(parts)


def _text(x: float, y: float, text: str, anchor: str, colour: str, bold: bool = False) -> str:
    weight = ' font-weight="700"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}"{weight}>{escape(text)}</text>'


def _svg(title: str, width: float, height: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}"'
    head += f' viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(title)}" class="picture"'
    # A ground of its own: the page around it may be dark.
    ground = f'<rect width="{width:g}" height="{height:g}" rx="4" fill="{GROUND}"/>'
    return head + ' font-family="system-ui, sans-serif" font-size="9.5">' + ground + "".join(parts) + "</svg>\n"
