"""fewtask explain RUN."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from fewtask.cli.common import PluginFiles, make_console, parse


@dataclass(frozen=True)
class Explain:
    """Draw how the learned set function of a run mixes two tasks: the share of each class in a merged pair."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of a finished run of a method with a set function."""
    out: Path | None = None
    """Image file; default mixing.png in the run's folder. The numbers go beside it as CSV."""
    split: Literal["train", "validation", "test"] = "train"
    plugin: PluginFiles = ()
    """Script that registers methods, encoders, set functions, estimators or data sets of its own."""
    rows: int = 6
    """Random pairs of rows for each pair of classes."""
    data_dir: Path | None = None
    """Folder of prepared data (or FEWTASK_DATA)."""
    raw_dir: Path | None = None
    """Folder of publishers' files (or FEWTASK_RAW)."""


def main(argv: list[str]) -> int:
    command = parse(Explain, argv, "fewtask explain")
    from fewtask.datasets.cache import load_dataset
    from fewtask.explain import class_shares, draw
    from fewtask.run import load_run

    method = load_run(command.run)
    settings = method.settings
    dataset = load_dataset(settings.dataset, settings.data, data_dir=command.data_dir, raw_dir=command.raw_dir)
    pool = dataset.pools(settings.data, settings.episode.way).split(command.split)
    shares = class_shares(method, pool, command.rows)
    path = command.out or command.run / "mixing.png"
    draw(shares, f"{settings.method} on {settings.dataset}, {command.split} tasks, seed {settings.seed}", path)
    low, middle, high = (float(v) for v in _quantiles(shares.pairs))
    make_console().print(
        f"Share of the second element in {len(shares.pairs)} pairs: median {middle:.3f}, "
        f"95 % between {low:.3f} and {high:.3f} (0.5 is an even mixture).\nFigure: {path}   Numbers: "
        f"{path.with_suffix('.csv')}"
    )
    return 0


def _quantiles(values: object) -> list[float]:
    import numpy as np

    return list(np.quantile(np.asarray(values), [0.025, 0.5, 0.975]))
