"""`fewtask data`: what data sets there are, preparing them, checking them and looking at them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from fewtask.cli.common import make_console, progress_on
from fewtask.datasets import SOURCES, get_source
from fewtask.datasets.base import Source
from fewtask.errors import DataError, FewtaskError
from fewtask.pool import Dataset
from fewtask.settings import DataSettings

DataDir = Annotated[Path | None, tyro.conf.arg(metavar="DIR")]
Kind = Annotated[str | None, tyro.conf.arg(metavar="KIND")]


@dataclass(frozen=True)
class List:
    """List the data sets, and which of them are ready here."""

    data_dir: DataDir = None
    """Folder of prepared data; unset: FEWTASK_DATA, or the user's cache folder."""


@dataclass(frozen=True)
class Prepare:
    """Read the publisher's files of a data set into the cache."""

    name: tyro.conf.Positional[str]
    """A data set, or all."""
    raw_dir: DataDir = None
    """Folder of the publisher's files, which is only read; unset: FEWTASK_RAW, or a download."""
    data_dir: DataDir = None
    """Folder of prepared data; unset: FEWTASK_DATA, or the user's cache folder."""
    features: Kind = None
    """Kind of features, where a data set offers several; unset: the data set's own default."""


@dataclass(frozen=True)
class Verify:
    """Check every byte of a prepared data set against its checksum."""

    name: tyro.conf.Positional[str]
    """A data set, or all that are prepared."""
    data_dir: DataDir = None
    """Folder of prepared data; unset: FEWTASK_DATA, or the user's cache folder."""
    features: Kind = None
    """Kind of features, where a data set offers several; unset: the data set's own default."""


@dataclass(frozen=True)
class Show:
    """Draw a contact sheet: one image of each task or class."""

    name: tyro.conf.Positional[str]
    """A data set of images."""
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE.png")] = None
    """Image file to write; unset: NAME.png in this folder."""
    raw_dir: DataDir = None
    """Folder of the publisher's files, if the data set is not prepared yet."""
    data_dir: DataDir = None
    """Folder of prepared data; unset: FEWTASK_DATA, or the user's cache folder."""


Command = (
    Annotated[List, tyro.conf.subcommand("list")]
    | Annotated[Prepare, tyro.conf.subcommand("prepare")]
    | Annotated[Verify, tyro.conf.subcommand("verify")]
    | Annotated[Show, tyro.conf.subcommand("show")]
)


def main(argv: list[str]) -> int:
    command: Any = tyro.cli(Command, args=argv, prog="fewtask data", description=__doc__)
    console = make_console()
    if isinstance(command, List):
        console.print(list_table(command.data_dir))
    elif isinstance(command, Prepare):
        prepare(command, console)
    elif isinstance(command, Verify):
        verify(command, console)
    else:
        show(command, console)
    return 0


def list_table(data_dir: Path | None) -> Table:
    """Every data set with what is prepared of it; looks at files' sizes only."""
    from fewtask.datasets import cache

    table = Table(
        title=f"Data sets (prepared ones in {cache.data_folder(data_dir)})", title_justify="left", box=SIMPLE_HEAD
    )
    for heading in ("name", "domain", "train / validation / test", "size", "licence", "ready here"):
        table.add_column(
            heading,
            justify="right" if heading == "size" else "left",
            no_wrap=heading in ("name", "size"),
        )
    for source in SOURCES.working().values():
        found = variants(source, data_dir)
        size = _size(sum(found.values())) if found else "-"
        ready = "built in" if source.prepare is None else f"yes ({', '.join(found)})" if found else "no"
        table.add_row(source.name, source.domain, source.splits, size, source.licence, ready)
    return table


def variants(source: Source, data_dir: Path | None) -> dict[str, int]:
    """Prepared variants of a data set and their sizes in bytes."""
    from fewtask.datasets import cache, store

    ending = f"-v{source.version}"
    folders = sorted((cache.data_folder(data_dir) / source.name).glob(f"[!.]*{ending}"))
    whole = [folder for folder in folders if store.problem(folder, checksum=False) is None]
    return {folder.name.removesuffix(ending): (folder / store.ARRAYS).stat().st_size for folder in whole}


