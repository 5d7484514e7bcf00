"""What the columns of a table are for: as the user says, or else as they look, which is then said."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fewtask.bounds import listed
from fewtask.errors import DataError
from fewtask.features import images, sound
from fewtask.features.base import Featuriser
from fewtask.features.images import Images
from fewtask.features.molecules import Molecules
from fewtask.features.numbers import MOST_CATEGORIES, MOSTLY, Numbers
from fewtask.features.sound import Sound
from fewtask.features.table import Table
from fewtask.features.text import Text

LABEL_NAMES = ("label", "class", "target", "y", "category")
TASK_NAMES = ("task", "assay", "group", "domain", "dataset", "subject", "site")
SMILES_NAME = re.compile(r"smiles", re.IGNORECASE)
SMILES_SIGNS = re.compile(r"[A-Za-z0-9@+\-\[\]()=#$/\\%.:*~]+")
MOST_CLASSES = 20
"""A column with more values is no assay of a wide table, unless it is named."""
MOST_LABELS = 5_000
LOOKED_AT = 1_000
WORDS = 3
UNLABELLED = frozenset({"", "nan", "na", "n/a", "null"})


@dataclass(frozen=True)
class Columns:
    """What a user says of a table; what is unset is looked for."""

    task: str | None = None
    label: str | None = None
    tasks: tuple[str, ...] = ()
    """Columns of a wide table, one a task; of a long table the tasks to keep."""
    numbers: tuple[str, ...] = ()
    smiles: str | None = None
    text: tuple[str, ...] = ()
    image: str | None = None
    audio: str | None = None
    features: str | None = None
    """Kind of fingerprint, of feature of pictures or of sounds."""
    size: int | None = None
    """Side of pictures in pixels."""
    missing: str = "skip"

    @property
    def inputs(self) -> tuple[str, ...]:
        single = [name for name in (self.smiles, self.image, self.audio) if name is not None]
        return (*self.numbers, *single, *self.text)

    def featuriser(self) -> Featuriser:
        """The one kind of input that the columns name."""
        made: list[Featuriser] = []
        if self.numbers:
            made.append(Numbers(self.numbers, self.missing))  # type: ignore[arg-type]
        if self.smiles:
            made.append(Molecules(self.smiles, self.features))
        if self.text:
            made.append(Text(self.text))
        if self.image:
            made.append(Images(self.image, self.features, self.size))
        if self.audio:
            made.append(Sound(self.audio, self.features))
        if len(made) != 1:
            kinds = ", ".join(one.kind for one in made) or "none"
            raise DataError(
                f"one kind of input is needed and {len(made)} are named ({kinds}): give one of --feature-columns, "
                "--smiles-column, --text-column, --image-column and --audio-column"
            )
        self.check_options(made[0].kind)
        return made[0]

    def check_options(self, kind: str) -> None:
        """Refuses options of another kind of input, which would otherwise do nothing."""
        for flag, given, kinds in (
            ("--features", self.features is not None, ("molecules", "images", "sound")),
            ("--image-size", self.size is not None, ("images",)),
            ("--missing", self.missing != "skip", ("numbers",)),
        ):
            if given and kind not in kinds:
                raise DataError(f"{flag} is for {' and '.join(kinds)}, and these data are {kind}: leave it out")


@dataclass(frozen=True)
class Looked:
    """Complete columns, and what was found by looking: column, what for, and the flag that changes it."""

    columns: Columns
    wide: bool
    found: tuple[tuple[str, str, str], ...] = field(default=())
    unused: tuple[str, ...] = ()

    def notes(self) -> list[str]:
        said = [f"took {what}: {name} (otherwise {flag})" for name, what, flag in self.found]
        if self.unused:
            said.append(f"not used: {listed(self.unused)}")
        return said


def look(table: Table, given: Columns) -> Looked:
    """Fills what the user left open."""
    for name in (*given.inputs, *[n for n in (given.task, given.label) if n is not None]):
        table.column(name)
    found: list[tuple[str, str, str]] = []
    columns = given
    # Tasks that are columns say that the table is wide, whatever else is in it.
    by_column = bool(columns.tasks) and all(name in table.columns for name in columns.tasks)
    if columns.label is None and not by_column:
        columns = _named(table, columns, "label", LABEL_NAMES, "label", "--label-column", found)
    if columns.label is not None and columns.task is None:
        columns = _named(table, columns, "task", TASK_NAMES, "task", "--task-column", found)
    wide = columns.label is None
    if not columns.inputs:
        columns = _input(table, columns, wide, found)
    if wide:
        columns = _assays(table, columns, found)
    elif not columns.inputs:
        columns = _numbers(table, columns, found)
    used = {*columns.inputs, columns.task, columns.label, *(columns.tasks if wide else ())}
    return Looked(columns, wide, tuple(found), tuple(name for name in table.names if name not in used))


def _named(
    table: Table, columns: Columns, what: str, names: Sequence[str], key: str, flag: str, found: list[Any]
) -> Columns:
    """A column that is called what such columns are called."""
    taken = {*columns.inputs, *columns.tasks, columns.task, columns.label}
    for wanted in names:
        for name in table.names:
            if name.lower() == wanted and name not in taken:
                found.append((f"'{name}'", f"the column of the {what}", flag))
                changed: dict[str, Any] = {key: name}
                return replace(columns, **changed)
    return columns


def _input(table: Table, columns: Columns, wide: bool, found: list[Any]) -> Columns:
    """SMILES by its name; pictures, sounds and sentences by what the cells hold."""
    free = [name for name in table.names if name not in {columns.task, columns.label, *columns.tasks}]
    cells = {name: _some(table, name) for name in free}
    for name in free:
        if SMILES_NAME.search(name) and cells[name] and all(SMILES_SIGNS.fullmatch(cell) for cell in cells[name][:20]):
            found.append((f"'{name}'", "SMILES", "--smiles-column"))
            return replace(columns, smiles=name)
    for key, endings, what in (("image", images.ENDINGS, "pictures"), ("audio", sound.ENDINGS, "sounds")):
        for name in free:
            ends = [cell.lower().endswith(endings) for cell in cells[name]]
            if ends and np.mean(ends) >= MOSTLY:
                found.append((f"'{name}'", f"paths of {what}", f"--{key}-column"))
                return replace(columns, **{key: name})  # type: ignore[arg-type]
    sentences = [name for name in free if cells[name] and np.mean([c.count(" ") for c in cells[name]]) >= WORDS]
    if sentences:
        found.append((", ".join(f"'{name}'" for name in sentences[:2]), "text", "--text-column"))
        return replace(columns, text=tuple(sentences[:2]))
    return columns


def _assays(table: Table, columns: Columns, found: list[Any]) -> Columns:
    """The columns of a wide table that are tasks: those with a few values, unless they are named."""
    if not columns.inputs and columns.tasks:
        columns = _numbers(table, columns, found)
    if not columns.inputs:
        raise DataError(
            f"{table.source} has no column that is called label, and none that is SMILES, text or paths: name the "
            f"label with --label-column, or the input, of these columns: {listed(table.names, most=20)}"
        )
    if columns.tasks:
        for name in columns.tasks:
            table.column(name)
        return columns
    free = [name for name in table.names if name not in columns.inputs]
    assays = [name for name in free if _few_values(table.texts(name))]
    if not assays:
        raise DataError(
            f"{table.source} has no label column and no column with 2 to {MOST_CLASSES} values to be a task: name one "
            "with --label-column, or several with --tasks"
        )
    found.append((listed([f"'{name}'" for name in assays], most=20), f"{len(assays)} tasks, a column each", "--tasks"))
    return replace(columns, tasks=tuple(assays))


def _numbers(table: Table, columns: Columns, found: list[Any]) -> Columns:
    """All that is left: numbers, and texts that repeat."""
    taken = {columns.task, columns.label, *columns.tasks}
    chosen = []
    for name in table.names:
        if name in taken or name.startswith("unnamed "):
            continue
        values, wrong = table.numbers(name)
        filled = (~np.isnan(values) | wrong).sum()
        mostly_numbers = filled > 0 and (~wrong & ~np.isnan(values)).sum() >= MOSTLY * filled
        different = len(set(table.texts(name)))
        # A text that hardly repeats is a name or a number of the row.
        if mostly_numbers or (different <= MOST_CATEGORIES and different <= len(table) / 2):
            chosen.append(name)
    if not chosen:
        raise DataError(
            f"{table.source} has no column to classify by beside the labels: name some with --feature-columns, or "
            "SMILES, text, pictures or sounds with their flags"
        )
    found.append((listed([f"'{name}'" for name in chosen]), "numbers and categories", "--feature-columns"))
    return replace(columns, numbers=tuple(chosen))


def _few_values(cells: Sequence[str]) -> bool:
    """Whether a column can be a task: 2 to 20 different labels, which repeat."""
    labels = [label for label in map(as_label, cells) if label]
    return 2 <= len(set(labels)) <= min(MOST_CLASSES, len(labels) // 2)


def as_label(text: str) -> str:
    """A label as a class's name: 1.0 is 1, and what says that nothing is known is ''."""
    if text.lower() in UNLABELLED:
        return ""
    return re.sub(r"^(-?\d+)\.0+$", r"\1", text)


def _some(table: Table, name: str) -> list[str]:
    """The first filled cells of a column; none where it holds numbers."""
    cells = table.column(name)
    if isinstance(cells, np.ndarray):
        return []
    return [text for text in (str(cell or "").strip() for cell in cells[:LOOKED_AT]) if text]
