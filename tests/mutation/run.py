"""Plants faults in copies of the source, one at a time, and counts those that the tests notice.

    python tests/mutation/run.py [--quick | NAME ...]

Each fault has a process of its own, forked from this one, which has already imported what is slow and never fewtask.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import hypothesis
import numpy  # noqa: F401, so that the forked processes have it already
import pytest
import torch  # noqa: F401

sys.path.insert(0, str(Path(__file__).parent))
from faults import FAULTS, QUICK, Fault

ROOT = Path(__file__).resolve().parents[2]
NOTICED = int(pytest.ExitCode.TESTS_FAILED)
PASSED = int(pytest.ExitCode.OK)


def check(faults: Sequence[Fault], source: Path = ROOT / "src" / "fewtask") -> list[str]:
    """What is wrong with the list: a text that is not there exactly once plants nothing, or too much."""
    wrong = []
    for fault in faults:
        path = source / fault.file
        count = path.read_text(encoding="utf-8").count(fault.old) if path.is_file() else 0
        if count != 1:
            wrong.append(f"'{fault.name}': its text occurs {count} times in src/fewtask/{fault.file}")
        missing = [test for test in fault.tests if not (ROOT / test.split("::")[0]).is_file()]
        wrong += [f"'{fault.name}': there is no {test}" for test in missing]
    return wrong


def run_with(fault: Fault | None, tests: Sequence[str]) -> int:
    """Exit code of pytest with a fault planted (or none), in a forked process."""
    with tempfile.TemporaryDirectory(prefix="fewtask-fault-") as folder:
        copy = Path(folder) / "src"
        shutil.copytree(ROOT / "src", copy, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        if fault is not None:
            path = copy / "fewtask" / fault.file
            path.write_text(path.read_text(encoding="utf-8").replace(fault.old, fault.new), encoding="utf-8")
        child = os.fork()
        if child == 0:
            _test(copy, tests)
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status)


def _test(source: Path, tests: Sequence[str]) -> None:
    """In the forked process: runs tests against a source folder, silently, and ends the process."""
    code = int(pytest.ExitCode.INTERNAL_ERROR)
    try:
        os.chdir(ROOT)
        os.environ["PYTHONPATH"] = str(source)
        sys.path.insert(0, str(source))
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        # A failure is all that counts here: what the smallest example of it would be does not matter.
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile("planted", phases=phases)
        hypothesis.settings.load_profile("planted")
        code = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--no-header", *tests]))
    finally:
        os._exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="faults by name; all unless given")
    parser.add_argument("--quick", action="store_true", help="only the few that the test suite plants")
    arguments = parser.parse_args(argv)
    chosen = QUICK if arguments.quick else arguments.names
    faults = [fault for fault in FAULTS if not chosen or fault.name in chosen]
    wrong = check(FAULTS)
    if wrong:
        print("the list of faults does not fit the source:", *wrong, sep="\n  ")
        return 2
    if not faults:
        print("no fault has that name; the list is in tests/mutation/faults.py")
        return 2
    noticed, lost, unclear = 0, [], []
    for number, fault in enumerate(faults, start=1):
        code = run_with(fault, fault.tests)
        verdict = {NOTICED: "noticed", PASSED: "NOT NOTICED"}.get(code, f"UNCLEAR (pytest ended with {code})")
        print(f"{number:3d}/{len(faults)}  {verdict:12s}  {fault.file}: {fault.name}", flush=True)
        noticed += code == NOTICED
        if code != NOTICED:
            (lost if code == PASSED else unclear).append(fault.name)
    print(f"{noticed} of {len(faults)} faults noticed")
    return 1 if lost or unclear else 0


if __name__ == "__main__":
    raise SystemExit(main())
