"""Flags that say what a user's own data are, shared by the commands that read them."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

if TYPE_CHECKING:
    from fewtask.own.columns import Columns

TABLES = (".csv", ".tsv", ".tab", ".txt", ".parquet", ".pq", ".npz")
Names = Annotated[str | None, tyro.conf.arg(metavar="A,B,...")]
Name = Annotated[str | None, tyro.conf.arg(metavar="COLUMN")]


@dataclass(frozen=True, kw_only=True)
class OwnFlags:
    """What the columns are for. What is not said is looked for, and what was taken for what is printed."""

    task_column: Name = None
    """Column that names the task of each row (a long table)."""
    label_column: Name = None
    """Column of the classes (a long table)."""
    tasks: Names = None
    """Columns of a wide table that are tasks, one each; of a long table or folder: the tasks to use."""
    feature_columns: Names = None
    """Columns of numbers and categories."""
    smiles_column: Name = None
    """Column of molecules as SMILES."""
    text_column: Names = None
    """One column of text, or two."""
    image_column: Name = None
    """Column of paths to pictures, relative to the table."""
    audio_column: Name = None
    """Column of paths to sounds, relative to the table."""
    features: Annotated[str | None, tyro.conf.arg(metavar="KIND")] = None
    """Molecules: morgan, rdkit, both, counts. Pictures: classic, pixels. Sounds: mel, yamnet."""
    image_size: Annotated[int | None, tyro.conf.arg(metavar="PIXELS")] = None
    """Side of the square that pictures are scaled to; unset: as large as they are, 16 to 84."""
    missing: Literal["skip", "mean"] = "skip"
    """Rows with a blank among their numbers are left out, or take the mean there."""

    def columns(self, *more_tasks: str) -> Columns:
        """`more_tasks` are used too, where tasks are named."""
        from fewtask.own.columns import Columns

        tasks = split_names(self.tasks)
        return Columns(
            task=self.task_column,
            label=self.label_column,
            tasks=tuple(dict.fromkeys((*tasks, *more_tasks))) if tasks else (),
            numbers=split_names(self.feature_columns),
            smiles=self.smiles_column,
            text=split_names(self.text_column),
            image=self.image_column,
            audio=self.audio_column,
            features=self.features,
            size=self.image_size,
            missing=self.missing,
        )


def split_names(text: str | None) -> tuple[str, ...]:
    """a,b,c to names; a name with a comma stands in quotes."""
    if not text:
        return ()
    return tuple(name.strip() for name in next(csv.reader([text], skipinitialspace=True)) if name.strip())


def is_own(word: str) -> bool:
    """Whether a word is a path to a user's own data, and not the name or the file of a preset."""
    if word.endswith(".toml") or word.startswith("-"):
        return False
    path = Path(word)
    return path.suffix.lower() in TABLES or path.is_dir() or os.sep in word
