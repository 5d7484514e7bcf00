"""Arrows point downhill: docs/rooms.toml names the modules from the ground up, and none imports one above it.

Imports inside functions count like any other.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fewtask"
ROOMS = tomllib.loads((ROOT / "docs" / "rooms.toml").read_text(encoding="utf-8"))["room"]
ORDER = [module for room in ROOMS for module in room["modules"]]
BEGIN, END = "<!-- rooms:begin -->", "<!-- rooms:end -->"


def module_name(path: Path, source: Path = SOURCE) -> str:
    """methods/base.py -> methods.base; methods/__init__.py -> methods; fewtask's own __init__ -> the empty text."""
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(source: Path = SOURCE) -> Iterator[tuple[str, str, int]]:
    """(module, imported module, line) of every import of fewtask within fewtask."""
    paths = {module_name(path, source): path for path in source.rglob("*.py")}
    for module, path in paths.items():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{path}: write imports in full"
                targets = [f"{node.module}.{alias.name}" for alias in node.names]
            else:
                continue
            for target in targets:
                if target.split(".")[0] == "fewtask" and target != "fewtask.__version__":
                    name = target.partition(".")[2]
                    yield module, name if name in paths else name.rpartition(".")[0], node.lineno


def upward(order: list[str], source: Path = SOURCE) -> list[str]:
    """Imports of what stands above, a sentence each; fewtask's own __init__ is the door and opens onto everything."""
    found = []
    for module, target, line in imports(source):
        room, other = module.split(".")[0], target.split(".")[0]
        if module and room != other and order.index(other) > order.index(room):
            found.append(f"{module}, line {line}, imports {target} from above")
    return found


def circles(source: Path = SOURCE) -> dict[str, set[str]]:
    """Modules on a circle of imports: what is left when those that import nothing, or are not imported, are removed."""
    graph: dict[str, set[str]] = {}
    for module, target, _ in imports(source):
        if module and target and module != target:
            graph.setdefault(module, set()).add(target)
    while True:
        imported = {target for targets in graph.values() for target in targets}
        left = {
            module: {target for target in targets if target in graph}
            for module, targets in graph.items()
            if module in imported and any(target in graph for target in targets)
        }
        if left == graph:
            return graph
        graph = left


def table() -> str:
    """The rooms as the README shows them, the last first."""
    lines = ["| | |", "|---|---|"]
    for room in reversed(ROOMS):
        names = [f"`{name}/`" if (SOURCE / name).is_dir() else f"`{name}.py`" for name in room["modules"]]
        lines.append(f"| {', '.join(names)} | {room['does']} |")
    return "\n".join(lines)


def test_every_module_stands_in_a_room() -> None:
    there = {module_name(path).split(".")[0] for path in SOURCE.rglob("*.py")} - {""}
    assert there == set(ORDER), "docs/rooms.toml and src/fewtask differ"
    assert len(set(ORDER)) == len(ORDER)


def test_no_import_points_upwards() -> None:
    assert not upward(ORDER)


def test_no_imports_run_in_a_circle() -> None:
    assert not circles()


def test_the_readme_shows_the_same_rooms() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.partition(BEGIN)[2].partition(END)[0].strip() == table(), f"put this between the marks:\n{table()}"


@pytest.mark.parametrize("place", ["import fewtask.high", "def f():\n    from fewtask.high import thing"])
def test_an_import_from_above_is_noticed_wherever_it_stands(tmp_path: Path, place: str) -> None:
    for name, text in {"__init__": "", "low": place, "high": "import fewtask.low\n"}.items():
        (tmp_path / f"{name}.py").write_text(text)
    (found,) = upward(["low", "high"], tmp_path)
    assert found.startswith("low, line ")
    assert circles(tmp_path) == {"high": {"low"}, "low": {"high"}}
