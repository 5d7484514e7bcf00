"""What README and docs show works as written."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT, RUN, SHOWN, all_pages, blocks, commands

import fewtask
from fewtask.cli import COMMANDS
from fewtask.hypergradient import ESTIMATORS
from fewtask.methods import METHODS

PAGES = {str(page.relative_to(ROOT)): blocks(page.read_text(encoding="utf-8")) for page in all_pages()}
RUNNABLE = [name for name, found in PAGES.items() if any(b.language in RUN and b.reason is None for b in found)]


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of someone who has just installed fewtask: the command on the path, no data."""
    home = tmp_path_factory.mktemp("reader")
    shim = home / "bin" / "fewtask"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fewtask "$@"\n', encoding="utf-8")
    shim.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FEWTASK_")}
    path = os.pathsep.join([str(shim.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
    sources = os.pathsep.join([str(Path(fewtask.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return kept | {"PATH": path, "PYTHONPATH": sources, "FEWTASK_DATA": str(home / "data"), "PYTHONWARNINGS": "ignore"}


@pytest.mark.parametrize("name", RUNNABLE)
def test_every_block_of_a_page_runs(name: str, reader: dict[str, str], tmp_path: Path) -> None:
    runner = [sys.executable, str(Path(__file__).with_name("pages.py")), str(ROOT / name)]
    done = subprocess.run(runner, cwd=tmp_path, env=reader, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


@pytest.mark.parametrize("name", PAGES)
def test_every_block_says_what_it_is(name: str) -> None:
    for block in PAGES[name]:
        assert block.language in (*RUN, *SHOWN), f"{name}, line {block.line}: the block has no language that is known"
        hidden = [] if block.language in RUN else re.findall(r"^(?:fewtask|make|pip) .*", block.code, re.MULTILINE)
        assert not hidden, f"{name}, line {block.line}: commands belong into a block of sh, where they are tested"


def test_the_page_of_methods_explains_every_method() -> None:
    text = (ROOT / "docs" / "every-method.md").read_text(encoding="utf-8")
    headings = set(re.findall(r"[\w-]+", " ".join(re.findall(r"^## (.*)", text, re.MULTILINE))))
    assert set(METHODS) <= headings
    assert set(ESTIMATORS) <= set(re.findall(r"^\| `([\w-]+)`", text, re.MULTILINE))


def test_pages_name_only_commands_that_exist_and_the_readme_names_them_all() -> None:
    named: dict[str, set[str]] = {}
    for name, found in PAGES.items():
        lines = [line for block in found if block.language == "sh" for line in commands(block.code)]
        named[name] = {word for line in lines for word in re.findall(r"^fewtask (\w+)", line)}
        assert named[name] <= set(COMMANDS), name
    assert set(COMMANDS) - named["README.md"] <= {"demo"}, "the README shows every command; the demo is `make demo`"


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_links_outside_the_site_lead_somewhere(name: str) -> None:
    """Those between pages of docs are checked by the strict build."""
    text = (ROOT / name).read_text(encoding="utf-8")
    links = {link.partition("#")[0] for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text)}
    assert not [link for link in links if not (ROOT / link).exists()]


def test_a_block_that_fails_is_noticed(reader: dict[str, str], tmp_path: Path) -> None:
    runner = [sys.executable, str(Path(__file__).with_name("pages.py")), "page.md"]
    shown = {
        "```python\n1 / 0\n```\n": "ZeroDivisionError",
        "```sh\nfewtask evaluate nowhere\n```\n": "ended with 1",
        "```python\nprint(1)  # → 2\n```\n": "'2' was not printed",
    }
    for text, message in shown.items():
        (tmp_path / "page.md").write_text(text, encoding="utf-8")
        done = subprocess.run(runner, cwd=tmp_path, env=reader, capture_output=True, text=True)
        assert done.returncode != 0
        assert message in done.stderr


def test_marks_titles_and_indented_blocks_are_read() -> None:
    marked = "<!-- not run: no net -->\n```sh\nfewtask x\n```\n\n"
    page = marked + '- item\n\n  ```python title="a.py"\n  x = 1\n  ```\n```text\n```\n'
    first, second, third = blocks(page)
    assert (first.language, first.reason) == ("sh", "no net")
    assert (second.language, second.title, second.code, second.reason) == ("python", "a.py", "x = 1\n", None)
    assert third.language == "text"
    assert commands("# no\na \\\n b\nc\n") == ["a   b", "c"]


def test_every_public_name_can_be_imported() -> None:
    for name in fewtask.__all__:
        assert getattr(fewtask, name) is not None


def test_every_command_has_a_module_with_a_main() -> None:
    for name in COMMANDS:
        assert callable(importlib.import_module(f"fewtask.cli.{name}").main)
