"""fewtask tune EXPERIMENT, or tune PRESET --grid FILE: settings chosen on meta-validation, and a preset of them.

Without a grid `fewtask tune DATA` is cross-validation over tasks: see cross_validation.py."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.console import Console
from rich.table import Table

from fewtask.cli import cross_validation
from fewtask.cli.common import make_console, parse
from fewtask.cli.grids import GridFlags, asked_changes, fill_ledger, names, open_ledger, relative, say_failures
from fewtask.errors import SettingsError
from fewtask.presets import is_path

if TYPE_CHECKING:
    from fewtask.experiments.grid import Changes
    from fewtask.experiments.search import Search
    from fewtask.experiments.summary import CellResult, Summary

DESCRIPTION = """Try each method's candidates of a declared grid on meta-validation and show the best; meta-test is not
touched. --write saves the choices as a preset, with --steps and --set for all methods. An experiment declares all of
this in its grid.toml, and gets its preset.toml. Interrupt it at any time; the same command goes on."""


@dataclass(frozen=True)
class Tune(GridFlags):
    name: Annotated[str, tyro.conf.Positional] = "rainbow-digits"
    """A preset, by its name or its file; or an experiment, by its name (tox21/decay) or its folder."""
    methods: str = ""
    """Only these methods of the grid, separated by commas."""
    grid: Annotated[Path | None, tyro.conf.arg(metavar="FILE.toml")] = None
    """Another grid than the declared one: [every] and [methods.NAME] with lists of values."""
    write: Annotated[Path | None, tyro.conf.arg(metavar="FILE.toml")] = None
    """Write the chosen settings as a preset, which every command takes by its path."""
    seeds: int | None = None
    """Runs with seeds 0 to N - 1 of each candidate; unset: as declared, or 1."""
    test: tyro.conf.Suppress[bool] = False


def asks_for_grid(argv: list[str]) -> bool:
    """Whether settings are to be chosen from a grid: of an experiment, or by a flag that only grids have."""
    from fewtask.experiments.declared import experiment_folder

    known = {field.name for field in fields(Tune)} - {field.name for field in fields(cross_validation.CrossValidate)}
    flags = {"set", *(name.replace("_", "-") for name in known if name != "name")}
    words = [word.lstrip("-").partition("=")[0].removeprefix("no-") for word in argv if word.startswith("--")]
    named = [word for word in argv[:1] if not word.startswith("-")]
    return any(word in flags for word in words) or any(experiment_folder(name) is not None for name in named)


def main(argv: list[str]) -> int:
    if not asks_for_grid(argv):
        return cross_validation.main(argv)
    command = parse(Tune, argv, "fewtask tune", DESCRIPTION)
    from fewtask.changes import flat
    from fewtask.experiments.declared import experiment_folder
    from fewtask.experiments.search import preset_text, read_search
    from fewtask.files import write_text
    from fewtask.presets import read_preset

    folder = experiment_folder(command.name, command.experiments)
    if folder is not None:
        unwritten = None if (folder / "preset.toml").exists() else folder / "preset.toml"
        command = replace(command, grid=command.grid or folder / "grid.toml", write=command.write or unwritten)
    search = read_search(command.grid)
    preset = search.preset if folder is not None else command.name
    if preset is None:
        raise SettingsError(f"{command.grid} does not say which preset it starts from")
    read_preset(preset)
    changes = [search.shared, *asked_changes(command)]
    search = search.without(key for change in changes for key in flat(change))
    console = make_console()
    chosen, code = choices(command, search, preset, changes, console, folder)
    if chosen and command.write is not None:
        about = f"{command.name} with settings chosen on meta-validation ({command_text(command)})."
        found = {method: tuple(flat(best[0].cell.changes).items()) for method, best in chosen.items()}
        base = os.path.relpath(preset, command.write.absolute().parent) if is_path(preset) else preset
        shared = [change for change in (*changes, search.rounds[-1].changes) if change]
        write_text(command.write, preset_text(base, about, shared, found))
        console.print(f"written: {relative(command.write)}", highlight=False)
    elif chosen and folder is not None:
        kept = relative(folder / "preset.toml")
        console.print(f"kept as it was: {kept}; with --write {kept} these choices replace it", highlight=False)
    return code


def choices(
    command: Tune, search: Search, preset: str, changes: Sequence[Changes], console: Console, folder: Path | None
) -> tuple[dict[str, list[CellResult]], int]:
    """The best candidates of each method after the last round, nothing while runs are missing; and the exit code."""
    from fewtask.experiments.grid import gather, plan
    from fewtask.experiments.search import candidate_table, choose
    from fewtask.experiments.summary import summarise

    ledger = open_ledger(command, None if folder is None else folder / "records" / "search")
    cells = search.cells(preset, names(command.methods) or search.methods)
    chosen: dict[str, list[CellResult]] = {}
    for one in search.rounds:
        seeds, own = command.seeds or one.seeds, [*changes, one.changes]
        runs = plan(cells, seeds, own)
        gathered = gather(runs, ledger, seeds, own)
        failures = fill_ledger(command, runs, gathered, ledger, console)
        if failures is None:
            return {}, 0
        summary = summarise(candidate_table(cells), gathered, test=False)
        if failures or any(result.seeds < seeds for result in summary.results):
            console.print(results_table(summary, {}))
            console.print("nothing is chosen while runs are missing")
            return {}, say_failures(failures, console)
        chosen = choose(summary, one.keep)
        console.print(results_table(summary, chosen))
        cells = [result.cell for best in chosen.values() for result in best]
    return chosen, 0


def command_text(command: Tune) -> str:
    """The command that makes the same choice again, without flags that only say where and when."""
    words = ["fewtask tune", command.name]
    words += ["--methods", command.methods] if command.methods else []
    words += ["--grid", relative(command.grid)] if command.grid is not None else []
    words += ["--seeds", str(command.seeds)] if command.seeds is not None else []
    words += ["--steps", str(command.steps)] if command.steps is not None else []
    words += ["--set", *command.changes] if command.changes else []
    return " ".join(words)


def results_table(summary: Summary, chosen: dict[str, list[CellResult]]) -> Table:
    from fewtask.experiments.render import mean_text

    table = Table(title=f"{summary.table.title}, meta-validation; chosen in bold", title_justify="left")
    table.add_column("")
    for heading in ("accuracy", "loss", "training loss", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    kept = [result.cell for best in chosen.values() for result in best]
    for result in summary.results:
        numbers = (result.validation_loss, result.training_loss)
        row = [
            result.cell.row,
            mean_text(result.accuracy),
            *("—" if number is None else f"{number:.3f}" for number in numbers),
            "—" if result.seconds is None else f"{result.seconds:.0f}",
        ]
        table.add_row(*row, style="bold" if result.cell in kept else None)
    return table
