"""Experiments as they are declared, and records found wherever they lie."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from grid_helpers import made_up, small

from fewtask.changes import flat
from fewtask.cli import main
from fewtask.errors import SettingsError
from fewtask.experiments.declared import all_experiments, find_experiment, read_experiment
from fewtask.experiments.grid import cell_settings, gather_cells
from fewtask.experiments.ledger import Ledger, run_digest
from fewtask.experiments.tables import COMPARED, get_table
from fewtask.presets import load_preset
from fewtask.settings import to_dict

ROOT = Path(__file__).resolve().parents[2] / "experiments"
HEAD = 'asks = "Who leads?"\nrole = "primary"\nlooked_at = "Nothing."\n'


def declare(folder: Path, text: str, preset: str = 'extends = "nci"\n[train]\nsteps = 7\n') -> Path:
    folder.mkdir(parents=True)
    (folder / "experiment.toml").write_text(HEAD + text)
    (folder / "preset.toml").write_text(preset)
    return folder


def test_a_table_of_the_paper_is_filled_with_the_experiments_preset(tmp_path: Path) -> None:
    text = """
tables = ["table1", "figure-loss"]
seeds = 2
[[rows]]
title = "on validation tasks too"
method = "protonet"
set = { "data.train_on_validation" = true }
seeds = 1
"""
    experiment = read_experiment(declare(tmp_path / "nci" / "short", text))
    assert (experiment.name, experiment.dataset, experiment.seeds, experiment.test) == ("nci/short", "nci", 2, True)
    first, second = experiment.tables
    assert first.columns == ["nci/short"]
    assert [cell.method for cell in first.cells] == ["centroid", *COMPARED, "protonet"]
    assert [cell.method for cell in second.cells] == list(COMPARED)
    papers = {cell.method: cell.paper for cell in get_table("table1").cells if cell.preset == "nci"}
    assert {cell.method: cell.paper for cell in first.cells[:-1]} == papers
    extra = first.cells[-1]
    assert (extra.row, extra.paper, extra.seeds) == ("on validation tasks too", None, 1)
    settings = cell_settings(extra, 0)
    assert (settings.train.steps, settings.data.train_on_validation) == (7, True)


def test_a_map_has_a_table_for_each_pair_of_values_and_all_is_the_preset_itself(tmp_path: Path) -> None:
    text = """
methods = ["protonet", "meta-interpolation"]
[map.rows]
setting = "data.train_tasks"
values = [2, "all"]
[map.columns]
setting = "data.train_rows"
values = [5, 20, "all"]
"""
    (table,) = read_experiment(declare(tmp_path / "nci" / "map", text)).tables
    assert table.kind == "map"
    assert table.reference == "Meta-Interpolation"
    assert len(table.cells) == 12
    assert table.columns[0] == "2 training tasks, 5 rows a class"
    few, whole = cell_settings(table.cells[0], 3).data, cell_settings(table.cells[-1], 3).data
    # Each run of fewer tasks is another draw of them.
    assert (few.train_tasks, few.train_rows, few.draw) == (2, 5, 3)
    assert (whole.train_tasks, whole.train_rows, whole.draw) == (None, None, 0)


def test_settings_of_every_row_and_the_settings_of_another_method(tmp_path: Path) -> None:
    text = """
