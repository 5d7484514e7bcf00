"""Folders of pictures or sounds: task/class/file, or class/file for a pool of classes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fewtask.bounds import MEMBERS
from fewtask.errors import DataError
from fewtask.features import images, sound
from fewtask.features.base import Featuriser
from fewtask.features.images import Images
from fewtask.features.sound import Sound
from fewtask.features.table import Table
from fewtask.own.columns import Columns
from fewtask.own.data import OwnData

COLUMN = "file"


def read_folder(folder: Path, columns: Columns) -> OwnData:
    """Labels and tasks are the names of the folders that a file lies in."""
    if columns.inputs or columns.label or columns.task:
        raise DataError(f"{folder} is a folder and has no columns: its sub-folders are the tasks and classes")
    pictures, sounds, others = [], [], 0
    for path in files_below(folder):
        ending = path.suffix.lower()
        if ending in images.ENDINGS:
            pictures.append(path)
        elif ending in sound.ENDINGS:
            sounds.append(path)
        else:
            others += 1
    if bool(pictures) == bool(sounds):
        both = f"{len(pictures):,} pictures and {len(sounds):,} sounds" if pictures else "no picture and no sound"
        raise DataError(f"{folder} holds {both}: give a folder of task/class/file or class/file of one kind")
    files = pictures or sounds
    depths = {len(path.parts) for path in files}
    if depths not in ({2}, {3}):
        odd = next((path for path in files if len(path.parts) not in (2, 3)), files[0])
        raise DataError(
            f"{folder} must be either task/class/file or class/file throughout, and '{odd}' is not like the others"
        )
    labels = np.array([path.parts[-2] for path in files])
    tasks = np.array([path.parts[0] for path in files]) if depths == {3} else None
    featuriser: Featuriser = (
        Images(COLUMN, columns.features, columns.size) if pictures else Sound(COLUMN, columns.features)
    )
    columns.check_options(featuriser.kind)
    layout = "task/class/file" if tasks is not None else "class/file: the classes are a pool"
    notes = [f"took {len(files):,} {'pictures' if pictures else 'sounds'} as {layout}"]
    if others:
        notes.append(f"{others:,} files of other kinds are left out")
    table = Table({COLUMN: [path.as_posix() for path in files]}, folder=folder, source=str(folder))
    own = OwnData(folder.resolve().name, table, np.arange(len(files)), labels, tasks, featuriser, tuple(notes))
    return own.keep(columns.tasks)


def files_below(folder: Path) -> Iterator[Path]:
    """Paths below the folder in the order of their names; hidden ones are left out."""
    count = 0
    for place, inner, files in os.walk(folder):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith("."):
                count += 1
                if count > MEMBERS:
                    raise DataError(f"{folder} holds more than {MEMBERS:,} files: name a smaller folder")
                yield (Path(place) / name).relative_to(folder)
