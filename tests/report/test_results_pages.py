"""The pages of results: one screen, a page a data set, every run; numbers as the records have them."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_records import MAP, declare, fill, fill_one, record, write_cell
from scipy import stats

from fewtask.cli import main
from fewtask.errors import FewtaskError
from fewtask.experiments.grid import cell_settings, gather_cells
from fewtask.experiments.ledger import Ledger
from fewtask.experiments.pictures import heat_map
from fewtask.experiments.statistics import Mean
from fewtask.experiments.summary import summarise
from fewtask.report.claims import Claim, accuracy_claims, chance_of, corrected, verdict_of
from fewtask.report.collect import Collected, collect
from fewtask.report.findings import read_findings
from fewtask.report.markdown import pages
from fewtask.report.prose import html
from fewtask.report.short import in_short

COMMITTED = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Collected:
    return collect(fill(tmp_path_factory.mktemp("all")))


def test_the_committed_pages_are_what_the_committed_experiments_give() -> None:
    """fewtask report --markdown docs/results makes them again."""
    folder = COMMITTED / "docs" / "results"
    made = pages(collect(COMMITTED / "experiments"))
    assert sorted(made) == sorted(path.name for path in folder.iterdir())
    for name, text in made.items():
        assert text == (folder / name).read_text(encoding="utf-8"), name


def test_one_row_a_data_set_findings_and_claims_stand_on_the_first_page(collected: Collected) -> None:
    text = pages(collected)["index.md"]
    rows = [line for line in text.splitlines() if line.startswith("| [")]
    assert [re.findall(r"\((\S+).md\)", row)[0] for row in rows] == ["esc50", "nci", "rmnist"]
    assert all("![" in row and "| 17 | 2 |" in row for row in rows)
    assert len(text.splitlines()) < 40
    # Rows are better the later they stand: Meta-Interpolation is ahead of all five by design.
    assert "Of 15 comparisons in the paper's tables, each once a data set" in text


def test_a_page_has_every_number_of_its_experiments(collected: Collected) -> None:
    text = pages(collected)["nci.md"]
    main = next(one for one in collected.shown if one.experiment.name == "nci/main")
    assert text.index("`nci/main`, primary") < text.index("`nci/old`, superseded")
    filled = main.filled[0]
    for result, validation in zip(filled.test.results, filled.validation.results):
        row = next(line for line in text.splitlines() if line.strip("| *").startswith(result.cell.row))
        for mean in (result.accuracy, validation.accuracy, filled.gain(result), result.behind):
            if mean is not None:
                assert f"{100 * mean.value:.2f} ± {100 * mean.interval:.2f}".lstrip("-") in row
        assert f"{result.validation_loss:.3f}" in row
        assert f"| {result.seconds:,.0f} |" in row
    assert "looked at before: Nothing &lt;yet&gt;." in text


def test_the_gain_over_protonet_is_the_reference_minus_protonet(collected: Collected) -> None:
    filled = next(one for one in collected.shown if one.experiment.name == "nci/main").filled[0]
    reference, protonet = (filled.test.at(row, "nci/main") for row in ("Meta-Interpolation", "ProtoNet"))
    assert reference is not None
    assert protonet is not None
    assert protonet.behind is not None
    gain = filled.gain(reference)
    assert gain is not None
    assert (gain.value, gain.interval) == pytest.approx((protonet.behind.value, protonet.behind.interval))
    # Two correct queries of fifty a row are four points, and these are five rows apart.
    assert gain.value == pytest.approx(0.2, abs=0.02)


def test_all_runs_are_in_a_csv_with_the_settings_that_are_their_own(tmp_path: Path) -> None:
    fill(tmp_path, 1, ("nci/main",))
    one = declare(tmp_path, "nci/halves", "exploration", '[[rows]]\nmethod = "mlti"\nset = { "data.strict" = true }', 1)
    (one.folder / "preset.toml").write_text('extends = "nci"')
    write_cell(Ledger(one.records), one.tables[0].cells[0], 1, 1)
    rows = list(csv.DictReader(io.StringIO(pages(collect(tmp_path))["runs.csv"])))
    assert len(rows) == len(Ledger(tmp_path, tmp_path).all()) == 8
    own = next(row for row in rows if row["experiment"] == "nci/halves")
    assert (own["method"], own["settings of its own"], own["seconds"]) == ("MLTI", "data.strict=True", "110")
    assert all(row["settings of its own"] == "" for row in rows if row is not own)


def test_names_from_records_are_text_and_no_markup(tmp_path: Path) -> None:
    text = '[[rows]]\ntitle = "<script>alert(1)</script> a|b_c"\nmethod = "mlti"\n'
    one = declare(tmp_path, "nci/odd", "primary", 'preset = "nci"\nnote = "<img src=x> `a_b` `<b>`"\n' + text, 1)
    fill_one(one)
    for made in pages(collect(tmp_path)).values():
        assert "<script" not in made
        assert "<img" not in made
        assert "<b>" not in made
    page = pages(collect(tmp_path))["nci.md"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt; a\\|b\\_c" in page
    # Code is code, unless it could be more than that.
    assert "&lt;img src=x&gt; `a_b` \\`&lt;b&gt;\\`" in page
    assert html("Text <script> with **strong** `a<b`.\n\n- one\n  and on\n- two") == (
        "<p>Text &lt;script&gt; with <strong>strong</strong> <code>a&lt;b</code>.</p>\n"
        "<ul><li>one and on</li><li>two</li></ul>"
    )


def test_findings_get_their_numbers_from_the_records_and_wrong_ones_are_refused(tmp_path: Path) -> None:
    fill(tmp_path, 2, ("nci/main",))
    path = tmp_path / "findings.md"
    path.write_text("# Heading\n\n- A {{nci/main: ProtoNet}} and\n  {{nci/main validation: MLTI - ProtoNet}} by it.\n")
    collected = collect(tmp_path)
    filled = collected.shown[0].filled[0]
    protonet, mlti = (filled.test.at(row, "nci/main") for row in ("ProtoNet", "MLTI"))
    assert protonet is not None
    assert mlti is not None
    (text,) = read_findings(collected)
    accuracy, gain = re.findall(r"[+-]?\d+\.\d+ ± \d+\.\d+", text)
    assert accuracy == f"{100 * protonet.accuracy.value:.2f} ± {100 * protonet.accuracy.interval:.2f}"  # type: ignore[union-attr]
    assert gain.startswith("+1")
    wrong = {"nci/mian: ProtoNet": "did you mean 'nci/main'", "nci/main: Protonet": "did you mean 'ProtoNet'"}
    for name, word in wrong.items():
        path.write_text(f"- {{{{{name}}}}}")
        with pytest.raises(FewtaskError, match=word):
            read_findings(collected)
    path.write_text("- one\n" * 8)
    with pytest.raises(FewtaskError, match="has 8 findings"):
        read_findings(collected)


def test_a_claim_is_held_against_the_sign_and_the_interval_of_the_paired_difference() -> None:
    assert verdict_of(2.0, Mean(0.03, 0.01, 3, "seeds")) == "held"
    assert verdict_of(2.0, Mean(0.03, 0.05, 3, "seeds")) == "same direction"
    assert verdict_of(2.0, Mean(-0.03, 0.05, 3, "seeds")) == "opposite direction"
    assert verdict_of(2.0, Mean(-0.03, 0.01, 3, "seeds")) == "did not hold"
    assert verdict_of(-2.0, Mean(-0.03, 0.01, 3, "seeds")) == "held"
    assert verdict_of(2.0, Mean(0.03, 0.01, 1, "episodes")) == "same direction"


def test_the_chance_of_a_difference_is_that_of_a_t_test() -> None:
    values = np.array([0.012, 0.004, 0.031, 0.018])
    interval = stats.t.ppf(0.975, 3) * values.std(ddof=1) / 2
    assert chance_of(Mean(values.mean(), interval, 4, "seeds")) == pytest.approx(stats.ttest_1samp(values, 0).pvalue)
    assert chance_of(Mean(0.01, 0.001, 1, "episodes")) is None


def test_claims_counted_together_are_corrected_by_holm() -> None:
    chances = [0.012, 0.001, 0.03, None, 0.04]
    claims = [Claim("table1", "nci", f"claim {i}", "+1", "+1", "held", chance) for i, chance in enumerate(chances)]
    claims[1] = replace(claims[1], verdict="did not hold")
    # Of four that can be tested 0.001 < 5 % / 4 and 0.012 < 5 % / 3, but 0.03 > 5 % / 2, and so 0.04 has no turn.
    found = [claim.verdict for claim in corrected(claims)]
    assert found == ["held", "did not hold", "same direction", "same direction", "same direction"]


def test_a_claim_that_does_not_hold_is_said_plainly(tmp_path: Path) -> None:
    one = declare(tmp_path, "nci/main", "primary", 'preset = "nci"\ntables = ["table1"]', 3)
    cells = {cell.method: cell for cell in one.tables[0].cells}
    for quality, method in ((4, "protonet"), (0, "meta-interpolation")):
        write_cell(Ledger(one.records), cells[method], quality, 3)
    collected = collect(tmp_path)
    (claim,) = accuracy_claims(collected.shown[0].filled[0].test)
    assert (claim.text, claim.verdict) == ("Meta-Interpolation is better than ProtoNet", "did not hold")
    assert claim.here.startswith("-1")
    made = pages(collected)
    assert "| table1 | Meta-Interpolation is better than ProtoNet | +2.41 |" in made["nci.md"]
    assert "0 held here and 1 did not" in made["index.md"]
    standing = collected.shown[0].standing
    assert standing is not None
    assert standing.best.cell.row == "ProtoNet"


def test_in_short_says_where_it_leads_where_not_and_at_what_cost(tmp_path: Path) -> None:
    text = 'preset = "PRESET"\ntables = ["table1"]\n[[rows]]\nmethod = "mean-interpolation"\n'
    fill_one(declare(tmp_path, "nci/best", "primary", text.replace("PRESET", "nci"), 3))
    # Rows are better the later they stand, and last is mean interpolation: eight of them, two queries of 50 apart.
    other = declare(tmp_path, "tox21/best", "primary", text.replace("PRESET", "tox21"), 3)
    ledger = Ledger(other.records)
    for cell in other.tables[0].cells:
        write_cell(ledger, cell, 6 if cell.method == "meta-interpolation" else 3, 3)
    fill(tmp_path, 1, ("esc50/main",))
    paper = declare(
        tmp_path, "tox21/paper", "exploration", 'preset = "tox21"\ntables = ["table1"]\nset = { "train.steps" = 7 }', 3
    )
    for cell in paper.tables[0].cells:
        write_cell(Ledger(paper.records), cell, 1 if cell.method == "meta-interpolation" else 3, 3)
    collected = collect(tmp_path)
    leads, over, means, with_papers_settings, cost = in_short(collected)
    assert re.search(r"the best of the others Meta-Interpolation is clearly ahead on tox21 \(\+1\d\.\d\d", leads)
    assert re.search(r", clearly behind on nci \(-\d\.\d\d ± \d\.\d\d\)\.$", leads)
    assert "esc50" not in leads, "its methods did not have their best"
    assert over.count("clearly ahead on nci") == 1
    assert "within chance on tox21 (+0.00 ± 0.00)" in means
    assert with_papers_settings.startswith(
        "With the paper's own settings for all, Meta-Interpolation is against ProtoNet"
    )
    assert re.search(r"clearly behind on tox21 \(-\d+\.\d\d ± \d\.\d\d\)\.$", with_papers_settings)
    # A made-up run takes 100 seconds and ten more for each row above it.
    assert cost == (
        "With the time of a ProtoNet run as 1 a run takes 1.0 to 1.5 (Mean interpolation), 1.0 to 1.4 (ProtoNet+ST), "
        "1.2 to 1.5 (Meta-Interpolation)."
    )
    assert f"- {cost}" in pages(collected)["index.md"]


def test_a_heat_map_shows_paired_differences_and_frames_those_that_are_clear(tmp_path: Path) -> None:
    one = declare(tmp_path, "tox21/where", "exploration", MAP, 3)
    ledger = Ledger(one.records)
    (table,) = one.tables
    for cell in table.cells[:-3]:
        # Ahead with few tasks, and on average level, but different from seed to seed, with many.
        few = cell.column.startswith("2 ")
        for seed in range(3):
            lead = 0 if cell.method != "meta-interpolation" else 3 if few else (seed - 1) * 4
            correct = np.random.default_rng(seed).integers(18, 24, 60) + lead
            ledger.write(record("tox21", cell_settings(cell, seed), correct, 1))
    summary = summarise(table, gather_cells(table.cells, ledger, 3))
    svg = heat_map(summary)
    # A panel for ProtoNet and one for MLTI, which are equal here.
    assert svg.count('stroke-width="2.5"') == svg.count("+6.00") == 6
    assert svg.count("+0.00") == 4
    assert svg.count("not run") == svg.count("stroke-dasharray") == 2
    assert "2 training tasks" in svg
    # Against another reference it is the row minus that, and what the map is about comes first.
    turned = heat_map(summarise(replace(table, reference="ProtoNet"), gather_cells(table.cells, ledger, 3)))
    assert turned.count("+6.00") == 3
    assert turned.count("+0.00") == 2 + 5
    assert turned.index("Meta-Interpolation − ProtoNet") < turned.index("MLTI − ProtoNet")
    made = pages(collect(tmp_path))
    assert made["tox21-where.svg"] == svg
    assert "![paired differences](tox21-where.svg)" in made["tox21.md"]
    flags = ["--experiments", str(tmp_path), "--no-run", "--out", str(tmp_path / "out")]
    assert main(["reproduce", "tox21/where", *flags]) == 0
    assert (tmp_path / "out" / "map.svg").read_text(encoding="utf-8") == svg


def test_report_writes_the_page_and_the_folder_of_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = fill(tmp_path / "all", 1, ("nci/main",))
    out, folder = tmp_path / "report.html", tmp_path / "results"
    assert main(["report", "--experiments", str(root), "--out", str(out), "--markdown", str(folder)]) == 0
    assert sorted(path.name for path in folder.iterdir()) == ["index.md", "nci.md", "nci.svg", "runs.csv"]
    assert "7 runs of 1 experiments on 1 data sets" in capsys.readouterr().out
