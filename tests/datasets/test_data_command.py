"""`fewtask data`, called as the command line calls it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fewtask.cli.data import main
from fewtask.datasets import SOURCES
from fewtask.errors import DataError, SettingsError


def test_list_names_every_data_set_and_what_is_ready(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--data-dir", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    for name in SOURCES:
        assert name in shown
    assert shown.count("built in") == 1


def test_prepare_prints_counts_and_list_and_verify_then_know_it(
    raw_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rdkit", reason="RDKit is not installed")
    from rdkit import Chem, rdBase

    where = ["--data-dir", str(tmp_path)]
    assert main(["prepare", "tox21", "--raw-dir", str(raw_dir), "--features", "rdkit", *where]) == 0
    shown = capsys.readouterr().out
    lines = (raw_dir / "tox21" / "tox21.csv").read_text().splitlines()
    with rdBase.BlockLogs():
        bad = [n for n, line in enumerate(lines[1:], start=2) if Chem.MolFromSmiles(line.partition(",")[0]) is None]
    assert bad
    assert f"failed {len(bad)}" in shown
    assert f"line {bad[0]}:" in shown
    readable = [line.split(",")[1:] for n, line in enumerate(lines, start=1) if n > 1 and n not in bad]
    assert f"{sum(cell != '' for cells in readable for cell in cells[:6]):,}" in shown, "cells of the training tasks"
    main(["list", *where])
    assert "(rdkit)" in capsys.readouterr().out
    main(["verify", "tox21", "--features", "rdkit", *where])
    assert "tox21: whole" in capsys.readouterr().out
    with pytest.raises(DataError, match="not prepared"):
        main(["verify", "tox21", *where])


def test_show_refuses_what_is_not_made_of_images(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'nci' is made of molecules, not images.*rainbow-digits"):
        main(["show", "nci", "--out", str(tmp_path / "sheet.png")])


def test_show_draws_a_contact_sheet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    out = tmp_path / "sheet.png"
    assert main(["show", "rainbow-digits", "--out", str(out)]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")


def test_preparing_all_goes_on_after_a_failure_and_says_what_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"not prepared: .*metabolism.*nci"):
        main(["prepare", "all", "--raw-dir", str(tmp_path / "empty"), "--data-dir", str(tmp_path / "data")])
    shown = capsys.readouterr().out
    assert "rainbow-digits: train 16 tasks" in shown
    assert "cyp1a2_veith.tab" in shown


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="did you mean 'tox21'"):
        main(["prepare", "tox2", "--data-dir", str(tmp_path)])
