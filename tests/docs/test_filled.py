"""What pages copy from elsewhere is what it is there."""

from __future__ import annotations

import importlib.util
import xml.etree.ElementTree as ElementTree
from types import ModuleType

import pytest
from pages import ROOT


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fill_pages", ROOT / "tools" / "fill_pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readme_has_the_results_of_their_page(tool: ModuleType) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    table = tool.results_table(tool.INDEX.read_text(encoding="utf-8"))
    assert tool.filled(readme, table) == readme, "run `make pages`"
    assert table.count("docs/results/") >= 9


def test_the_picture_of_the_house_is_that_of_the_rooms(tool: ModuleType) -> None:
    drawn = tool.HOUSE.read_text(encoding="utf-8")
    assert drawn == tool.house(tool.rooms()), "run `make pages`"
    texts = [element.text for element in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    for room in tool.rooms():
        assert ", ".join(room["modules"]) in texts


def test_a_table_of_results_keeps_links_and_chosen_columns(tool: ModuleType) -> None:
    index = (
        "# Results\n\n"
        "| data set | all methods, test % | Meta-Interpolation | best of the others | difference, paired | seeds |\n"
        "|---|---:|---:|---:|---:|---:|\n| [A](a.md)<br>short | ![A](a.svg) | 1 ± 2 | B<br>3 | -2 | 5 |\n\n"
        "| other | table |\n|---|---|\n| x | y |\n"
    )
    lines = tool.results_table(index).splitlines()
    assert lines[2] == "| [A](docs/results/a.md), short | 1 ± 2 | B 3 | -2 | 5 |"
    assert lines[3] == ""
