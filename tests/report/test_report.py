"""The web page from made-up experiments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from made_records import MAP, TASKS, declare, fill, fill_one, write_cell

from fewtask.cli import main
from fewtask.experiments.ledger import Ledger
from fewtask.experiments.pictures import nice_ticks
from fewtask.experiments.statistics import Mean
from fewtask.experiments.tables import METHOD_TITLES
from fewtask.plotting import METHOD_COLOURS
from fewtask.report.build import judged, page
from fewtask.report.charts import Line, line_chart
from fewtask.report.collect import Collected, collect


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = fill(tmp_path_factory.mktemp("all"))
    fill_one(declare(root, "tox21/where", "exploration", MAP))
    return root


@pytest.fixture(scope="module")
def collected(root: Path) -> Collected:
    return collect(root)


@pytest.fixture(scope="module")
def full_page(collected: Collected) -> str:
    return page(collected)


class Elements(HTMLParser):
    """Every start tag with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def named(self, tag: str) -> Iterator[dict[str, str | None]]:
        return (attributes for name, attributes in self.found if name == tag)


def body_rows(text: str, table: str) -> list[list[str]]:
    """Texts of the cells of a table's body."""
    inner = re.search(rf'<table[^>]*id="{table}">.*?<tbody>(.*?)</tbody>', text, re.S)
    assert inner is not None
    rows = re.findall(r"<tr.*?</tr>", inner[1], re.S)
    cells = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.S) for row in rows]
    return [[re.sub(r"<[^>]*>", "", cell).replace("&nbsp;", " ").strip() for cell in row] for row in cells]


def test_the_first_screen_has_a_row_a_data_set_with_its_picture(full_page: str) -> None:
    rows = body_rows(full_page, "short-table")
    assert [row[0] for row in rows] == ["esc50", "nci", "rmnist", "tox21 exploration"]
    first = full_page.partition('id="data-sets"')[0]
    assert first.count('class="picture"') == 3
    assert "The paper's claims." in first
    # The rest is one click away.
    assert first.count("<details") == 0
    assert re.search(r'<details class="dataset" id="nci">', full_page)


@pytest.mark.parametrize(
    "name", ["nci-main-table1", "esc50-parts-table8", "esc50-parts-figure-set-size", "tox21-where-map"]
)
def test_a_table_has_a_row_for_every_cell_with_the_papers_number_beside_it(
    name: str, full_page: str, collected: Collected
) -> None:
    rows = body_rows(full_page, f"{name}-table")
    shown = {one.experiment.name.replace("/", "-"): one for one in collected.shown}
    tables = {f"{key}-{table.name}": table for key, one in shown.items() for table in one.experiment.tables}
    assert len(rows) == len(tables[name].cells)
    for cell, row in zip(tables[name].cells, rows):
        assert row[0].startswith(cell.row)
        assert any(text.endswith("(2)") for text in row)
        if cell.paper:
            assert f"{cell.paper[0]:.2f} ± {cell.paper[1]:.2f}" in row


def test_all_runs_are_listed_with_their_cost(root: Path, full_page: str) -> None:
    rows = body_rows(full_page, "runs-table")
    records = Ledger(root, root).all()
    assert len(rows) == len(records)
    assert sorted(row[8] for row in rows) == sorted(f"{r['seconds']:,.0f}" for r in records)


def test_test_tasks_are_listed_on_expanding(full_page: str) -> None:
    assert "<summary>Test tasks of nci/main (2)</summary>" in full_page
    assert full_page.count(f">{TASKS[0]}</th>") >= 5


def test_the_page_loads_nothing_from_elsewhere(full_page: str) -> None:
    text = full_page.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?://|//[a-z]|@import|url\(", re.sub(r"^\s*//.*$", "", text, flags=re.M))
    for tag, attributes in Elements(full_page).found:
        assert "src" not in attributes, tag
        if tag == "link":
            assert str(attributes["href"]).startswith("data:")
        elif "href" in attributes:
            assert str(attributes["href"]).startswith("#")


def test_names_from_the_records_are_escaped(full_page: str) -> None:
    assert "&lt;b&gt;task&lt;/b&gt; &amp; 2" in full_page
    assert "assay &lt;0&gt;" in full_page
    assert "Nothing &lt;yet&gt;." in full_page
    assert "<b>" not in full_page
    assert full_page.count("<script>") == 1


