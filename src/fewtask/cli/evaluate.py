"""fewtask evaluate RUN."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.table import Table

from fewtask.cli.common import PluginFiles, choose_device, make_console, parse
from fewtask.threads import settle_threads


@dataclass(frozen=True)
class Evaluate:
    """Evaluate a saved run on a fixed list of episodes; the run itself is not changed."""

    run: Annotated[Path, tyro.conf.Positional]
    """Folder of a finished run."""
    split: Literal["test", "validation", "train"] = "test"
    episodes: int | None = None
    """Number of episodes; default the run's own setting."""
    shot: int | None = None
    """Support rows a class; default the run's own."""
    query: int | None = None
    """Query rows a class; default the run's own."""
    seed: int | None = None
    """Seed of the list of episodes; default the run's own."""
    plugin: PluginFiles = ()
    """Script that registers methods, encoders, set functions, estimators or data sets of its own."""
    device: str = "auto"
    threads: int = 0
    """Threads to compute with; 0: all cores."""
    data_dir: Path | None = None
    """Folder of prepared data (or FEWTASK_DATA)."""
    raw_dir: Path | None = None
    """Folder of publishers' files (or FEWTASK_RAW)."""


def main(argv: list[str]) -> int:
    command = parse(Evaluate, argv, "fewtask evaluate")
    from fewtask.cli.tables import percent
    from fewtask.datasets.cache import load_dataset
    from fewtask.evaluation import evaluate
    from fewtask.protocol import draw_episodes
    from fewtask.run import load_run

    settle_threads(command.threads)
    device = choose_device(command.device)
    method = load_run(command.run, device)
    settings = method.settings
    dataset = load_dataset(settings.dataset, settings.data, data_dir=command.data_dir, raw_dir=command.raw_dir)
    pool = dataset.pools(settings.data, settings.episode.way).split(command.split).to(device)
    wanted = {key: getattr(command, key) for key in ("episodes", "query", "seed") if getattr(command, key) is not None}
    plan = dataclasses.replace(settings.evaluation, **wanted)
    shot = command.shot or settings.episode.shot
    score = evaluate(
        method, pool, draw_episodes(pool, plan.episodes, settings.episode.way, shot, plan.query, plan.seed)
    )
    title = f"{settings.method} on {settings.dataset} ({command.split}), {settings.episode.way}-way {shot}-shot"
    table = Table(title=title, title_justify="left")
    table.add_column("task")
    table.add_column("episodes", justify="right")
    table.add_column("accuracy %", justify="right")
    for row in score.tasks:
        table.add_row(row.task, str(row.episodes), percent(row.accuracy, row.interval))
    table.add_section()
    table.add_row("all", str(score.episodes), percent(score.accuracy, score.interval))
    make_console().print(table)
    return 0
