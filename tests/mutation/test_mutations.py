"""The tests notice faults: a few of the list are planted here, all of them by `make chaos`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from faults import FAULTS, QUICK

RUN = Path(__file__).parent / "run.py"


def test_faults_are_listed_once_and_their_texts_occur_once() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert set(QUICK) <= {fault.name for fault in FAULTS}
    source = Path(__file__).resolve().parents[2] / "src" / "fewtask"
    counts = {fault.name: (source / fault.file).read_text(encoding="utf-8").count(fault.old) for fault in FAULTS}
    assert counts == dict.fromkeys(counts, 1), "these faults no longer fit the source"


def test_a_handful_of_faults_is_noticed() -> None:
    done = subprocess.run([sys.executable, str(RUN), "--quick"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(QUICK)} of {len(QUICK)} faults noticed" in done.stdout
