"""What the README shows works as written."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import fewtask
from fewtask.cli import COMMANDS

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=[f"block{i}" for i in range(len(BLOCKS))])
def test_python_in_the_readme_runs(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    expected = re.search(r"# (\[tensor\(.*)", block)
    if expected:
        assert expected.group(1).strip() in printed


def test_every_public_name_can_be_imported() -> None:
    for name in fewtask.__all__:
        assert getattr(fewtask, name) is not None


def test_every_command_has_a_module_with_a_main() -> None:
    for name in COMMANDS:
        assert callable(importlib.import_module(f"fewtask.cli.{name}").main)


def test_the_readme_names_only_commands_that_exist() -> None:
    shell = "\n".join(re.findall(r"```\n(.*?)```", README, flags=re.DOTALL))
    named = set(re.findall(r"^fewtask (\w+)", shell, flags=re.MULTILINE))
    assert named <= set(COMMANDS)
    assert set(COMMANDS) <= named | set(re.findall(r"^make (\w+)", shell, flags=re.MULTILINE))
