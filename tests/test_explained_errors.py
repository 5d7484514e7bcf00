"""Errors name the page that explains them, where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from fewtask.cli import main
from fewtask.cli.explained import DAMAGED, PAGES, page_of, sentence
from fewtask.errors import DamagedError, SettingsError

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("argv", "page"),
    [
        (["data", "prepare", "tox21", "--raw-dir", "nowhere", "--data-dir", "cache"], "docs/data.md"),
        (["check", "nowhere.csv"], "docs/your-own-data.md"),
        (["list", "--plugin", "nowhere.py"], "docs/extend.md"),
    ],
)
def test_the_page_follows_the_room(
    argv: list[str], page: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEWTASK_PLUGINS", "")
    assert main(argv) == 1
    err = capsys.readouterr().err
    assert err.endswith(f" [{page}]\n")
    assert err.count("\n") == 1


def test_errors_without_a_page_are_their_message_alone() -> None:
    assert sentence(SettingsError("no")) == "fewtask: no"
    assert page_of(DamagedError("cut off")) == DAMAGED


def test_every_page_exists_and_every_room_too() -> None:
    assert (ROOT / DAMAGED).is_file()
    for room, page in PAGES.items():
        assert (ROOT / page).is_file(), page
        path = ROOT / "src" / "fewtask" / room.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").is_file(), room
