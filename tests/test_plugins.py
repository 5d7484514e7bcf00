"""Methods, encoders, set functions, estimators and data sets from outside: by a script, and by another package."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from fewtask.cli import main
from fewtask.datasets import SOURCES
from fewtask.encoders import ENCODERS
from fewtask.errors import SettingsError
from fewtask.hypergradient import ESTIMATORS
from fewtask.methods import METHODS
from fewtask.plugins import VARIABLE, Registry, load_named, use_plugin
from fewtask.sets import SET_FUNCTIONS

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SCRIPT = next(block for block in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL) if block.startswith("# mine.py"))
PRESET = """\
dataset = "blobs"

[episode]
way = 2
shot = 2
query = 3
batch = 2

[encoder]
name = "narrow"

[set_function]
name = "largest"

[hyper]
estimator = "half"
period = 2

[train]
steps = 4
validate_every = 2
validation_episodes = 6

[evaluation]
episodes = 6
query = 4
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages that Python knows of; what registries learn from it is forgotten again."""
    registries = (METHODS, ENCODERS, SET_FUNCTIONS, ESTIMATORS, SOURCES)
    before = [dict(registry._known) for registry in registries]
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    for registry in registries:
        registry.__dict__.pop("_entries", None)
    yield tmp_path / "site"
    for registry, known in zip(registries, before):
        registry._known = known
        registry.__dict__.pop("_entries", None)


def install(site: Path, name: str, entries: Mapping[str, str], modules: Mapping[str, str]) -> None:
    """What pip leaves behind: the modules, and a dist-info with the entry points."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("".join(f"[fewtask.{key}]\n{entry}\n\n" for key, entry in entries.items()))
    for module, text in modules.items():
        (site / f"{module}.py").write_text(text)
    importlib.invalidate_caches()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "blobs.toml").write_text(PRESET)
    return tmp_path


def test_a_script_brings_all_five_kinds_and_workers_know_them(folder: Path) -> None:
    """In processes of their own, as a user would call it."""
    (folder / "mine.py").write_text(SCRIPT)
    flags = ["--seeds", "1", "--workers", "1", "--ledger", "ledger", "--work-dir", "work"]
    command = ["compare", "blobs.toml", "--methods", "mine", "--plugin", "mine.py", *flags]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", VARIABLE: ""}
    done = subprocess.run(
        [sys.executable, "-m", "fewtask", *command], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "Mine" in done.stdout
    (record,) = (path.read_text() for path in (folder / "ledger").glob("blobs-mine-0-*.json"))
    assert '"updates": 2' in record
    assert '"name": "largest"' in record


def test_a_package_is_found_by_its_entry_points(
    folder: Path, installed: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    assert main(["train", "blobs.toml", "--method", "mine"]) == 1
    assert "unknown method 'mine'" in capsys.readouterr().err
    for registry in (METHODS, ENCODERS, SET_FUNCTIONS, ESTIMATORS, SOURCES):
        registry.__dict__.pop("_entries", None)
    # A package has no need to register anything: its entry points are names enough.
    plain = re.sub(r"@\w+\.register\n", "", SCRIPT)
    plain = plain.replace('SET_FUNCTIONS.register(lambda settings, d: Largest(d), "largest")', "")
    plain = plain.replace('ENCODERS.register(narrow, "narrow")', "")
    plain = plain.replace("SOURCES.register(Source(", "BLOBS = (Source(")
    assert ".register" not in plain
    entries = {
        "methods": "mine = my_package:Mine",
        "encoders": "narrow = my_package:narrow",
        "set_functions": "largest = my_package:make_largest",
        "estimators": "half = my_package:Half",
        "datasets": "blobs = my_package:BLOBS",
    }
    plain += "\ndef make_largest(settings, d):\n    return Largest(d)\n"
    install(installed, "mine", entries, {"my_package": plain})
    assert main(["train", "blobs.toml", "--method", "mine", "--threads", "1", "--out", "run"]) == 0
    assert "mine on blobs" in capsys.readouterr().out
    assert main(["list", "methods"]) == 0
    assert "Meta-Interpolation under another name" in capsys.readouterr().out
    assert main(["evaluate", "run"]) == 0
    assert "mine on blobs (test)" in capsys.readouterr().out


def test_a_broken_package_is_one_sentence_and_does_not_spoil_the_list(
    installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(installed, "broken", {"methods": "bad = no_such_module:Bad"}, {})
    with pytest.warns(UserWarning, match="package broken cannot be loaded"):
        assert main(["list", "methods"]) == 0
    assert "meta-interpolation" in capsys.readouterr().out
    assert main(["train", "rainbow-digits", "--method", "bad"]) == 1
    assert "the method 'bad' of the package broken cannot be loaded" in capsys.readouterr().err


def test_names_of_the_house_stay_its_own() -> None:
    registry: Registry[type] = Registry("thing", "fewtask.nothing", {"own": int})
    with pytest.raises(SettingsError, match="there is a thing 'own' already"):
        registry.register(float, "own")
    assert registry.register(float, "other") is float
    assert registry["own"] is int
    assert list(registry) == ["own", "other"]
    with pytest.raises(SettingsError, match="needs a name"):
        registry.register(3)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"unknown thing 'othr': did you mean 'other'\?"):
        registry.find("othr")


def test_a_script_is_loaded_once_and_refused_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    counter = tmp_path / "counter.py"
    counter.write_text(
        "import pathlib\nwith (pathlib.Path(__file__).parent / 'seen').open('a') as f:\n    f.write('x')\n"
    )
    use_plugin(str(counter))
    use_plugin(counter)
    load_named()
    assert (tmp_path / "seen").read_text() == "x"
    assert os.environ[VARIABLE] == str(counter.resolve())
    with pytest.raises(SettingsError, match="is no Python file"):
        use_plugin(tmp_path / "missing.py")
    monkeypatch.setenv(VARIABLE, "")
    (tmp_path / "wrong.py").write_text("1 / 0\n")
    with pytest.raises(SettingsError, match=r"cannot be loaded .ZeroDivisionError: division by zero"):
        use_plugin(tmp_path / "wrong.py")


def test_a_script_that_cannot_be_loaded_does_not_spoil_what_comes_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "")
    wrong = tmp_path / "wrong.py"
    wrong.write_text("raise ValueError('no')\n")
    for script in (wrong, tmp_path / "nowhere.py"):
        with pytest.raises(SettingsError, match=r"the plugin .* (cannot be loaded|is no Python file)"):
            use_plugin(script)
        assert os.environ[VARIABLE] == ""
        assert "protonet" in METHODS.working()
