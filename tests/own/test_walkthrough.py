"""The part of docs/your-own-data.md that needs the publisher's file of Tox21 works as pasted."""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

ROOT = Path(__file__).parents[2]


def block() -> str:
    text = (ROOT / "docs" / "your-own-data.md").read_text(encoding="utf-8")
    (found,) = re.findall(r"test_walkthrough\.py.*?-->\n```sh\n(.*?)```", text, flags=re.DOTALL)
    return str(found)


def run(commands: str, folder: Path) -> str:
    """Runs a block with bash, where `fewtask` is this checkout's."""
    (folder / "bin").mkdir()
    shim = folder / "bin" / "fewtask"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fewtask "$@"\n')
    shim.chmod(0o755)
    places = {"PATH": f"{shim.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        ["bash", "-euc", commands], cwd=folder, env=os.environ | places, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_tox21_as_its_publisher_has_it(publishers_dir: Path, tmp_path: Path) -> None:
    shutil.copy(publishers_dir / "tox21" / "tox21.csv", tmp_path / "tox21.csv")
    printed = run(block(), tmp_path)
    assert "8 cells cannot be used" in printed
    assert "RDKit cannot read" in printed
    with (tmp_path / "p53.csv").open(newline="", encoding="utf-8") as stream:
        rows = [row for row in csv.DictReader(stream) if row["SR-p53"]]
    assert len(rows) > 400
    scores = np.array([float(row["probability_1"]) for row in rows])
    np.testing.assert_allclose(scores, 1 - np.array([float(row["probability_0"]) for row in rows]), atol=1e-4)
    assert roc_auc_score([row["SR-p53"] for row in rows], scores) > 0.6
