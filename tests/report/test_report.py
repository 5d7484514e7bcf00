"""The web page and the page of results from a made-up ledger."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from synthetic import TASKS, fill, record, write_cell

from fewtask.changes import flat, nested
from fewtask.cli import main
from fewtask.experiments.grid import cell_settings
from fewtask.experiments.ledger import Ledger
from fewtask.experiments.statistics import Mean
from fewtask.experiments.tables import METHOD_TITLES, experiment_names, get_experiment
from fewtask.report.build import judged, page
from fewtask.report.charts import Line, line_chart, nice_ticks
from fewtask.report.claims import accuracy_claims, verdict_of
from fewtask.report.collect import Collected, collect, extended_presets, standings
from fewtask.report.markdown import read_notes, results
from fewtask.report.present import differing
from fewtask.settings import update


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("full")
    fill(folder)
    return folder


@pytest.fixture(scope="module")
def collected(full: Path) -> Collected:
    return collect(full)


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


def cell_of(table: str, preset: str, method: str):  # type: ignore[no-untyped-def]
    return next(c for c in get_experiment(table).cells if (c.preset, c.method) == (preset, method))


def test_every_table_and_figure_of_the_paper_is_on_the_page(full_page: str) -> None:
    ids = {attributes.get("id") for _, attributes in Elements(full_page).found}
    assert set(experiment_names()) <= ids


@pytest.mark.parametrize("name", [n for n in experiment_names() if get_experiment(n).kind in ("table", "set-size")])
def test_a_table_has_a_row_for_every_cell_with_the_papers_number_beside_it(name: str, full_page: str) -> None:
    rows = body_rows(full_page, f"{name}-table")
    experiment = get_experiment(name)
    assert len(rows) == len(experiment.cells)
    for cell, row in zip(experiment.cells, rows):
        assert row[0].startswith(cell.row)
        assert row[1] == cell.column
        assert row[2].endswith("(2)")
        if cell.paper:
            assert row[3] == f"{cell.paper[0]:.2f} ± {cell.paper[1]:.2f}"


def test_all_runs_are_listed_with_their_cost(full: Path, full_page: str) -> None:
    rows = body_rows(full_page, "runs-table")
    records = Ledger(full).all()
    assert len(rows) == len(records)
    assert sorted(row[7] for row in rows) == sorted(f"{r['seconds']:,.0f}" for r in records)


def test_test_tasks_are_listed_on_expanding(full_page: str) -> None:
    assert "<summary>Test tasks of nci (2)</summary>" in full_page
    assert full_page.count(f">{TASKS[0]}</th>") >= len(get_experiment("table1").columns)


def test_the_page_loads_nothing_from_elsewhere(full_page: str) -> None:
    assert not re.search(r"https?://|//[a-z]|@import|url\(", re.sub(r"^\s*//.*$", "", full_page, flags=re.M))
    elements = Elements(full_page)
    for tag, attributes in elements.found:
        assert "src" not in attributes, tag
        if tag == "link":
            assert str(attributes["href"]).startswith("data:")
        elif "href" in attributes:
            assert str(attributes["href"]).startswith("#")


def test_names_from_the_ledger_are_escaped(full_page: str) -> None:
    assert "&lt;b&gt;task&lt;/b&gt; &amp; 2" in full_page
    assert "assay &lt;0&gt;" in full_page
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
    for method, title in METHOD_TITLES.items():
        assert (f"<title>{title}, step" in full_page) == (method != "centroid")


def test_runs_with_other_settings_are_a_column_of_their_own(tmp_path: Path) -> None:
    ledger = fill(tmp_path, 1, ["table1"])
    for quality, method in enumerate(("protonet", "meta-interpolation")):
        write_cell(ledger, cell_of("table1", "nci", method), quality, 1, {"train": {"steps": 300}})
    one = collect(tmp_path).named("table1")
    assert one is not None
    assert one.present.setups["nci, train.steps=300"] == (("train.steps", 300),)
    short = [r for r in one.test.results if r.cell.column == "nci, train.steps=300"]
    assert [r.cell.row for r in short] == ["ProtoNet", "Meta-Interpolation"]
    assert one.present.missing["nci, train.steps=300"] == [
        "Centroid (untrained)", "MetaReg", "MetaMix", "MLTI", "ProtoNet+ST",
    ]  # fmt: skip
    assert short[0].behind is not None
    assert "train.steps=300" in page(collect(tmp_path))


def test_a_preset_that_extends_the_papers_is_explained(tmp_path: Path) -> None:
    cell = replace(cell_of("table1", "esc50", "metamix"), preset="esc50-residual-tuned", column="esc50-residual-tuned")
    write_cell(fill(tmp_path, 1, ["table1"]), cell, 1, 1)
    found = collect(tmp_path)
    [(name, base, changes)] = extended_presets(found)
    assert (name, base) == ("esc50-residual-tuned", "esc50")
    # What all methods share comes from every preset on the way to the paper's.
    assert "encoder.name=residual-mlp" in dict(changes)["all methods"]
    assert "train.steps=1000" in dict(changes)["all methods"]
    assert dict(changes)["MetaMix"] == "mixup.alpha=2.0"
    assert "Preset esc50-residual-tuned" in page(found)
    text = results(found, {})
    assert "Preset `esc50-residual-tuned` is the paper's `esc50` with" in text
    assert "- MetaMix: mixup.alpha=2.0" in text


def test_the_page_of_results_is_what_the_committed_ledger_gives() -> None:
    """fewtask report --markdown docs/results.md makes it again."""
    root = Path(__file__).resolve().parents[2]
    text = results(collect(root / "results"), read_notes(root / "docs" / "results-notes.md"))
    assert text == (root / "docs" / "results.md").read_text(encoding="utf-8")


def test_a_setup_of_many_settings_has_a_short_name_that_is_explained(tmp_path: Path) -> None:
    changes = {"train": {"steps": 300, "validate_every": 50, "validation_episodes": 100}}
    write_cell(Ledger(tmp_path), cell_of("table1", "nci", "protonet"), 0, 1, changes)
    collected = collect(tmp_path)
    one = collected.named("table1")
    assert one is not None
    assert one.test.columns == ["nci, setup 1"]
    settings = "train.steps=300, train.validate_every=50, train.validation_episodes=100"
    assert f"<dt>setup 1</dt><dd>{settings}</dd>" in page(collected)
    assert "nci, setup 1: `train.steps = 300`, `train.validate_every = 50`" in results(collected, {})


def test_a_setting_that_only_one_method_has_leaves_its_column_whole(tmp_path: Path) -> None:
    """Matched pairs concern Meta-Interpolation alone: ProtoNet's run is the same one."""
    ledger = Ledger(tmp_path)
    write_cell(ledger, cell_of("table1", "nci", "protonet"), 0, 2)
    changes = {"set_function": {"dropout": 0.5}}
    write_cell(ledger, cell_of("table1", "nci", "meta-interpolation"), 1, 2, changes)
    one = collect(tmp_path).named("table1")
    assert one is not None
    assert one.test.columns == ["nci, set_function.dropout=0.5"]
    assert [r.seeds for r in one.test.results] == [2, 2]
    assert one.test.results[0].behind is not None


