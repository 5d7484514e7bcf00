"""fewtask report: the declared experiments as one web page, and as pages of the documentation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fewtask.cli.common import make_console, parse
from fewtask.cli.grids import relative

DESCRIPTION = """Make one self-contained web page from the declared experiments and their records: what was found on one
screen, and behind it the tables of every data set beside the paper's numbers, losses, task maps and cost. Nothing is
trained."""


@dataclass(frozen=True)
class Report:
    experiments: Path = Path("experiments")
    """Folder of declared experiments."""
    out: Path = Path("report.html")
    """The page."""
    markdown: Path | None = None
    """Also pages of results in Markdown in this folder, for instance docs/results."""


def main(argv: list[str]) -> int:
    command = parse(Report, argv, "fewtask report", DESCRIPTION)
    from fewtask.files import write_text
    from fewtask.report.build import page
    from fewtask.report.collect import collect
    from fewtask.report.markdown import pages

    collected = collect(command.experiments)
    console = make_console()
    write_text(command.out, page(collected))
    written = [command.out]
    if command.markdown is not None:
        for name, text in pages(collected).items():
            write_text(command.markdown / name, text)
        written.append(command.markdown)
    shown = f"{len(collected.files)} runs of {len(collected.shown)} experiments on {len(collected.datasets)} data sets"
    console.print(shown, highlight=False, soft_wrap=True)
    console.print(f"written: {', '.join(map(relative, written))}", highlight=False, soft_wrap=True)
    return 0
