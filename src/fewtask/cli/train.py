"""fewtask train DATASET|PRESET.toml|FILE|FOLDER --method NAME --seed S --out RUN."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from fewtask.cli.common import PluginFiles, choose_device, make_console, parse, progress_on
from fewtask.cli.own import is_own
from fewtask.errors import SettingsError
from fewtask.presets import is_path, load_preset, preset_label, preset_names
from fewtask.settings import RunSettings
from fewtask.threads import settle_threads

DESCRIPTION = """Train a method on a data set and save the run in a folder; the same command continues a run that was
interrupted. The defaults below are those of the preset; every setting can be changed by its flag. `fewtask train
my.csv --help` is about tables and folders of your own."""


@dataclass(frozen=True)
class Train:
    """Flags that say where and how, not what."""

    settings: Annotated[RunSettings, tyro.conf.arg(name="")]
    out: Path | None = None
    """Folder of the run; default runs/DATASET-METHOD-SEED."""
    device: str = "auto"
    """auto, cpu, cuda, ..."""
    threads: int = 0
    """Threads to compute with; 0: all cores."""
    data_dir: Path | None = None
    """Folder of prepared data (or FEWTASK_DATA)."""
    raw_dir: Path | None = None
    """Folder of publishers' files (or FEWTASK_RAW)."""
    test: bool = True
    """Evaluate on meta-test at the end."""
    ledger: Path | None = None
    """Also put the record into this ledger, beside those of grids: tables and `fewtask compare` find it there."""
    plugin: PluginFiles = ()
    """Script that registers methods, encoders, set functions, estimators or data sets of its own."""
    dry_run: bool = False
    """Print the memory and the time that it would take, and stop there."""
    tensorboard: bool = False
    """Also log to tensorboard/ in the run's folder, live."""


@dataclass(frozen=True)
class Choice:
    """The words that decide which preset the flags start from."""

    preset: str
    method: str
    rest: list[str] = field(default_factory=list)


def choose(argv: list[str]) -> Choice:
    """Takes DATASET and --method out of the arguments: the flags' defaults depend on them."""
    method, rest = "meta-interpolation", []
    words = iter(argv)
    for word in words:
        if word == "--method":
            method = next(words, method)
        elif word.startswith("--method="):
            method = word.partition("=")[2]
        else:
            rest.append(word)
    # The first word, as the usage has it; or, after other flags, the first that names a preset or is a preset's file.
    known = preset_names()
    named = [i for i, word in enumerate(rest) if word in known or (is_path(word) and word.endswith(".toml"))]
    place = 0 if rest and not rest[0].startswith("-") else next(iter(named), None)
    if place is not None:
        return Choice(rest[place], method, rest[:place] + rest[place + 1 :])
    if {"-h", "--help"} & set(rest):
        return Choice("rainbow-digits", method, rest)
    raise SettingsError(
        "say what to train on: fewtask train DATASET, PRESET.toml, or your own FILE or FOLDER; known data sets are "
        f"{', '.join(known)}"
    )


def main(argv: list[str]) -> int:
    if argv and is_own(argv[0]):
        from fewtask.cli.own_train import main as train_own

        return train_own(argv)
    from fewtask.methods import get_method

    choice = choose(argv)
    get_method(choice.method)
    preset = load_preset(choice.preset, choice.method)
    prog = f"fewtask train {choice.preset} --method {choice.method}"
    command = parse(Train, choice.rest, prog, DESCRIPTION, Train(preset))
    return train(command, choice.preset)


def tell_cost(settings: RunSettings, input_shape: tuple[int, ...], device: str, console: Console) -> None:
    """Prints memory and time of a run before they are spent, and refuses one that does not fit."""
    from fewtask.cost import foretell

    console.print(foretell(settings, input_shape, device), soft_wrap=True, highlight=False)


def train(command: Train, preset: str) -> int:
    from fewtask.cli.tables import result_table
    from fewtask.datasets.cache import load_dataset
    from fewtask.protocol import check_episodes
    from fewtask.run import execute
    from fewtask.training.tensorboard import tensorboard_log

    settle_threads(command.threads)
    device = choose_device(command.device)
    settings = command.settings
    name = preset_label(preset)
    out = command.out or Path("runs") / f"{name}-{settings.method}-{settings.seed}"
    dataset = load_dataset(
        settings.dataset,
        settings.data,
        data_dir=command.data_dir,
        raw_dir=command.raw_dir,
        progress=progress_on(make_console(stderr=True)),
    )
    if command.dry_run or not (out / "result.json").exists():
        # Before the cost, which takes a second: what cannot be done costs nothing.
        check_episodes(settings, dataset.pools(settings.data, settings.episode.way), command.test)
        tell_cost(settings, dataset.input_shape, device, make_console(stderr=not command.dry_run))
    if command.dry_run:
        return 0
    with tensorboard_log(out / "tensorboard" if command.tensorboard else None) as log:
        result = execute(settings, dataset, out, preset=name, device=device, test=command.test, on_row=log)
    console = make_console()
    console.print(result_table(settings, result.record))
    console.print(f"saved in {out}", soft_wrap=True, highlight=False)
    if command.ledger is not None:
        from fewtask.experiments.ledger import Ledger

        console.print(f"record in {Ledger(command.ledger).add(out)}", soft_wrap=True, highlight=False)
    return 0