def test_what_an_ablation_varies_is_a_row_there_and_no_column_of_the_comparison(tmp_path: Path) -> None:
    fill(tmp_path, 1, ["table1", "table3", "figure-set-size"])
    collected = collect(tmp_path)
    first, third = collected.named("table1"), collected.named("table3")
    assert first is not None
    assert third is not None
    assert first.test.columns == get_experiment("table1").columns
    assert len(third.test.results) == 4
    assert collected.named("table5") is None
    assert collected.named("table4") is None


def test_extra_rows_show_what_validation_labels_are_worth(tmp_path: Path) -> None:
    ledger = fill(tmp_path, 1, ["table1"])
    write_cell(ledger, cell_of("table1", "nci", "protonet"), 3, 1, {"data": {"train_on_validation": True}})
    one = collect(tmp_path).named("table1")
    assert one is not None
    assert one.test.columns == get_experiment("table1").columns
    extra = one.test.at("ProtoNet, validation tasks in training", "nci")
    assert extra is not None
    assert extra.cell.paper is None
    assert extra.behind is not None


def test_pairing_at_random_is_a_row_only_where_a_preset_pairs_equal_classes(tmp_path: Path) -> None:
    ledger = fill(tmp_path, 1, ["table1"])
    for method, changes in (("meta-interpolation", {}), ("meta-interpolation", {"label_sharing": False}), ("mlti", {})):
        cell = replace(cell_of("table1", "nci", method), preset="nci-tuned", column="nci-tuned")
        write_cell(ledger, cell, 3, 1, {"interpolation": changes})
    one = collect(tmp_path).named("table1")
    assert one is not None
    rows = [(r.cell.row, r.cell.column) for r in one.test.results]
    added = [(row, column) for row, column in rows if row.endswith("paired at random")]
    assert added == [("Meta-Interpolation, classes paired at random", "nci-tuned")]
    assert len(rows) == len(set(rows)) == len(get_experiment("table1").cells) + 3


