"""fewtask train FILE_OR_FOLDER --out RUN: the same command as for a data set, on a user's own data."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from rich.table import Table

from fewtask.bounds import listed
from fewtask.cli.common import PluginFiles, choose_device, make_console, parse, progress_on
from fewtask.cli.own import Names, OwnFlags, split_names
from fewtask.threads import settle_threads

if TYPE_CHECKING:
    from fewtask.learner.held_out import HeldOut

DESCRIPTION = """Train on your own data and save a model that `fewtask predict` uses. DATA is a table (CSV, TSV,
Parquet), an .npz file with X, y and groups, or a folder of pictures or sounds as task/class/file or class/file. Where
no flag says what a column is for, it is looked for and said. Unless --method names one, methods are compared by
cross-validation over your tasks for ten minutes, and the best is trained on all of them; interrupted, the same command
goes on. Encoder, sizes and steps are chosen from the data and
printed; any setting of a run can be given as --GROUP.KEY=VALUE, for instance --encoder.width=64."""


@dataclass(frozen=True, kw_only=True)
class TrainOwn(OwnFlags):
    """Flags of training on own data."""

    data: Annotated[Path, tyro.conf.Positional]
    """A table, an .npz file or a folder."""
    method: str = "auto"
    """auto: whatever wins on held-out tasks within --minutes, trained on all tasks; or a method by its name (fewtask
    list methods)."""
    minutes: float = 10.0
    """Time for method auto, everything included."""
    workers: int = 0
    """Processes of method auto that train at once; 0: one a core."""
    seed: int = 0
    """Seed of everything."""
    out: Path | None = None
    """Folder of the model; default runs/DATA-METHOD-SEED."""
    validation_tasks: Names = None
    """Tasks (classes, without a task column) to choose weights on; unset: a quarter is set aside."""
    test_tasks: Names = None
    """Tasks (classes) that are only looked at after training; unset: none."""
    shot: int | None = None
    """Examples of each class in training; unset: 5, or what the smallest class allows."""
    steps: int | None = None
    """Steps of training; unset: what suits the input."""
    set: Annotated[str, tyro.conf.arg(metavar="KEY=VALUE,...")] = ""
    """Further settings, for instance encoder.width=64."""
    device: str = "auto"
    """auto, cpu, cuda, ..."""
    threads: int = 0
    """Threads to compute with; 0: all cores."""
    plugin: PluginFiles = ()
    """Script that registers methods, encoders, set functions or kinds of input of its own."""


def main(argv: list[str]) -> int:
    words, assignments = settings_among(argv)
    command = parse(TrainOwn, words, "fewtask train", DESCRIPTION)
    return train_own(command, [*assignments, *split_names(command.set)])


def settings_among(argv: list[str]) -> tuple[list[str], list[str]]:
    """Takes --group.key=value and --group.key value out of the arguments: words left, and key=value texts."""
    left: list[str] = []
    assignments = []
    words = iter(argv)
    for word in words:
        found = re.fullmatch(r"--([a-z_-]+\.[a-z_-]+)(?:=(.*))?", word, flags=re.DOTALL)
        if found is None:
            left.append(word)
            continue
        value = found.group(2) if found.group(2) is not None else next(words, "")
        assignments.append(f"{found.group(1).replace('-', '_')}={value}")
    return left, assignments


def train_own(command: TrainOwn, assignments: list[str]) -> int:
    from fewtask.changes import parse_changes
    from fewtask.learner import MetaLearner
    from fewtask.methods import AUTO, get_method
    from fewtask.own.reading import read_own

    if command.method != AUTO:
        get_method(command.method)
    changes = parse_changes(assignments)
    settle_threads(command.threads)
    device = choose_device(command.device)
    validation, test = split_names(command.validation_tasks), split_names(command.test_tasks)
    own = read_own(command.data, command.columns(*validation, *test))
    out = command.out or Path("runs") / f"{own.name}-{command.method}-{command.seed}"
    learner = MetaLearner(
        command.method,
        shot=command.shot,
        steps=command.steps,
        settings=changes,
        validation=validation or None,
        minutes=command.minutes,
        n_jobs=command.workers,
        random_state=command.seed,
        device=device,
        verbose=True,
    )
    learner.fit_data(own, out, test, progress_on(make_console(stderr=True)))
    console = make_console()
    console.print(held_out_table(learner.held_out_))
    text = f"saved in {out}: its README.md says how good it is and how to predict"
    console.print(text, soft_wrap=True, highlight=False)
    return 0


def held_out_table(found: HeldOut) -> Table:
    """Accuracy by number of examples, a column a method."""
    methods = list(dict.fromkeys(line.method for line in found.lines))
    title = f"accuracy % on held-out tasks, {found.way} classes: {listed(found.tasks)}"
    table = Table(title=title, title_justify="left")
    for heading in ("examples of each class", *methods):
        table.add_column(heading, justify="right")
    for shot in sorted({line.shot for line in found.lines}):
        own = {line.method: line for line in found.lines if line.shot == shot}
        cells = [f"{100 * own[m].accuracy:.1f} ± {100 * own[m].accuracy_interval:.1f}" for m in methods]
        table.add_row(str(shot), *cells)
    return table
