"""Two support sets merged, as a trained run does it: the rows themselves, and where all of it lies on a plane.

The plane is spanned by the first two principal axes of the first task's prototypes, so that the classes are as far
apart on it as a plane allows. Accuracies are those of the whole embedding, not of the plane.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fewtask.episodes import Episode
from fewtask.errors import RunError
from fewtask.methods.base import Method
from fewtask.methods.meta_interpolation import MetaInterpolation
from fewtask.methods.metric import class_mean
from fewtask.plotting import draw
from fewtask.pool import TaskPool
from fewtask.sampler import EpisodeSampler

MOST_CLASSES = 4
QUERIES = 15
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")


@dataclass(frozen=True)
class Merging:
    """An episode of K classes merged with one of another task.

    tasks:   names of the two. classes: K pairs of names.
    rows:    [2, K, ...] a support row of each class, as it is fed to the network.
    queries: [K, Q, 2] on the plane. alone, partner, merged: [K, 2] prototypes of either task and of the merged one.
    accuracy, merged_accuracy: share of the queries that are nearest to their own prototype.
    """

    tasks: tuple[str, str]
    classes: list[tuple[str, str]]
    rows: np.ndarray
    queries: np.ndarray
    alone: np.ndarray
    partner: np.ndarray
    merged: np.ndarray
    accuracy: float
    merged_accuracy: float


@torch.no_grad()
def merge_two_tasks(method: Method, pool: TaskPool, seed: int = 0) -> Merging:
    """Draws two tasks of a pool and merges the first's support with the second's, as in a training step."""
    if not isinstance(method, MetaInterpolation):
        raise RunError(f"a {method.name} run merges no tasks; meta-interpolation does")
    settings = method.settings
    way = min(MOST_CLASSES, settings.episode.way)
    queries = min(QUERIES, int(pool.sizes.min()) - settings.episode.shot)
    if queries < 1:
        raise RunError("the smallest class has no row left to ask about: take another split")
    first, second = EpisodeSampler(pool, (seed, 3)).sample_groups(
        1, way, settings.episode.shot, queries, size=2, aligned=settings.interpolation.label_sharing
    )
    method.eval()
    support, asked = method.lower([first, second], update=False)
    alone, sets = method.interpolate([support[0], asked[0], support[1]], [support[:2]])
    z_alone, z_query, z_partner = method.upper(alone, update=False)
    z_merged = method.upper(sets, update=False)[0]
    prototypes, others, merged = (class_mean(z)[0] for z in (z_alone, z_partner, z_merged))
    rate, merged_rate = (
        float(method.step(p[None], z_query.flatten(1, 2), first.labels()).accuracy) for p in (prototypes, merged)
    )
    on_plane = plane(prototypes)
    return Merging(
        tasks=(pool.tasks[int(first.tasks[0])].name, pool.tasks[int(second.tasks[0])].name),
        classes=list(zip(_names(pool, first), _names(pool, second))),
        rows=torch.stack([first.support[0, :, 0], second.support[0, :, 0]]).cpu().numpy(),
        queries=on_plane(z_query[0]),
        alone=on_plane(prototypes),
        partner=on_plane(others),
        merged=on_plane(merged),
        accuracy=rate,
        merged_accuracy=merged_rate,
    )


def plane(points: Tensor) -> Any:
    """The map [..., D] -> [..., 2] onto the first two principal axes of points [K, D]."""
    centre = points.mean(dim=0)
    axes = torch.linalg.svd((points - centre).double(), full_matrices=False).Vh[:2]

    def project(z: Tensor) -> np.ndarray:
        flat: np.ndarray = ((z - centre).double() @ axes.T).cpu().numpy()
        # Two classes span a line: the second axis is then empty.
        return np.pad(flat, [(0, 0)] * (flat.ndim - 1) + [(0, 2 - flat.shape[-1])])

    return project


def _names(pool: TaskPool, episode: Episode) -> list[str]:
    return [pool.class_names[int(label)] for label in episode.classes[0]]


def draw_merging(merging: Merging, path: Path) -> None:
    """The two support sets on the left, the plane with the merged prototypes on the right."""
    draw(lambda plt: paint(plt, merging), path)


def paint(plt: Any, m: Merging) -> Any:
    way = len(m.classes)
    figure = plt.figure(figsize=(9.6, 3.7), layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[1.0, 1.25])
    cells = left.subplots(2, way, squeeze=False)
    left.suptitle("two tasks of few examples, their classes paired at random", fontsize=9.5)
    for line, task in enumerate(m.tasks):
        for k, cell in enumerate(cells[line]):
            _show_row(cell, m.rows[line, k], COLOURS[k])
            cell.set_title(m.classes[k][line], fontsize=9, color=COLOURS[k], pad=3)
        cells[line][0].set_ylabel(f"task {line + 1}\n{task}", fontsize=9)
    axes = right.subplots()
    _paint_plane(axes, m)
    return figure


def _paint_plane(axes: Any, m: Merging) -> None:
    for k, colour in enumerate(COLOURS[: len(m.classes)]):
        axes.scatter(*m.queries[k].T, s=14, color=colour, alpha=0.45, linewidths=0)
        axes.plot(*np.stack([m.alone[k], m.partner[k]]).T, color=colour, linewidth=0.9, linestyle=":")
        axes.annotate("", m.merged[k], m.alone[k], arrowprops={"arrowstyle": "->", "color": colour, "linewidth": 1.6})
        axes.scatter(*m.partner[k], s=60, marker="s", facecolors="white", edgecolors=colour, linewidths=1.3, zorder=3)
        axes.scatter(*m.alone[k], s=75, marker="o", color=colour, edgecolors="white", zorder=4)
        axes.scatter(*m.merged[k], s=190, marker="*", color=colour, edgecolors="black", linewidths=0.7, zorder=5)
    kinds = (("o", "prototype of task 1"), ("s", "prototype of task 2"), ("*", "merged: φ({h, h′})"), (".", "query"))
    for marker, text in kinds:
        face = "white" if marker == "s" else "#555555"
        axes.scatter([], [], marker=marker, color=face, edgecolors="#555555", label=text)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.01), ncols=4, fontsize=8, handletextpad=0.1)
    axes.set(xticks=[], yticks=[])
    axes.margins(0.08)
    axes.set_title(
        "φ merges each pair of classes into a class of a new task\n"
        f"queries of task 1 labelled right: {100 * m.accuracy:.0f} % by its own support, "
        f"{100 * m.merged_accuracy:.0f} % by the merged one",
        fontsize=9.5,
    )


def _show_row(cell: Any, row: np.ndarray, colour: str) -> None:
    """A picture as it is; other rows as a tile of their numbers."""
    if row.ndim == 3:
        # Colours as they are, unless the pool has standardised them.
        low, high = min(0.0, float(row.min())), max(1.0, float(row.max()))
        shown = np.moveaxis((row - low) / (high - low), 0, -1)
        cell.imshow(shown if shown.shape[-1] == 3 else shown[..., 0], cmap="gray", interpolation="nearest")
    else:
        side = max(1, int(np.ceil(np.sqrt(row.size))))
        tile = np.zeros(side * side, dtype=row.dtype)
        tile[: row.size] = row.ravel()
        cell.imshow(tile.reshape(side, side), cmap="gray_r", interpolation="nearest")
    cell.set(xticks=[], yticks=[])
    for spine in cell.spines.values():
        spine.set(visible=True, color=colour, linewidth=1.6)
