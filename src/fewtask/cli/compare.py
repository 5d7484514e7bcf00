"""fewtask compare PRESET: methods, or variants of Meta-Interpolation, in one table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table

from fewtask.cli.common import make_console, parse
from fewtask.cli.grids import GridFlags, asked_changes, fill_ledger, names, open_ledger, relative, say_failures
from fewtask.errors import FewtaskError

if TYPE_CHECKING:
    from fewtask.experiments.grid import Gathered
    from fewtask.experiments.summary import Summary
    from fewtask.experiments.tables import Table as PaperTable

DESCRIPTION = """Compare methods on a preset, or with --variants the ablations of Meta-Interpolation and its
strategies of interpolation: accuracies, training losses and differences on the same episodes in one table."""
HEADINGS = ("test %", "reference minus this", "validation %", "training loss", "validation loss", "seconds")


@dataclass(frozen=True)
class Compare(GridFlags):
    preset: Annotated[str, tyro.conf.Positional] = "rainbow-digits"
    """A preset: a name, or a file."""
    seeds: int | None = 3
    """Runs with seeds 0 to N - 1 of each method."""
    methods: str = "centroid,protonet,metareg,metamix,mlti,protonet-st,meta-interpolation"
    """Methods separated by commas, or all."""
    variants: Literal["none", "ablations", "strategies", "all"] = "none"
    """Compare variants of Meta-Interpolation instead of methods."""
    page: Annotated[Path | None, tyro.conf.arg(metavar="FILE.md")] = None
    """Also write a Markdown page, with the loss curves beside it."""


def main(argv: list[str]) -> int:
    command = parse(Compare, argv, "fewtask compare", DESCRIPTION)
    shown = carry_through(command, comparison(command), f"fewtask compare {' '.join(argv)}")
    return 0 if shown is None else shown[1]


def carry_through(command: Compare, table: PaperTable, made_by: str) -> tuple[Summary, int] | None:
    """Runs what is missing of a table, shows it and writes its page; the numbers and an exit code, or None when dry."""
    from fewtask.experiments.grid import gather, plan
    from fewtask.experiments.render import LEGEND
    from fewtask.experiments.summary import summarise

    changes = asked_changes(command)
    seeds, ledger, console = command.seeds or 3, open_ledger(command), make_console()
    runs = plan(table.cells, seeds, changes)
    gathered = gather(runs, ledger, seeds, changes)
    failures = fill_ledger(command, runs, gathered, ledger, console)
    if failures is None:
        return None
    summary = summarise(table, gathered, command.test)
    for column in summary.columns:
        console.print(rich_table(summary, column))
    console.print(LEGEND, highlight=False, soft_wrap=True)
    if command.page is not None:
        write_page(command, summary, gathered, made_by, console)
    return summary, say_failures(failures, console)


def comparison(command: Compare) -> PaperTable:
    """The runs as a table of one column."""
    from fewtask.experiments.tables import (
        ABLATIONS,
        METHOD_TITLES,
        OURS,
        STRATEGIES,
        method_cells,
        variant_cells,
    )
    from fewtask.experiments.tables import Table as PaperTable
    from fewtask.methods import METHODS, get_method
    from fewtask.presets import preset_label, read_preset

    read_preset(command.preset)
    label = preset_label(command.preset)
    if command.variants == "none":
        methods = list(METHODS) if command.methods == "all" else names(command.methods)
        for method in methods:
            get_method(method)
        cells = method_cells([command.preset], methods, {})
        reference = METHOD_TITLES[OURS] if OURS in methods else cells[-1].row
        return PaperTable(f"compare-{label}", f"Methods on {label}", cells, reference)
    chosen = {
        "ablations": ABLATIONS,
        "strategies": STRATEGIES,
        # Interpolating supports is Meta-Interpolation itself.
        "all": (*ABLATIONS, *(variant for variant in STRATEGIES if variant.key != "support")),
    }[command.variants]
    reference = "support" if command.variants == "strategies" else METHOD_TITLES[OURS]
    cells = variant_cells(command.preset, chosen, {})
    title = f"Variants of Meta-Interpolation on {label}"
    return PaperTable(f"compare-{label}-{command.variants}", title, cells, reference)


def table_texts(summary: Summary, column: str) -> list[list[str]]:
    """Rows of text under HEADINGS."""
    from fewtask.experiments.render import mean_text, own_text

    rows = []
    for result in (result for result in summary.results if result.cell.column == column):
        validation = result.validation_accuracy
        rows.append(
            [
                result.cell.row,
                own_text(result) if summary.split == "test" else "—",
                mean_text(result.behind, sign=True) if result.cell.row != summary.table.reference else "",
                "—" if validation is None else f"{100 * validation:.2f}",
                *("—" if v is None else f"{v:.3f}" for v in (result.training_loss, result.validation_loss)),
                "—" if result.seconds is None else f"{result.seconds:.0f}",
            ]
        )
    return rows


def rich_table(summary: Summary, column: str) -> Table:
    table = Table(title=_titled(summary, column), title_justify="left")
    table.add_column("")
    for heading in HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for row in table_texts(summary, column):
        table.add_row(*row)
    return table


def _titled(summary: Summary, column: str) -> str:
    return summary.table.title if len(summary.columns) == 1 else f"{summary.table.title}: {column}"


def write_page(command: Compare, summary: Summary, gathered: Gathered, made_by: str, console: Console) -> None:
    """A page with the table, what it means, the loss curves, and the command that made it."""
    from fewtask.experiments.figures import draw
    from fewtask.experiments.render import LEGEND, grid
    from fewtask.files import write_text

    assert command.page is not None
    shown = summary.table
    lines = [f"# {shown.title}", ""]
    for column in summary.columns:
        lines += [f"## {column[:1].upper()}{column[1:]}", ""] if len(summary.columns) > 1 else []
        lines += [*grid(["", *HEADINGS], table_texts(summary, column)), ""]
    lines += [LEGEND.replace("*", "\\*") + f" The reference is {shown.reference}; differences are on the same "]
    lines[-1] += f"{summary.split} episodes. Losses and seconds are means over seeds; the training loss is that of the "
    lines[-1] += "last steps up to the last validation, the validation loss that of the selected weights."
    if command.variants != "none":
        lines[-1] += " Without the singleton loss the training loss is that of interpolated tasks alone."
    lines += [""]
    try:
        drawn = draw(replace(shown, kind="loss"), gathered, command.page.parent)
        picture = next(path.name for path in drawn if path.suffix == ".png")
        lines += [f"![Meta-training and meta-validation loss]({picture})", ""]
    except FewtaskError as error:
        console.print(f"no loss curves: {error}", highlight=False, soft_wrap=True)
    lines += [
        "Made by",
        "",
        "<!-- not run: all of its runs -->",
        "```sh",
        made_by,
        "```",
        "",
    ]
    write_text(command.page, "\n".join(lines))
    console.print(f"written: {relative(command.page)}", highlight=False)
