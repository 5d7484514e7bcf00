"""Code blocks of Markdown pages, and running a page as its reader would: top to bottom, in an empty folder.

    python tests/docs/pages.py PAGE.md

Blocks of `python` share one namespace. Blocks of `sh` are run line by line. A block with a title is a file to be saved
under that name. A comment `# → TEXT` says what is printed. `<!-- not run: WHY -->` on the line before a block leaves it
out.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUN = ("python", "sh")
SHOWN = ("text", "csv", "toml", "json", "yaml", "html")
"""Languages of blocks that show something and are not run."""
FENCE = re.compile(
    r"(?:^[ ]*<!-- not run: (?P<reason>[^\n]+?) -->\n+)?^[ ]*```(?P<info>[^\n`]*)\n(?P<code>.*?)^[ ]*```[ ]*$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    language: str
    title: str | None
    code: str
    reason: str | None
    line: int


def all_pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> list[Block]:
    found = []
    for match in FENCE.finditer(text):
        language, _, rest = match["info"].strip().partition(" ")
        title = re.search(r'title="([^"]+)"', rest)
        code = textwrap.dedent(match["code"])
        line = text.count("\n", 0, match.start("code")) + 1
        found.append(Block(language, title and title[1], code, match["reason"], line))
    return found


def commands(code: str) -> list[str]:
    """Lines of a shell block, with those that end in a backslash joined to the next."""
    return [line for line in code.replace("\\\n", " ").splitlines() if line.strip() and not line.startswith("#")]


def run(page: Path) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.title is not None:
            path = Path(block.title)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.code, encoding="utf-8")
        elif block.reason is None and block.language in RUN:
            printed = io.StringIO()
            try:
                with contextlib.redirect_stdout(printed):
                    run_block(block, page, names)
            finally:
                sys.stdout.write(printed.getvalue())
            for expected in re.findall(r"# → (.+)", block.code):
                if expected.strip() not in printed.getvalue():
                    sys.exit(f"{page.name}, line {block.line}: '{expected.strip()}' was not printed")


def run_block(block: Block, page: Path, names: dict[str, object]) -> None:
    if block.language == "python":
        exec(compile("\n" * (block.line - 1) + block.code, page.name, "exec"), names)
        return
    from fewtask.cli import main

    for line in commands(block.code):
        words = shlex.split(line, comments=True)
        if words[0] == "fewtask" and not {"|", ">", "&&", ";", "||"} & set(words):
            # In this process: importing torch for every command would take longer than most commands.
            code = main(words[1:])
        else:
            done = subprocess.run(["bash", "-ec", line], stdout=subprocess.PIPE, text=True)
            print(done.stdout)
            code = done.returncode
        if code:
            sys.exit(f"{page.name}, line {block.line}: `{line}` ended with {code}")


if __name__ == "__main__":
    run(Path(sys.argv[1]).resolve())
