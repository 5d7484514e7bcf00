"""fewtask train DATASET --method NAME --seed S --out RUN."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from fewtask.cli.common import choose_device, parse, settle_threads
from fewtask.presets import load_preset
from fewtask.settings import RunSettings

DESCRIPTION = """Train a method on a data set and save the run in a folder; the same command continues a run that was
interrupted. The defaults below are those of the preset; every setting can be changed by its flag."""


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


@dataclass(frozen=True)
class Choice:
    """The words that decide which preset the flags start from."""

    preset: str
    method: str
    rest: list[str] = field(default_factory=list)


def choose(argv: list[str]) -> Choice:
    """Takes DATASET and --method out of the arguments."""
    method, preset = "meta-interpolation", None
    rest: list[str] = []
    words = iter(argv)
    for word in words:
        if word == "--method":
            method = next(words, method)
        elif word.startswith("--method="):
            method = word.partition("=")[2]
        elif (
            preset is None
            and not word.startswith("-")
            and (not rest or not rest[-1].startswith("-") or "=" in rest[-1])
        ):
            preset = word
        else:
            rest.append(word)
    return Choice(preset or "rainbow-digits", method, rest)


def main(argv: list[str]) -> int:
    from fewtask.methods import get_method

    choice = choose(argv)
    get_method(choice.method)
    preset = load_preset(choice.preset, choice.method)
    prog = f"fewtask train {choice.preset} --method {choice.method}"
    command = parse(Train, choice.rest, prog, DESCRIPTION, Train(preset))
    return train(command, choice.preset)


def train(command: Train, preset: str) -> int:
    from fewtask.cli.data import progress_on
    from fewtask.cli.tables import result_table
    from fewtask.datasets.cache import load_dataset
    from fewtask.run import execute

    settle_threads(command.threads)
    device = choose_device(command.device)
    settings = command.settings
    out = command.out or Path("runs") / f"{preset}-{settings.method}-{settings.seed}"
    dataset = load_dataset(
        settings.dataset,
        settings.data,
        data_dir=command.data_dir,
        raw_dir=command.raw_dir,
        progress=progress_on(Console(stderr=True)),
    )
    result = execute(settings, dataset, out, device=device, test=command.test)
    console = Console()
    console.print(result_table(settings, result.record))
    console.print(f"saved in {out}")
    return 0