def test_links_labels_and_headings_are_in_order(full_page: str) -> None:
    elements = Elements(full_page)
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert {str(a["href"])[1:] for a in elements.named("a")} <= set(ids)
    assert {a["data-for"] for a in elements.named("div") if "data-for" in a} <= set(ids)
    assert all(a.get("scope") in ("row", "col") for a in elements.named("th"))
    assert all(a.get("aria-sort") == "none" for a in elements.named("th") if a["scope"] == "col")
    assert all("aria-label" in a or "aria-hidden" in a for a in elements.named("svg"))


def test_loss_curves_and_task_maps_carry_their_numbers_as_titles(full_page: str) -> None:
    assert "Meta-Interpolation, step 10,000: " in full_page
    assert "<title>assay &lt;0&gt;: inactive</title>" in full_page
    assert "interpolated task 40</title>" in full_page
    for method in ("protonet", "meta-interpolation", "centroid"):
        assert (f"<title>{METHOD_TITLES[method]}, step" in full_page) == (method != "centroid")


def test_a_method_has_one_colour_in_every_figure(full_page: str) -> None:
    for method in ("protonet", "mlti", "meta-interpolation"):
        colours = set(
            re.findall(rf"<title>{METHOD_TITLES[method]}: .*?(#[0-9A-F]{{6}})\"(?: stroke-width|/>)", full_page)
        )
        lines = set(
            re.findall(rf'<g style="color: (#\w+);[^"]*">(?:(?!<g ).)*?<title>{METHOD_TITLES[method]}, step', full_page)
        )
        assert colours | lines == {METHOD_COLOURS[method]}


def test_an_experiment_without_any_run_is_left_out_and_rows_without_one_are_said(tmp_path: Path) -> None:
    fill(tmp_path, 1, ("nci/main",))
    declare(tmp_path, "esc50/none", "primary", 'preset = "esc50"\ntables = ["table1"]')
    some = declare(tmp_path, "rmnist/some", "primary", 'preset = "rmnist"\ntables = ["table2"]')
    write_cell(Ledger(some.records), some.tables[0].cells[1], 1, 1)
    collected = collect(tmp_path)
    assert [one.experiment.name for one in collected.shown] == ["nci/main", "rmnist/some"]
    text = page(collected)
    assert "Not run yet. rmnist/some: Centroid (untrained), MetaReg, MetaMix, MLTI, ProtoNet+ST" in text


def test_no_experiments_are_an_error_that_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--experiments", str(tmp_path / "none"), "--out", str(tmp_path / "report.html")]) == 1
    assert "have no record of a run: make some with fewtask reproduce" in capsys.readouterr().err
    assert not (tmp_path / "report.html").exists()


def test_better_and_worse_are_marked_by_sign_and_interval() -> None:
    assert judged(Mean(0.02, 0.01, 2, "seeds")).mark == "better"
    assert judged(Mean(0.02, 0.03, 2, "seeds")).mark == "better unsure"
    assert judged(Mean(-0.02, 0.01, 2, "seeds")).mark == "worse"
    assert judged(Mean(-0.02, 0.03, 2, "seeds")).meaning == "behind, within its interval"
    assert judged(None).text == "—"


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 0.03), (47.2, 61.9), (5, 5), (0, 0), (-3, 12_345)])
def test_ticks_are_even_and_enclose_the_values(low: float, high: float) -> None:
    ticks = nice_ticks(low, high)
    assert ticks[0] <= low
    assert ticks[-1] >= high
    assert 2 <= len(ticks) <= 8
    assert np.allclose(np.diff(ticks), ticks[1] - ticks[0])


def test_a_chart_without_points_is_nothing_and_one_point_is_a_chart() -> None:
    assert line_chart("t", "step", [Line("a", [], "mlti")], from_zero=True) == ""
    svg = line_chart("t", "step", [Line("a & b", [(100.0, 0.5, 0.0)], "mlti")], from_zero=True)
    assert "a &amp; b, step 100: 0.500" in svg
    assert "nan" not in svg
