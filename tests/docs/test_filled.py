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


def test_every_page_has_what_it_copies(tool: ModuleType) -> None:
    made = tool.pages()
    assert {path.name for path in made} == {"README.md", "what-works.md", "house.svg"}
    for path, text in made.items():
        assert text == path.read_text(encoding="utf-8"), f"{path.name}: run `make pages`"
    assert made[tool.README].count("docs/results/") >= 9
    assert "| weight decay | alone |" in made[tool.WHAT_WORKS]


def test_a_text_goes_between_its_marks_and_nothing_else_changes(tool: ModuleType) -> None:
    page = "a\n<!-- x:begin -->\nold\n<!-- x:end -->\nb <!-- y:begin -->c<!-- y:end -->\n"
    made = tool.filled(page, "x", "new")
    assert made == "a\n<!-- x:begin -->\nnew\n<!-- x:end -->\nb <!-- y:begin -->c<!-- y:end -->\n"


def test_the_picture_of_the_house_has_every_room(tool: ModuleType) -> None:
    drawn = ElementTree.fromstring(tool.house(tool.rooms()))
    texts = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
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
