"""fewtask explain RUN."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import tyro

from fewtask.cli.common import PluginFiles, make_console, parse


@dataclass(frozen=True)
class Explain:
    """Draw what a learned set function does: the share of each class in a merged pair, and two tasks merged."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of a finished run of a method with a set function."""
    out: Path | None = None
    """Image of the shares; default mixing.png in the run's folder. Their numbers go beside it as CSV."""
    merging: Path | None = None
    """Image of two tasks merged, .png or .svg; default merging.png in the run's folder."""
    split: Literal["train", "validation", "test"] = "train"
    plugin: PluginFiles = ()
    """Script that registers methods, encoders, set functions, estimators or data sets of its own."""
    rows: int = 6
    """Random pairs of rows for each pair of classes."""
    seed: int = 0
    """Which two tasks and rows are drawn merged."""
    data_dir: Path | None = None
    """Folder of prepared data (or FEWTASK_DATA)."""
    raw_dir: Path | None = None
    """Folder of publishers' files (or FEWTASK_RAW)."""


def main(argv: list[str]) -> int:
    command = parse(Explain, argv, "fewtask explain")
    from fewtask.datasets.cache import load_dataset
    from fewtask.explain import class_shares, draw, draw_merging, merge_two_tasks
    from fewtask.methods.meta_interpolation import MetaInterpolation
    from fewtask.run import load_run

    method = load_run(command.run)
    settings = method.settings
    dataset = load_dataset(settings.dataset, settings.data, data_dir=command.data_dir, raw_dir=command.raw_dir)
    pool = dataset.pools(settings.data, settings.episode.way).split(command.split)
    shares = class_shares(method, pool, command.rows)
    path = command.out or command.run / "mixing.png"
    draw(shares, f"{settings.method} on {settings.dataset}, {command.split} tasks, seed {settings.seed}", path)
    low, middle, high = (float(v) for v in _quantiles(shares.pairs))
    say = partial(make_console().print, highlight=False, soft_wrap=True, markup=False)
    say(
        f"Share of the second element in {len(shares.pairs)} pairs: median {middle:.3f}, 95 % between {low:.3f} and "
        f"{high:.3f} (0.5 is an even mixture).\nFigure: {path}   Numbers: {path.with_suffix('.csv')}"
    )
    if isinstance(method, MetaInterpolation):
        merged, picture = merge_two_tasks(method, pool, command.seed), command.merging or command.run / "merging.png"
        draw_merging(merged, picture)
        say(
            f"Queries of '{merged.tasks[0]}' labelled right by its own support: {100 * merged.accuracy:.0f} %, by that "
            f"merged with '{merged.tasks[1]}': {100 * merged.merged_accuracy:.0f} %.\nFigure: {picture}"
        )
    return 0


def _quantiles(values: object) -> list[float]:
    import numpy as np

    return list(np.quantile(np.asarray(values), [0.025, 0.5, 0.975]))
