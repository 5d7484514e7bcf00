"""What pages copy from elsewhere is what it is there."""

from __future__ import annotations

import importlib.util
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType

import pytest
from pages import ROOT

from fewtask.errors import RunError
from fewtask.files import filled


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
    drawn = {f"{name}.svg" for name in tool.STUDIES if (ROOT / "docs" / "pictures" / f"{name}.svg").exists()}
    assert {path.name for path in made} - drawn == {
        "README.md", "index.md", "what-works.md", "which-method.md", "house.svg", "rainbow-digits-best.toml",
        "speed.md", "second-order.md",
    }  # fmt: skip
    for path, text in made.items():
        assert text == path.read_text(encoding="utf-8"), f"{path.name}: run `make pages`"
    assert made[tool.README].count("docs/results/") >= 9, "each data set and the page of results"
    assert "| weight decay | alone |" in made[tool.WHAT_WORKS]
    assert "Never below the centroid" in made[tool.WHICH]


def test_a_text_goes_between_its_marks_and_nothing_else_changes() -> None:
    page = "a\n<!-- x:begin -->\nold\n<!-- x:end -->\nb <!-- y:begin -->c<!-- y:end -->\n"
    made = filled(page, "x", "new")
    assert made == "a\n<!-- x:begin -->\nnew\n<!-- x:end -->\nb <!-- y:begin -->c<!-- y:end -->\n"
    for wrong in ("a", "<!-- x:begin -->", "<!-- x:end --> <!-- x:begin -->"):
        with pytest.raises(RunError, match="mark it with the lines <!-- x:begin -->"):
            filled(wrong, "x", "new")


def test_the_picture_of_the_house_has_every_room(tool: ModuleType) -> None:
    drawn = ElementTree.fromstring(tool.house(tool.rooms()))
    texts = [element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
    for room in tool.rooms():
        assert ", ".join(room["modules"]) in texts


def test_the_readme_shows_only_data_sets_with_every_method_at_its_best(tool: ModuleType) -> None:
    index = (
        "# Results\n\nMade by it.\n\n"
        "| data set, experiment | all methods, test % | Meta-Interpolation | best of the others | difference, paired "
        "| seeds |\n|---|---:|---:|---:|---:|---:|\n"
        "| [A](a.md)<br>`best` | ![A](a.svg) | 1 ± 2 | B<br>3 | -2 | 5 |\n"
        "| [C](c.md)<br>`best`<br>exploration | ![C](c.svg) | 4 | B<br>3 | +1 | 1 |\n\n"
        "## In short\n\n- One.\n- Two.\n\n| other | table |\n|---|---|\n| x | y |\n"
    )
    lines = tool.results_table(index).splitlines()
    assert lines[0] == "| data set | Meta-Interpolation | best of the others | difference, paired | seeds |"
    assert lines[2:4] == ["| [A](docs/results/a.md) | 1 ± 2 | B 3 | -2 | 5 |", ""]
    assert lines[5:9] == ["", "- One.", "- Two.", ""]
    assert lines[9:] == ["Not yet with every method at its best: [C](docs/results/c.md)."]
    none = tool.results_table(index.replace("`best`", "`decay`")).strip()
    assert none == "Not yet with every method at its best: [A](docs/results/a.md), [C](docs/results/c.md)."


def test_the_map_is_shown_once_it_is_whole(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool, "MAP", tmp_path / "rainbow-digits-map.svg")
    assert tool.map_picture("docs/results") == ""
    tool.MAP.write_text("<svg><text>not run</text></svg>")
    assert tool.map_picture("docs/results") == ""
    tool.MAP.write_text("<svg/>")
    assert "](docs/results/rainbow-digits-map.svg)" in tool.map_picture("docs/results")