def test_runs_that_only_chose_settings_stay_out_of_tables_with_test_numbers(tmp_path: Path) -> None:
    ledger = fill(tmp_path, 1, ["table1"])
    cell = cell_of("table1", "nci", "protonet")
    settings = update(cell_settings(cell, 0), {"optimizer": {"lr": 0.01}})
    ledger.write(record("nci", settings, np.full(60, 20), 1, test=False))
    one = collect(tmp_path).named("table1")
    assert one is not None
    assert one.test.columns == get_experiment("table1").columns
    assert "optimizer.lr=0.01" in page(collect(tmp_path))


def test_differences_of_settings_are_found_and_put_back(tmp_path: Path) -> None:
    settings = update(
        cell_settings(cell_of("table1", "nci", "mlti"), 3), {"train": {"steps": 7}, "mixup": {"alpha": 2}}
    )
    found = differing(record("nci", settings, np.full(60, 20), 1))
    assert found == {"train.steps": 7, "mixup.alpha": 2.0}
    assert flat(nested(found.items())) == found


def test_a_claim_is_held_against_the_sign_and_the_interval_of_the_paired_difference() -> None:
    assert verdict_of(2.0, Mean(0.03, 0.01, 3, "seeds")) == "held"
    assert verdict_of(2.0, Mean(0.03, 0.05, 3, "seeds")) == "same direction"
    assert verdict_of(2.0, Mean(-0.03, 0.05, 3, "seeds")) == "opposite direction"
    assert verdict_of(2.0, Mean(-0.03, 0.01, 3, "seeds")) == "did not hold"
    assert verdict_of(-2.0, Mean(-0.03, 0.01, 3, "seeds")) == "held"
    assert verdict_of(2.0, Mean(0.03, 0.01, 1, "episodes")) == "same direction"


