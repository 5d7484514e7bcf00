"""Completion in the shell: what a user gets at TAB."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fewtask.cli import COMMANDS, main
from fewtask.cli.completion import completion_script, first_words, flags


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shell") / "fewtask.bash"
    path.write_text(completion_script("bash", COMMANDS), encoding="utf-8")
    return path


def complete(script: Path, *words: str) -> set[str]:
    """What bash offers when TAB is pressed at the end of the last word."""
    line = " ".join(f"'{word}'" for word in words)
    asked = (
        f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _fewtask; printf '%s\\n' ${{COMPREPLY[@]}}"
    )
    run = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
    assert run.stderr == ""
    return set(run.stdout.split())


def test_bash_completes_commands_flags_and_names(bash: Path) -> None:
    assert set(COMMANDS) <= complete(bash, "fewtask", "")
    assert complete(bash, "fewtask", "tr") == {"train"}
    assert complete(bash, "fewtask", "train", "rainbow") == {"rainbow-digits", "rainbow-digits-best"}
    assert complete(bash, "fewtask", "train", "tox21", "--set-function.h") == {
        "--set-function.heads",
        "--set-function.hidden",
    }
    assert complete(bash, "fewtask", "train", "tox21", "--method", "mlt") == {"mlti"}
    assert complete(bash, "fewtask", "data", "ver") == {"verify"}
    assert complete(bash, "fewtask", "data", "prepare", "tox21", "--raw") == {"--raw-dir"}


def test_after_another_flag_bash_offers_files(bash: Path) -> None:
    assert complete(bash, "fewtask", "train", "tox21", "--out", "") == set()


def test_flags_are_those_of_the_command_alone() -> None:
    assert "--split" in flags("evaluate")
    assert "--train.steps" not in flags("evaluate")
    assert "rainbow-digits" in first_words("train")
    assert first_words("evaluate") == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_know_the_same_names(shell: str) -> None:
    script = completion_script(shell, COMMANDS)
    for word in (*COMMANDS, "rainbow-digits", "meta-interpolation", "set-function.hidden"):
        assert word in script


def test_the_command_prints_the_script(bash: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--completion", "bash"]) == 0
    assert capsys.readouterr().out == bash.read_text(encoding="utf-8")
    assert main(["--completion", "tcsh"]) == 1
    assert "known are bash, fish, zsh" in capsys.readouterr().err


def test_list_without_a_word_lists_all_three_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    for kind in ("datasets", "methods", "presets"):
        assert main(["list", kind]) == 0
        assert capsys.readouterr().out in shown