def prepare(command: Prepare, console: Console) -> None:
    from fewtask.datasets import cache

    data = DataSettings(features=command.features)
    where: dict[str, Any] = {"data_dir": command.data_dir, "raw_dir": command.raw_dir, "progress": progress_on(console)}
    where["download"] = True
    if command.name != "all":
        manifest = cache.prepare(command.name, data, **where)
        console.print(counts_table(cache.load_dataset(command.name, data, **where)))
        print_info(manifest, console)
        return
    if command.features is not None:
        raise DataError("--features belongs to one data set: prepare that one by its name")
    failed: list[str] = []
    for name in SOURCES:
        try:
            cache.prepare(name, data, **where)
            dataset = cache.load_dataset(name, data, **where)
            console.print(f"{name}: {_sentence(dataset)}")
        except FewtaskError as error:
            failed.append(name)
            console.print(f"{name}: {error}", markup=False)
    if failed:
        raise DataError(f"not prepared: {', '.join(failed)} (the reasons are above)")


def verify(command: Verify, console: Console) -> None:
    from fewtask.datasets import cache

    data = DataSettings(features=command.features)
    names = (
        [command.name] if command.name != "all" else [s for s in SOURCES if cache.is_ready(s, data, command.data_dir)]
    )
    for name in names:
        manifest = cache.verify(name, data, command.data_dir)
        if not manifest:
            console.print(f"{name}: built in, nothing to check")
            continue
        arrays = manifest["arrays"]
        console.print(f"{name}: whole, {_size(arrays['size'])}, sha256 {arrays['sha256'][:16]}", highlight=False)


def show(command: Show, console: Console) -> None:
    from fewtask.datasets import cache

    source = get_source(command.name)
    if source.domain != "image":
        images = ", ".join(name for name, other in SOURCES.working().items() if other.domain == "image")
        raise DataError(f"'{source.name}' is made of {source.domain}, not images: data sets of images are {images}")
    from fewtask.datasets.contact_sheet import draw

    dataset = cache.load_dataset(
        command.name,
        DataSettings(),
        data_dir=command.data_dir,
        raw_dir=command.raw_dir,
        progress=progress_on(console),
    )
    out = command.out or Path(f"{command.name}.png")
    draw(dataset, out)
    console.print(f"drawn: {out}", highlight=False, soft_wrap=True)


def counts_table(dataset: Dataset) -> Table:
    """Tasks, classes and rows of each split."""
    table = Table(title=dataset.name, title_justify="left")
    for heading in ("split", "tasks", "classes", "rows used", "fewest in a class"):
        table.add_column(heading, justify="left" if heading == "split" else "right")
    for split, pool in dataset.splits.items():
        tasks = "class pool" if pool.is_class_pool else str(len(pool.tasks))
        classes = str(len(pool.class_names))
        table.add_row(split, tasks, classes, f"{pool.sizes.sum():,}", f"{pool.sizes.min():,}")
    return table


def print_info(manifest: dict[str, Any], console: Console) -> None:
    """Counts that `prepare` noted (records, failures, repetitions) and the first records that failed."""
    info = manifest.get("info", {})
    numbers = {key: value for key, value in info.items() if isinstance(value, int) and not isinstance(value, bool)}
    if numbers:
        console.print(", ".join(f"{key} {value:,}" for key, value in numbers.items()), highlight=False)
    for failure in info.get("failed_first", []):
        console.print(f"  not read: {failure['where']}", markup=False, highlight=False, soft_wrap=True)


def _sentence(dataset: Dataset) -> str:
    parts = []
    for split, pool in dataset.splits.items():
        parts.append(f"{split} {len(pool.tasks)} tasks, {len(pool.class_names)} classes, {pool.sizes.sum()} rows")
    return "; ".join(parts)


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"