def test_a_claim_that_does_not_hold_is_said_plainly(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    for quality, method in ((4, "protonet"), (0, "meta-interpolation")):
        write_cell(ledger, cell_of("table1", "nci", method), quality, 3)
    collected = collect(tmp_path)
    one = collected.named("table1")
    assert one is not None
    (claim,) = accuracy_claims(one.test)
    assert (claim.text, claim.verdict) == ("Meta-Interpolation is better than ProtoNet", "did not hold")
    assert claim.here.startswith("-1")
    assert "✗ did not hold</span>: Meta-Interpolation is better than ProtoNet" in page(collected)
    text = results(collected, {})
    assert "### Did not hold, or went the other way" in text
    (standing,) = standings(collected)
    assert standing.best.cell.row == "ProtoNet"


def test_better_and_worse_are_marked_by_sign_and_interval() -> None:
    assert judged(Mean(0.02, 0.01, 2, "seeds")).mark == "better"
    assert judged(Mean(0.02, 0.03, 2, "seeds")).mark == "better unsure"
    assert judged(Mean(-0.02, 0.01, 2, "seeds")).mark == "worse"
    assert judged(Mean(-0.02, 0.03, 2, "seeds")).meaning == "behind, within its interval"
    assert judged(None).text == "—"


def test_the_page_of_results_has_tables_gains_costs_and_notes(full: Path, collected: Collected, tmp_path: Path) -> None:
    notes = tmp_path / "results-notes.md"
    notes.write_text("Other features.\n\n## table3\n\nAn ablation's note.\n\n## Rows\n\nFewer rows.\n")
    assert read_notes(notes) == {"": "Other features.\n\n## Rows\n\nFewer rows.", "table3": "An ablation's note."}
    out, text_path = tmp_path / "report.html", tmp_path / "results.md"
    assert main(["report", "--ledger", str(full), "--out", str(out), "--markdown", str(text_path)]) == 0
    text = text_path.read_text(encoding="utf-8")
    general, tables = text.split("## Tables")
    assert "Other features." in general
    assert "### Rows" in general
    assert "An ablation's note." in tables
    one = collected.named("table1")
    assert one is not None
    for result in one.test.results:
        gain = one.gain(result)
        assert (gain is None) == (result.cell.row == "ProtoNet")
        if gain is not None:
            assert f"| {100 * gain.value:+.2f} ± {100 * gain.interval:.2f} |" in tables
    cost = text.split("## Cost of each run")[1]
    assert cost.count("\n| ") == len(Ledger(full).all()) + 1
    assert "<script>" not in text


def test_the_gain_over_protonet_is_the_reference_minus_protonet(collected: Collected) -> None:
    one = collected.named("table4")
    assert one is not None
    reference = one.test.at("Set Transformer", "esc50")
    protonet = one.test.at("ProtoNet", "esc50")
    assert reference is not None
    assert protonet is not None
    assert protonet.behind is not None
    gain = one.gain(reference)
    assert gain is not None
    assert (gain.value, gain.interval) == pytest.approx((protonet.behind.value, protonet.behind.interval))
    # Two correct queries of fifty a row are four points, and these are five rows apart.
    assert gain.value == pytest.approx(0.2, abs=0.02)


def test_an_empty_ledger_is_an_error_that_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["report", "--ledger", str(tmp_path / "none"), "--out", str(tmp_path / "report.html")]) == 1
    assert "has no record of a run: make some with fewtask reproduce" in capsys.readouterr().err
    assert not (tmp_path / "report.html").exists()


def test_missing_notes_are_an_error(full: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    flags = [
        "--out",
        str(tmp_path / "r.html"),
        "--markdown",
        str(tmp_path / "r.md"),
        "--notes",
        str(tmp_path / "no.md"),
    ]
    assert main(["report", "--ledger", str(full), *flags]) == 1
    assert "cannot read the notes" in capsys.readouterr().err


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 0.03), (47.2, 61.9), (5, 5), (0, 0), (-3, 12_345)])
def test_ticks_are_even_and_enclose_the_values(low: float, high: float) -> None:
    ticks = nice_ticks(low, high)
    assert ticks[0] <= low
    assert ticks[-1] >= high
    assert 2 <= len(ticks) <= 8
    assert np.allclose(np.diff(ticks), ticks[1] - ticks[0])


def test_a_chart_without_points_is_nothing_and_one_point_is_a_chart() -> None:
    assert line_chart("t", "step", [Line("a", [], 0)], from_zero=True) == ""
    svg = line_chart("t", "step", [Line("a & b", [(100.0, 0.5, 0.0)], 0)], from_zero=True)
    assert "a &amp; b, step 100: 0.500" in svg
    assert "nan" not in svg