set = { "train.steps" = 5, "episode.shot" = 3 }
[[rows]]
method = "mean-interpolation"
settings_of = "protonet"
set = { "train.steps" = 6 }
[[rows]]
method = "mean-interpolation"
"""
    preset = 'extends = "nci"\n[methods.protonet.optimizer]\nlr = 0.25\n'
    (table,) = read_experiment(declare(tmp_path / "nci" / "set", text, preset)).tables
    borrowed, own = (cell_settings(cell, 1) for cell in table.cells)
    assert (borrowed.method, borrowed.optimizer.lr, borrowed.train.steps) == ("mean-interpolation", 0.25, 6)
    assert (own.method, own.optimizer.lr, own.train.steps) == ("mean-interpolation", 0.001, 5)
    assert borrowed.episode.shot == own.episode.shot == 3


STAND_IN = """
[optimizer]
weight_decay = 0.3
[model]
scale = 0.5
scale_by = "learned"
[train]
average = 0.9
[methods.protonet.optimizer]
lr = 0.25
[methods.mean-interpolation.optimizer]
lr = 0.125
"""
PARTS = {
    "decay": {"optimizer.weight_decay"},
    "scale": {"model.scale", "model.scale_by"},
    "averages": {"train.average"},
    "encoder start": {"encoder.name"},
    "all tasks": {"data.train_on_validation"},
    "mean": {"method"},
    "set function": {"method"},
    "set function, λ random": {"method", "hyper.period"},
}


@pytest.mark.parametrize("dataset", ["rainbow-digits", "tox21", "nci", "esc50"])
def test_each_row_of_the_ingredients_adds_or_lacks_just_one(dataset: str, tmp_path: Path) -> None:
    best = tmp_path / dataset / "best"
    best.mkdir(parents=True)
    encoder = '[encoder]\nname = "residual-mlp"\n' if dataset == "esc50" else ""
    (best / "preset.toml").write_text(f'extends = "{dataset}"\n' + encoder + STAND_IN)
    shutil.copytree(ROOT / dataset / "ingredients", tmp_path / dataset / "ingredients")
    (table,) = read_experiment(tmp_path / dataset / "ingredients").tables
    made = {cell.row: flat(to_dict(cell_settings(cell, 0))) for cell in table.cells}

    def differing(row: str, other: str) -> set[str]:
        return {key for key, value in made[row].items() if made[other][key] != value}

    for row in made:
        start, plus, part = row.partition(" + ")
        whole, without, lacking = row.partition(" without ")
        if plus:
            assert differing(row, start) == PARTS[part], row
        if without:
            assert differing(row, whole) == PARTS[lacking], row
    assert differing("Meta-Interpolation, λ random", "Meta-Interpolation") == {"hyper.period"}
    for row, method in {"ProtoNet": "protonet", "whole without all tasks": "mean-interpolation",
                        "Meta-Interpolation": "meta-interpolation"}.items():  # fmt: skip
        assert made[row] == flat(to_dict(load_preset(str(best / "preset.toml"), method))), "it is a run of best"
    wanted = {"decay", "scale", "averages", "all tasks", "mean"} | ({"encoder start"} if dataset == "esc50" else set())
    assert {row.removeprefix("whole without ") for row in made if row.startswith("whole without ")} == wanted
    assert {row.removeprefix("bare + ") for row in made if row.startswith("bare + ")} == wanted | {
        "set function", "set function, λ random"
    }  # fmt: skip
    assert differing("bare", "ProtoNet") == set().union(*(PARTS[part] for part in wanted - {"all tasks", "mean"}))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "no tables, no rows and no map"),
        ('tables = ["tabel1"]', "did you mean 'table1'"),
        ('tables = "table1"', "tables is a list of names"),
        ('tables = ["table1"]\nseeds = 0', "seeds is the number of runs"),
        ('tables = ["table1"]\nmethods = ["fomaml"]', "unknown method of table1 'fomaml'"),
        ('tables = ["table1"]\nmethod = ["protonet"]', "unknown key 'method': did you mean 'methods'"),
        ('tables = ["table1"]\nreference = "ProtoNets"', "unknown row 'ProtoNets': did you mean 'ProtoNet'"),
        ('[[rows]]\ntitle = "one"', "a row has no method"),
        ("rows = 3", "a value stands where"),
        ('[[rows]]\nmethod = ["protonet"]', "a value stands where"),
        ('set = 3\n[[rows]]\nmethod = "protonet"', "a value stands where"),
        ('[[rows]]\nmethod = "protonet"\nseed = 1', "unknown key of a row 'seed'"),
        ('[map.rows]\nsetting = "data.train_tasks"\nvalues = [1]', "its map does not say 'columns'"),
    ],
)
def test_a_wrong_declaration_is_refused_with_its_file_and_the_reason(tmp_path: Path, text: str, word: str) -> None:
    with pytest.raises(SettingsError, match=f"experiment.toml: .*{word}"):
        read_experiment(declare(tmp_path / "nci" / "wrong", text))


@pytest.mark.parametrize("key", ["asks", "role", "looked_at"])
def test_what_every_experiment_must_say(tmp_path: Path, key: str) -> None:
    folder = declare(tmp_path / "nci" / "silent", 'tables = ["table1"]')
    path = folder / "experiment.toml"
    path.write_text("\n".join(line for line in path.read_text().splitlines() if not line.startswith(key)))
    with pytest.raises(SettingsError, match=f"does not say '{key}'"):
        read_experiment(folder)


def test_a_data_set_has_one_primary_experiment_and_an_unchosen_preset_waits(tmp_path: Path) -> None:
    declare(tmp_path / "nci" / "first", 'tables = ["table1"]')
    second = declare(tmp_path / "nci" / "second", 'tables = ["table1"]')
    with pytest.raises(SettingsError, match="nci/first and nci/second are both primary"):
        all_experiments(tmp_path)
    (second / "grid.toml").write_text("")
    (second / "preset.toml").unlink()
    assert [one.name for one in all_experiments(tmp_path)] == ["nci/first"]


def test_an_experiment_is_found_by_name_by_folder_and_by_file(tmp_path: Path) -> None:
    folder = declare(tmp_path / "nci" / "one", 'tables = ["table1"]')
    for name in ("nci/one", str(folder), str(folder / "experiment.toml")):
        found = find_experiment(name, tmp_path)
        assert found is not None
        assert found.name == "nci/one"
    assert find_experiment("nci/two", tmp_path) is None


def test_records_are_found_in_the_folders_of_all_experiments_and_written_to_one(tmp_path: Path) -> None:
    first, second = small(seed=1), small(seed=2)
    elsewhere = Ledger(tmp_path / "all" / "digits" / "old" / "records" / "search")
    elsewhere.write(made_up(first, np.arange(40)))
    ledger = Ledger(tmp_path / "all" / "digits" / "new" / "records", tmp_path / "all")
    ledger.write(made_up(second, np.arange(40)))
    assert set(ledger.gather([first, second, small(seed=3)])) == {run_digest(first), run_digest(second)}
    assert not Ledger(ledger.folder).has(first)
    assert [record["seed"] for record in ledger.all()] == [1, 2]
    elsewhere.write_map(first, {"points": []})
    assert ledger.read_map(first) == {"points": []}


def test_of_two_records_of_one_run_the_one_with_meta_test_counts(tmp_path: Path) -> None:
    settings = small()
    record = made_up(settings, np.arange(40), "a")
    for name, changed in (("a", {}), ("b", {"preset": "b"})):
        trial = {key: value for key, value in (record | changed).items() if key != "test" or name == "a"}
        Ledger(tmp_path / name / "records").write(trial)
    found = Ledger(tmp_path, tmp_path).read(settings)
    assert "test" in found


def test_reproduce_runs_what_an_experiment_declares_and_keeps_its_records_with_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = "[train]\nsteps = 2\nvalidation_episodes = 8\n[evaluation]\nepisodes = 8\n[encoder]\nwidth = 4\n"
    text = 'tables = ["table1"]\nmethods = ["centroid", "protonet"]\nseeds = 2\n'
    folder = declare(tmp_path / "all" / "digits" / "tiny", text, f'extends = "rainbow-digits"\n{tiny}')
    flags = ["--experiments", str(tmp_path / "all"), "--work-dir", str(tmp_path / "work")]
    assert main(["reproduce", "digits/tiny", *flags, "--dry-run"]) == 0
    assert "4 runs, 0 in the ledger, 4 to do" in capsys.readouterr().out
    assert main(["reproduce", "digits/tiny", *flags]) == 0
    assert len(list((folder / "records").glob("digits-tiny-*.json"))) == 4
    printed = capsys.readouterr().out
    assert "(2)" in printed
    assert (folder / "tables" / "table1.md").exists()
    # The same experiment in another folder finds its runs there, and what else was written is not taken for a run.
    shutil.copytree(folder, tmp_path / "all" / "digits" / "again", ignore=shutil.ignore_patterns("records"))
    assert main(["reproduce", str(tmp_path / "all" / "digits" / "again"), *flags]) == 0
    assert "4 in the ledger, 0 to do" in capsys.readouterr().out


def test_an_unknown_experiment_is_refused_with_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "tox21/decya", "--experiments", str(ROOT)]) == 1
    assert "did you mean 'tox21/decay'" in capsys.readouterr().err


def test_settings_that_are_yet_to_be_chosen_are_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    declare(tmp_path / "digits" / "strict", 'preset = "../best/preset.toml"\ntables = ["table1"]\n')
    assert main(["reproduce", "digits/strict", "--experiments", str(tmp_path), "--dry-run"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "the settings of digits/strict have not been chosen yet: fewtask tune digits/best" in said


@pytest.mark.parametrize("experiment", all_experiments(ROOT), ids=lambda one: one.name)
def test_every_record_of_a_committed_experiment_is_one_that_it_declares_or_a_trial(experiment) -> None:  # type: ignore[no-untyped-def]
    cells = [cell for table in experiment.tables for cell in table.cells]
    ledger = Ledger(experiment.records, ROOT)
    declared = gather_cells(cells, ledger, experiment.seeds).records
    # One that is declared and waits for its first run has no folder of records.
    assert declared or not experiment.records.exists(), "none of its records is of a run that it declares"
    own = [record for path, record in ledger.files().items() if path.parent == experiment.records]
    assert all(record in declared.values() for record in own)
