"""Tables and figures made from a ledger alone."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from grid_helpers import made_up, small

from fewtask.cli import main
from fewtask.datasets.cache import load_dataset
from fewtask.errors import FewtaskError
from fewtask.experiments.figures import line_style
from fewtask.experiments.grid import cell_settings
from fewtask.experiments.ledger import Ledger
from fewtask.experiments.narrowing import narrow
from fewtask.experiments.render import mean_text
from fewtask.experiments.statistics import Mean
from fewtask.experiments.tables import get_table
from fewtask.experiments.task_map import ORIGINAL, project, task_map, task_prototypes
from fewtask.methods import make_method
from fewtask.plotting import method_colour


def fill(folder: Path, name: str, seeds: int) -> None:
    """Every run of a table on rainbow digits, each row three correct queries better than the one before."""
    ledger, table = Ledger(folder), narrow(get_table(name), ["rainbow-digits"])
    rng = np.random.default_rng(0)
    episodes = rng.integers(5, 15, 60)
    for cell in table.cells:
        for seed in range(seeds):
            correct = episodes + 3 * table.rows.index(cell.row) + seed
            ledger.write(made_up(cell_settings(cell, seed), correct))


def run(folder: Path, name: str, *more: str) -> int:
    flags = ["--ledger", str(folder), "--work-dir", str(folder / "work"), "--experiments", str(folder / "none"), *more]
    return main(["reproduce", name, "--datasets", "rainbow-digits", *flags])


@pytest.mark.parametrize("name", ["table1", "table3", "table4", "table5", "table6", "table7", "table10"])
def test_a_filled_ledger_gives_a_table_without_running_anything(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    fill(tmp_path, name, seeds=2)
    assert run(tmp_path, name, "--seeds", "2", "--per-task") == 0
    printed = capsys.readouterr().out
    assert "0 to do" in printed
    table = narrow(get_table(name), ["rainbow-digits"])
    for row in table.rows:
        assert row in printed
    with (tmp_path / "tables" / f"{name}.csv").open() as stream:
        rows = {line["row"]: line for line in csv.DictReader(stream)}
    reference = table.rows.index(table.reference)
    for index, row in enumerate(table.rows):
        assert rows[row]["seeds"] == "2"
        if row != table.reference:
            # Three queries of fifty are six points a row.
            assert float(rows[row]["reference_minus_this"]) == pytest.approx(6.0 * (reference - index))
            assert float(rows[row]["difference_interval"]) == pytest.approx(0, abs=1e-6)
            assert rows[row]["difference_basis"] == "seeds"
    document = json.loads((tmp_path / "tables" / f"{name}.json").read_text())
    assert len(document["cells"]) == len(table.cells)
    assert document["cells"][0]["tasks"]["first"]
    page = (tmp_path / "tables" / f"{name}.md").read_text()
    assert f"{table.reference} minus each other row" in page
    assert "### rainbow-digits: test tasks" in page


def test_the_papers_numbers_are_printed_beside_ours(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    cell = next(c for c in get_table("table1").cells if (c.preset, c.method) == ("nci", "protonet"))
    Ledger(tmp_path).write(made_up(cell_settings(cell, 0), np.full(60, 40), "nci"))
    flags = ["--datasets", "nci", "--methods", "protonet", "--seeds", "1", "--ledger", str(tmp_path)]
    assert main(["reproduce", "table1", *flags]) == 0
    printed = capsys.readouterr().out
    assert "80.00 ± 0.00* (1)" in printed
    assert "paper 80.45 ± 0.48" in printed


def test_a_dry_run_counts_and_lists_what_is_missing_and_runs_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    fill(tmp_path, "table4", seeds=1)
    assert run(tmp_path, "table4", "--seeds", "3", "--dry-run") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("9 runs, 3 in the ledger, 6 to do: about")
    assert len(lines) == 7
    assert not (tmp_path / "tables").exists()


@pytest.mark.parametrize("name", ["figure-loss", "figure-set-size"])
def test_a_figure_is_drawn_with_its_numbers_beside_it(name: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    fill(tmp_path, name, seeds=2)
    assert run(tmp_path, name, "--seeds", "2") == 0
    for ending in ("png", "pdf"):
        assert (tmp_path / "figures" / f"{name}.{ending}").stat().st_size > 5_000
    with (tmp_path / "figures" / f"{name}.csv").open() as stream:
        lines = list(csv.DictReader(stream))
    if name == "figure-set-size":
        assert [line["set_size"] for line in lines] == ["1", "2", "3", "4", "5"]
    else:
        # Six methods, two seeds, two points.
        assert len(lines) == 24
        assert {line["loss"] for line in lines} == {"1.5", "1.0"}


def test_a_method_has_its_colour_whatever_stands_beside_it() -> None:
    whole = get_table("figure-loss")
    few = narrow(whole, [], ["mlti", "meta-interpolation"])
    for method in ("mlti", "meta-interpolation"):
        row = next(cell.row for cell in whole.cells if cell.method == method)
        colours = [line_style(table, table.rows.index(row))["color"] for table in (whole, few)]
        assert colours == [method_colour(method)] * 2
    variants = get_table("figure-set-size")
    assert len({line_style(variants, index)["color"] for index in range(len(variants.rows))}) == len(variants.rows)


def test_the_task_map_is_drawn_from_maps_in_the_ledger(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    fill(tmp_path, "figure-tasks", seeds=1)
    ledger = Ledger(tmp_path)
    for cell in narrow(get_table("figure-tasks"), ["rainbow-digits"]).cells:
        settings = cell_settings(cell, 0)
        dataset = load_dataset(settings.dataset, settings.data)
        method = make_method(small(settings.method), dataset.input_shape)
        ledger.write_map(settings, task_map(method, dataset.train, interpolated=9))
    assert run(tmp_path, "figure-tasks") == 0
    with (tmp_path / "figures" / "figure-tasks.csv").open() as stream:
        lines = list(csv.DictReader(stream))
    assert len(lines) == 2 * 12 * 10
    assert sum(line["kind"] == "original" for line in lines) == 2 * ORIGINAL * 10
    assert (tmp_path / "figures" / "figure-tasks.png").exists()


def test_with_the_mean_as_set_function_an_interpolated_prototype_is_halfway_between_its_parents() -> None:
    settings = small("meta-interpolation", changes={"set_function": {"name": "mean"}, "interpolation": {"layer": 4}})
    dataset = load_dataset(settings.dataset, settings.data)
    method = make_method(settings, dataset.input_shape).eval()
    supports = [dataset.train.gather(np.arange(12).reshape(4, 3) + start) for start in (0, 500)]
    with torch.no_grad():
        parents = [method.embed(s.flatten(0, 1)).view(4, 3, -1).mean(1) for s in supports]
        halfway = method.interpolated_prototypes(supports)
    torch.testing.assert_close(halfway, (parents[0] + parents[1]) / 2)


def test_mlti_interpolates_on_the_line_between_its_parents() -> None:
    settings = small("mlti", changes={"interpolation": {"layer": 4}})
    dataset = load_dataset(settings.dataset, settings.data)
    method = make_method(settings, dataset.input_shape).eval()
    supports = [dataset.train.gather(np.arange(12).reshape(4, 3) + start) for start in (0, 500)]
    with torch.no_grad():
        one, two = (method.embed(s.flatten(0, 1)).view(4, 3, -1).mean(1) for s in supports)
        mixed = method.interpolated_prototypes(supports)
    weight = ((mixed - two) * (one - two)).sum() / (one - two).pow(2).sum()
    assert 0 <= float(weight) <= 1
    torch.testing.assert_close(mixed, weight * one + (1 - weight) * two)


def test_tasks_of_a_map_have_their_parents_names_and_pair_their_classes() -> None:
    settings = small("meta-interpolation")
    dataset = load_dataset(settings.dataset, settings.data)
    tasks = task_prototypes(make_method(settings, dataset.input_shape), dataset.train, interpolated=5)
    assert [task.parents for task in tasks[:3]] == [(0,), (1,), (2,)]
    assert len({task.name for task in tasks[:3]}) == 3
    for task in tasks[3:]:
        first, second = task.parents
        assert first != second
        assert task.name == f"{tasks[first].name} + {tasks[second].name}"
        assert all(" + " in name for name in task.classes)
        assert task.prototypes.shape == tasks[0].prototypes.shape


def test_a_method_that_does_not_interpolate_has_no_task_map() -> None:
    settings = small("protonet")
    dataset = load_dataset(settings.dataset, settings.data)
    with pytest.raises(FewtaskError, match="does not interpolate"):
        task_map(make_method(settings, dataset.input_shape), dataset.train)


def test_the_projection_keeps_separate_clusters_apart() -> None:
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(2, 80)) * 20
    points = np.concatenate([centre + rng.normal(size=(40, 80)) for centre in centres])
    flat = project(points)
    assert flat.shape == (80, 2)
    middles = flat[:40].mean(0), flat[40:].mean(0)
    for index, point in enumerate(flat):
        own, other = middles[index // 40], middles[1 - index // 40]
        assert np.linalg.norm(point - own) < np.linalg.norm(point - other)


def test_compare_puts_variants_and_their_losses_in_one_table_and_on_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    fill(tmp_path, "table3", seeds=2)
    fill(tmp_path, "table5", seeds=2)
    flags = ["--variants", "all", "--seeds", "2", "--ledger", str(tmp_path), "--page", str(tmp_path / "page.md")]
    assert main(["compare", "rainbow-digits", *flags]) == 0
    page = (tmp_path / "page.md").read_text()
    rows = ("Meta-Interpolation", "without interpolation", "without bilevel optimisation", "without the singleton loss")
    for row in (*rows, "query + support", "query", "support + noise"):
        assert f"| {row} |" in page
        assert row in capsys.readouterr().out + page
    assert "training loss" in page
    assert "compare-rainbow-digits-all.png" in page


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--seeds", "0"], "--seeds 0"),
        (["--steps", "0"], "--steps 0"),
        (["--workers", "-1"], "--workers -1"),
        (["--address", "auto"], "--executor ray"),
        (["--set", "train.step=1"], "unknown setting"),
    ],
)
def test_wrong_flags_are_refused(flags: list[str], message: str, capsys: pytest.CaptureFixture) -> None:
    assert main(["reproduce", "table1", *flags]) == 1
    assert message in capsys.readouterr().err


def test_an_unknown_table_is_refused_with_the_nearest_name(capsys: pytest.CaptureFixture) -> None:
    assert main(["reproduce", "tabel1"]) == 1
    assert "did you mean 'table1'?" in capsys.readouterr().err


@pytest.mark.parametrize(("value", "text"), [(-0.00001, "+0.00"), (-0.0021, "-0.21"), (0.0021, "+0.21")])
def test_a_difference_that_rounds_to_zero_has_no_minus_sign(value: float, text: str) -> None:
    assert mean_text(Mean(value, 0.01, 3, "seeds"), sign=True) == f"{text} ± 1.00"
