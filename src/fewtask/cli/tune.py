"""fewtask tune PRESET: settings chosen on meta-validation, and a preset that holds them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.table import Table

from fewtask.cli.common import make_console, parse
from fewtask.cli.grids import GridFlags, asked_changes, fill_ledger, names, relative, say_failures
from fewtask.presets import is_path

if TYPE_CHECKING:
    from fewtask.experiments.summary import CellResult, Summary

DESCRIPTION = """Try each method's candidates of a declared grid on meta-validation and show the best; meta-test is not
touched. --write saves the choices as a preset, with --steps and --set for all methods. Interrupt it at any time; the
same command goes on."""


@dataclass(frozen=True)
class Tune(GridFlags):
    preset: Annotated[str, tyro.conf.Positional] = "rainbow-digits"
    """A preset: a name, or a file."""
    methods: str = ""
    """Only these methods of the grid, separated by commas."""
    grid: Annotated[Path | None, tyro.conf.arg(metavar="FILE.toml")] = None
    """Another grid than the declared one: [every] and [methods.NAME] with lists of values."""
    write: Annotated[Path | None, tyro.conf.arg(metavar="FILE.toml")] = None
    """Write the chosen settings as a preset, which every command takes by its path."""
    second_round: Annotated[Path | None, tyro.conf.arg(metavar="FILE.toml")] = None
    """Write the best candidates of each method as a grid, for a second round with longer runs and more seeds."""
    keep: int = 3
    """How many candidates of each method go into the second round."""
    seeds: int = 1
    """Runs with seeds 0 to N - 1 of each candidate."""
    ledger: Path = Path("results/search")
    """Folder of the records of finished runs."""
    test: tyro.conf.Suppress[bool] = False


def main(argv: list[str]) -> int:
    command = parse(Tune, argv, "fewtask tune", DESCRIPTION)
    from fewtask.changes import flat
    from fewtask.experiments.grid import plan
    from fewtask.experiments.ledger import Ledger
    from fewtask.experiments.search import choose, preset_text, read_search, second_round
    from fewtask.experiments.summary import summarise
    from fewtask.files import write_text
    from fewtask.presets import read_preset

    read_preset(command.preset)
    changes = asked_changes(command)
    search = read_search(command.grid).without(key for change in changes for key in flat(change))
    methods = names(command.methods) or search.methods
    experiment = search.experiment(command.preset, methods)
    runs = plan(experiment.cells, command.seeds, changes)
    console = make_console()
    failures = fill_ledger(command, runs, console)
    if failures is None:
        return 0
    summary = summarise(experiment, Ledger(command.ledger), command.seeds, changes, test=False)
    if failures or any(result.seeds < command.seeds for result in summary.results):
        console.print(candidate_table(summary, {}))
        console.print("nothing is chosen while runs are missing")
        return say_failures(failures, console)
    chosen = choose(summary, methods)
    console.print(candidate_table(summary, chosen))
    if command.second_round is not None:
        write_text(command.second_round, second_round(summary, methods, command.keep))
        console.print(f"written: {relative(command.second_round)}", highlight=False)
    if command.write is not None:
        about = f"{command.preset} with settings chosen on meta-validation ({command_text(command)})."
        found = {method: tuple(flat(result.cell.changes).items()) for method, result in chosen.items()}
        base = relative_preset(command.preset, command.write)
        write_text(command.write, preset_text(base, about, [c for c in changes if c], found))
        console.print(f"written: {relative(command.write)}", highlight=False)
    return 0


def relative_preset(preset: str, file: Path) -> str:
    """How a preset in another file says that it extends this one."""
    return os.path.relpath(preset, file.parent) if is_path(preset) else preset


def command_text(command: Tune) -> str:
    """The command that makes the same choice again, without flags that only say where and when."""
    words = ["fewtask tune", command.preset]
    words += ["--methods", command.methods] if command.methods else []
    words += ["--grid", relative(command.grid)] if command.grid is not None else []
    words += ["--seeds", str(command.seeds)] if command.seeds > 1 else []
    words += ["--steps", str(command.steps)] if command.steps is not None else []
    words += ["--set", *command.changes] if command.changes else []
    return " ".join(words)


def candidate_table(summary: Summary, chosen: dict[str, CellResult]) -> Table:
    from fewtask.experiments.render import mean_text

    table = Table(title=f"{summary.experiment.title}, meta-validation; chosen in bold", title_justify="left")
    table.add_column("")
    for heading in ("accuracy", "loss", "training loss", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in summary.results:
        best = chosen.get(result.cell.method)
        numbers = (result.validation_loss, result.training_loss)
        row = [
            result.cell.row,
            mean_text(result.accuracy),
            *("—" if number is None else f"{number:.3f}" for number in numbers),
            "—" if result.seconds is None else f"{result.seconds:.0f}",
        ]
        table.add_row(*row, style="bold" if best is not None and best.cell == result.cell else None)
    return table
