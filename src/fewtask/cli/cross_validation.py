"""fewtask tune DATA --minutes 30: methods compared by cross-validation over tasks, the best trained on all of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table

from fewtask.cli.common import choose_device, make_console, parse, progress_on
from fewtask.cli.own import OwnFlags, is_own
from fewtask.errors import SettingsError
from fewtask.presets import load_preset, preset_label

if TYPE_CHECKING:
    from fewtask.auto import Chosen
    from fewtask.settings import RunSettings
    from fewtask.workers import Executor

DESCRIPTION = """Compare methods on DATA by cross-validation over tasks: training and validation tasks are dealt into
folds, each is held out once, and the better half of the candidates goes on for twice the steps while --minutes last.
The winner is trained on all tasks; where nothing trained beats the untrained, that is said. DATA is a data set or
preset, or your own table, .npz file or folder. Meta-test is not touched. Interrupt it at any time; the same command
goes on. With an experiment, --grid FILE.toml or another flag of a grid, settings are chosen from a declared grid
instead: fewtask tune PRESET --grid FILE.toml --help."""


@dataclass(frozen=True, kw_only=True)
class CrossValidate(OwnFlags):
    """Flags of cross-validation."""

    data: Annotated[str, tyro.conf.Positional]
    """A data set or preset; or a table, an .npz file or a folder of your own."""
    minutes: float = 30.0
    """Time for everything; 0: as long as it takes."""
    out: Path | None = None
    """Folder of the search and of the model; default runs/DATA-auto-SEED."""
    folds: int = 5
    """Parts that the tasks are dealt into; fewer with fewer tasks."""
    candidates: Annotated[str, tyro.conf.arg(metavar="A;B;...")] = ""
    """Only these candidates (names as in the table), separated by semicolons."""
    rule: Literal["best", "one-standard-error"] = "best"
    """The best candidate, or the cheapest within one standard error of it."""
    ensemble: Literal["refit", "folds", "both"] = "both"
    """Who predicts: the winner trained on all tasks, the folds' models, or both."""
    frozen: Literal["average", "fold", "random"] = "fold"
    """Lambda of a winner that learns one: the folds' mean, that of one fold, or the random start."""
    steps_scale: float = 1.0
    """The winner is trained for so many times the steps that served best in the folds."""
    most_steps: int = 3200
    """Steps of the longest runs."""
    episodes: int = 100
    """Episodes of each held-out task."""
    seed: int = 0
    """Seed of everything."""
    executor: Literal["local", "ray"] = "local"
    """Processes on this machine, or a Ray cluster that sees --out."""
    address: str | None = None
    """Address of a Ray cluster; unset: one is started for the command."""
    workers: int = 0
    """Runs at a time; 0: as many as there are cores."""
    device: str = "auto"
    """auto, cpu, cuda, ..."""
    data_dir: Path | None = None
    """Folder of prepared data (or FEWTASK_DATA)."""
    raw_dir: Path | None = None
    """Folder of publishers' files (or FEWTASK_RAW)."""


def main(argv: list[str]) -> int:
    command = parse(CrossValidate, argv, "fewtask tune", DESCRIPTION)
    return own_data(command) if is_own(command.data) else data_set(command)


def options_of(command: CrossValidate) -> dict[str, object]:
    return {
        "folds": command.folds,
        "candidates": command.candidates,
        "rule": command.rule,
        "ensemble": command.ensemble,
        "frozen": command.frozen,
        "steps_scale": command.steps_scale,
        "most_steps": command.most_steps,
        "episodes": command.episodes,
    }


def own_data(command: CrossValidate) -> int:
    from fewtask.learner import MetaLearner
    from fewtask.own.reading import read_own

    if command.executor == "ray":
        raise SettingsError("--executor ray is for data sets and presets: own data are read on this machine")
    own = read_own(Path(command.data), command.columns())
    out = command.out or Path("runs") / f"{own.name}-auto-{command.seed}"
    learner = MetaLearner(
        "auto",
        minutes=command.minutes,
        auto=options_of(command),
        n_jobs=command.workers,
        random_state=command.seed,
        device=choose_device(command.device),
        verbose=True,
    )
    learner.fit_data(own, out, progress=progress_on(make_console(stderr=True)))
    make_console().print(
        f"saved in {out}: leaderboard.csv compares the candidates, README.md says how good the chosen is",
        soft_wrap=True,
        highlight=False,
    )
    return 0


def data_set(command: CrossValidate) -> int:
    from fewtask.auto import AutoSettings, choose_for
    from fewtask.datasets.cache import load_dataset
    from fewtask.settings import update

    base = update(load_preset(command.data, "protonet"), {"seed": command.seed})
    console, errors = make_console(), make_console(stderr=True)
    dataset = load_dataset(
        base.dataset, base.data, data_dir=command.data_dir, raw_dir=command.raw_dir, progress=progress_on(errors)
    )
    out = command.out or Path("runs") / f"{preset_label(command.data)}-auto-{command.seed}"
    chosen = choose_for(
        dataset,
        base,
        out,
        AutoSettings(minutes=command.minutes, **options_of(command)),  # type: ignore[arg-type]
        workers=command.workers,
        device=choose_device(command.device),
        executor=executor_of(command),
        say=lambda sentence: console.print(sentence, highlight=False, soft_wrap=True),
        floors=False,
    )
    save_model(chosen, dataset.train.scale, tuple(dataset.input_shape), base, out)
    show(chosen, base, out, console)
    return 0


def executor_of(command: CrossValidate) -> Executor | None:
    from fewtask.workers import RayExecutor

    if command.executor == "ray":
        return RayExecutor(command.address, command.workers)
    if command.address:
        raise SettingsError("--address is for --executor ray")
    return None


def save_model(
    chosen: Chosen, scale: tuple[float, float] | None, shape: tuple[int, ...], base: RunSettings, out: Path
) -> None:
    """So that `fewtask predict` and MetaLearner.load take the folder."""
    from fewtask.learner import Model

    e = base.episode
    about = {"name": base.dataset, "method": chosen.settings.method, "way": e.way, "shot": e.shot}
    Model(chosen.members, None, scale, shape, chosen.calibration, about).save(out)


def show(chosen: Chosen, base: RunSettings, out: Path, console: Console) -> None:
    from fewtask.auto.leaderboard import as_table

    console.print(as_table(chosen.leaderboard, f"{base.dataset}: tasks held out in turn; ± one standard error"))
    table = Table(title="calibration error of the chosen on held-out tasks", title_justify="left")
    for heading in ("examples a class", "accuracy %", "before", "after"):
        table.add_column(heading, justify="right")
    for one in chosen.held_out:
        before, after = f"{one.error_before:.3f}", f"{one.error_after:.3f}"
        table.add_row(str(one.shot), f"{100 * one.accuracy:.1f}", before, after)
    console.print(table)
    console.print(f"{chosen.verdict}; saved in {out}", soft_wrap=True, highlight=False)
