"""fewtask report: the ledger as one web page, and as a page of the documentation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fewtask.cli.common import make_console, parse
from fewtask.cli.grids import relative

DESCRIPTION = """Make one self-contained web page from the ledger: what was run, the paper's tables beside our numbers,
losses, task maps and cost. Nothing is trained."""
NOTES = "{}-notes.md"


@dataclass(frozen=True)
class Report:
    ledger: Path = Path("results")
    """Folder of the records of finished runs."""
    out: Path = Path("report.html")
    """The page."""
    markdown: Path | None = None
    """Also a page of results in Markdown, for instance docs/results.md."""
    notes: Path | None = None
    """Text for the Markdown page; unset: NAME-notes.md beside it, where there is one."""


def main(argv: list[str]) -> int:
    command = parse(Report, argv, "fewtask report", DESCRIPTION)
    from fewtask.files import write_text
    from fewtask.report.build import page
    from fewtask.report.collect import collect
    from fewtask.report.markdown import read_notes, results

    notes = command.notes
    if notes is None and command.markdown is not None:
        beside = command.markdown.with_name(NOTES.format(command.markdown.stem))
        notes = beside if beside.is_file() else None
    texts = read_notes(notes)
    collected = collect(command.ledger)
    console = make_console()
    write_text(command.out, page(collected))
    written = [command.out]
    if command.markdown is not None:
        write_text(command.markdown, results(collected, texts))
        written.append(command.markdown)
    names = ", ".join(one.experiment.name for one in collected.filled)
    console.print(
        f"{len(collected.ledger.records)} runs: {names or 'none of a table'}", highlight=False, soft_wrap=True
    )
    console.print(f"written: {', '.join(map(relative, written))}", highlight=False, soft_wrap=True)
    return 0
