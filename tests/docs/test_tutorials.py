"""Every tutorial runs as it is, from an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from pages import ROOT

import fewtask

FOLDER = ROOT / "tutorials"
SCRIPTS = sorted(FOLDER.glob("*.py"))
MOST_LINES = 60


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    sources = str(Path(fewtask.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([sources, os.environ.get("PYTHONPATH", "")]))
    monkeypatch.delenv("FEWTASK_RAW", raising=False)


def test_they_are_numbered_and_short() -> None:
    assert [path.name[0] for path in SCRIPTS] == [str(number) for number in range(1, len(SCRIPTS) + 1)]
    for path in SCRIPTS:
        assert path.read_text(encoding="utf-8").count("\n") < MOST_LINES, path.name


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_runs(path: Path, environment: None, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error::UserWarning", str(path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert not list(tmp_path.iterdir()), "a tutorial leaves nothing behind"


def test_the_notebook_of_molecules_runs_and_is_stored_without_outputs(environment: None, tmp_path: Path) -> None:
    notebook = nbformat.read(FOLDER / "molecules.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = "".join(
        output.get("text", "")
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.name == "stdout"
    )
    assert "% right" in printed
    assert "model.safetensors" in printed
