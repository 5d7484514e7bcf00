"""Settings chosen on meta-validation: the grid, the choice, and the preset that holds it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from grid_helpers import made_up

from fewtask import presets
from fewtask.changes import flat
from fewtask.cli import main
from fewtask.errors import RunError, SettingsError
from fewtask.experiments.grid import Cell, cell_settings, gather_cells
from fewtask.experiments.ledger import Ledger
from fewtask.experiments.narrowing import named_presets, narrow, narrow_all
from fewtask.experiments.search import Round, candidate_table, choose, preset_text, read_search, sampled
from fewtask.experiments.summary import Summary, summarise
from fewtask.experiments.tables import COMPARED, get_table
from fewtask.presets import load_preset
from fewtask.settings import to_dict

ROOT = Path(__file__).resolve().parents[2] / "experiments"
GRID = """
[every]
"train.average" = [0.0, 0.9]
[methods.protonet]
"optimizer.lr" = [1.0, 0.3]
[methods.mlti]
"mixup.alpha" = [0.5, 2.0]
[times]
settings = ["optimizer.lr"]
"""


@pytest.fixture
def grid(tmp_path: Path) -> Path:
    path = tmp_path / "grid.toml"
    path.write_text(GRID)
    return path


def test_the_declared_grid_has_every_compared_method_with_the_same_budget_and_the_presets_own_values() -> None:
    search = read_search()
    assert set(search.methods) == set(COMPARED)
    for preset in ("nci", "rmnist"):
        for method in COMPARED:
            found = search.candidates(preset, method)
            assert len(found) == 4
            own = flat(presets.read_preset(preset))
            assert any(all(own.get(key, value) == value for key, value in one) for one in found)


def test_candidates_are_all_combinations_and_multiples_are_of_the_presets_value(grid: Path) -> None:
    search = read_search(grid)
    assert search.candidates("rmnist", "protonet") == [
        (("train.average", average), ("optimizer.lr", rate)) for average in (0.0, 0.9) for rate in (0.1, 0.03)
    ]
    fixed = search.without(["train.average"]).candidates("nci", "protonet")
    assert fixed == [(("optimizer.lr", 0.001),), (("optimizer.lr", 0.0003),)]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('[methods.protonet]\n"optimizer.lr" = [1, 2]\n[methods.mlti]\n"mixup.alpha" = [1.0]\n', "same number"),
        ('[methods.protonet]\n"optimizer.speed" = [1]\n', "optimizer.speed"),
        ('[methods.protonets]\n"optimizer.lr" = [1]\n', "protonets"),
        ('[methods.protonet]\n"optimizer.lr" = 1\n', "no list"),
        ('[protonet]\n"optimizer.lr" = [1]\n', r"\[methods.NAME\]"),
        ("not toml", "TOML"),
    ],
)
def test_a_wrong_grid_is_refused_with_the_reason(tmp_path: Path, text: str, word: str) -> None:
    path = tmp_path / "grid.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=word):
        read_search(path)


def validated(cells: list[Cell], ledger: Ledger) -> Summary:
    return summarise(candidate_table(cells), gather_cells(cells, ledger, 1), test=False)


def test_the_best_on_validation_is_chosen_whatever_test_says_and_only_when_all_are_there(
    grid: Path, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "ledger")
    cells = read_search(grid).cells("nci", ["protonet"])
    for number, cell in zip([20, 22, 40, 30], cells):
        with pytest.raises(RunError, match="missing"):
            choose(validated(cells, ledger))
        record = made_up(cell_settings(cell, 0), np.full(40, number), "nci")
        record["test"] = record["test"] | {"accuracy": 1 - record["test"]["accuracy"]}
        ledger.write(record)
    assert [r.cell for r in choose(validated(cells, ledger))["protonet"]] == [cells[2]]
    assert [r.cell for r in choose(validated(cells, ledger), keep=3)["protonet"]] == [cells[2], cells[3], cells[1]]


def test_a_written_preset_extends_its_own_and_stands_in_the_papers_tables(tmp_path: Path) -> None:
    values = (("train.average", 0.9), ("optimizer.lr", 0.0003))
    text = preset_text("nci", "chosen", [{"train": {"steps": 7}}], {"protonet": values})
    path = tmp_path / "nci-x.toml"
    path.write_text(text)
    name = str(path)
    settings = load_preset(name, "protonet")
    assert (settings.dataset, settings.train.steps, settings.train.average) == ("nci", 7, 0.9)
    assert settings.optimizer.lr == 0.0003
    assert settings.episode == load_preset("nci", "protonet").episode
    assert load_preset(name, "mlti").train.average == 0.0
    cells = narrow(get_table("table1"), [name]).cells
    paper = {c.method: c.paper for c in get_table("table1").cells if c.preset == "nci"}
    assert {c.method: c.paper for c in cells} == paper
    assert {c.column for c in cells} == {"nci-x"}
    assert [e.name for e in narrow_all([name])] == ["table1", "figure-loss", "figure-tasks"]
    assert named_presets(["nci"]) == ["nci"]


def test_tune_runs_the_grid_without_meta_test_and_writes_the_choice(
    grid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "chosen.toml"
    small = "train.validation_episodes=8 evaluation.episodes=8 encoder.width=4 set_function.hidden=8 train.average=0.5"
    argv = ["tune", "rainbow-digits", "--grid", str(grid), "--steps", "3", "--set", *small.split()]
    argv += ["--ledger", str(tmp_path / "ledger"), "--work-dir", str(tmp_path / "work"), "--write", str(out)]
    assert main(argv) == 0
    records = Ledger(tmp_path / "ledger").all()
    assert len(records) == 4
    assert not any("test" in record for record in records)
    written = tomllib.loads(out.read_text())
    assert written["extends"] == "rainbow-digits"
    # The command that makes the same choice again, without the places of files.
    assert f"--steps 3 --set {small})" in written["about"]
    assert written["train"] == {"validation_episodes": 8, "average": 0.5, "steps": 3}
    best = max((r for r in records if r["method"] == "mlti"), key=lambda r: r["validation"]["accuracy"])
    assert written["methods"]["mlti"] == {"mixup": {"alpha": best["settings"]["mixup"]["alpha"]}}
    assert "4 to do" in capsys.readouterr().out
    assert main(argv) == 0
    assert "4 in the ledger, 0 to do" in capsys.readouterr().out
    # What was written is a preset at once, and one that a further search may start from.
    assert load_preset(out, "mlti").mixup.alpha == best["settings"]["mixup"]["alpha"]
    again = tmp_path / "below" / "again.toml"
    argv[1], argv[-1] = str(out), str(again)
    assert main([*argv, "--methods", "mlti"]) == 0
    assert tomllib.loads(again.read_text())["extends"] == "../chosen.toml"
    assert main(["train", str(again), "--method", "mlti", "--out", str(tmp_path / "run"), "--train.steps=1"]) == 0


def test_a_sample_has_every_value_equally_often_and_shared_settings_alike_for_all_methods(tmp_path: Path) -> None:
    path = tmp_path / "grid.toml"
    shared = '"optimizer.weight_decay" = [0.0, 0.1, 0.3]\n"train.average" = [0.0, 0.9]\n"model.scale" = [1.0, 0.1]'
    own = '[methods.protonet]\n[methods.mlti]\n"mixup.alpha" = [0.5, 2.0]'
    path.write_text(f"[sample]\ncandidates = 6\nseed = 3\n[every]\n{shared}\n{own}\n")
    search = read_search(path)
    plain, mixed = (search.candidates("nci", method) for method in ("protonet", "mlti"))
    assert len(set(plain)) == len(set(mixed)) == 6
    assert dict(plain[0]) == {"optimizer.weight_decay": 0.0, "train.average": 0.0, "model.scale": 1.0}
    for key, times in (("optimizer.weight_decay", 2), ("train.average", 3), ("model.scale", 3)):
        values = [dict(one)[key] for one in plain]
        assert {values.count(value) for value in values} == {times}
    assert plain == [one[:3] for one in mixed]
    assert sampled({"a": [1, 2], "b": [1, 2]}, 4, 0) != sampled({"a": [1, 2], "b": [1, 2]}, 4, 1)
    path.write_text(f"[sample]\ncandidates = 13\n[every]\n{shared}\n[methods.protonet]\n")
    with pytest.raises(SettingsError, match="no more than their product"):
        read_search(path).candidates("nci", "protonet")


EXPERIMENT = """
asks = "?"
role = "exploration"
looked_at = "Nothing."
[[rows]]
method = "protonet"
"""
ROUNDS = """
preset = "start.toml"
[shared]
"encoder.width" = 4
[[rounds]]
keep = 2
set = { "train.steps" = 1 }
[[rounds]]
seeds = 2
set = { "train.steps" = 2 }
[methods.protonet]
"optimizer.lr" = [1e-1, 1e-3, 1e-9]
"""


def test_an_experiment_declares_where_its_search_starts_its_rounds_and_gets_its_preset(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "digits" / "searched"
    folder.mkdir(parents=True)
    (folder / "experiment.toml").write_text(EXPERIMENT)
    (folder / "grid.toml").write_text(ROUNDS)
    small = "[train]\nvalidation_episodes = 8\n[evaluation]\nepisodes = 8\n"
    (folder / "start.toml").write_text(f'extends = "rainbow-digits"\n{small}')
    search = read_search(folder / "grid.toml")
    assert search.preset == str(folder / "start.toml")
    assert search.rounds == (Round(1, 2, {"train": {"steps": 1}}), Round(2, 1, {"train": {"steps": 2}}))
    flags = ["--experiments", str(tmp_path), "--work-dir", str(tmp_path / "work")]
    assert main(["tune", "digits/searched", *flags]) == 0
    records = Ledger(folder / "records" / "search").all()
    short = [r for r in records if r["settings"]["train"]["steps"] == 1]
    short.sort(key=lambda r: (r["validation"]["accuracy"], -r["validation"]["loss"]))
    full = [r for r in records if r["settings"]["train"]["steps"] == 2]
    assert (len(short), len(full)) == (3, 4)
    assert not any("test" in record for record in records)
    # The worst of the first round has no part in the second.
    assert short[0]["settings"]["optimizer"]["lr"] not in {r["settings"]["optimizer"]["lr"] for r in full}
    means = {
        rate: np.mean([r["validation"]["accuracy"] for r in full if r["settings"]["optimizer"]["lr"] == rate])
        for rate in {r["settings"]["optimizer"]["lr"] for r in full}
    }
    chosen = load_preset(folder / "preset.toml", "protonet")
    assert chosen.optimizer.lr == max(means, key=lambda rate: means[rate])
    assert (chosen.train.steps, chosen.encoder.width, chosen.train.validation_episodes) == (2, 4, 8)
    # A choice that is there is not written over.
    (folder / "preset.toml").write_text('extends = "rainbow-digits"')
    assert main(["tune", "digits/searched", *flags]) == 0
    assert (folder / "preset.toml").read_text() == 'extends = "rainbow-digits"'
    assert "kept as it was" in capsys.readouterr().out


@pytest.mark.parametrize("grid", sorted(ROOT.glob("*/*/grid.toml")), ids=lambda path: "/".join(path.parts[-3:-1]))
def test_the_records_of_a_committed_search_give_its_preset(grid: Path) -> None:
    """fewtask tune EXPERIMENT makes the same choice again."""
    if not (grid.parent / "preset.toml").exists():
        # Declared, and not run yet.
        assert not list((grid.parent / "records").glob("*-centroid-*.json"))
        return
    search = read_search(grid).without(flat(read_search(grid).shared))
    assert search.preset is not None
    written = tomllib.loads((grid.parent / "preset.toml").read_text())
    # A search of some methods alone says so.
    only = re.search(r"--methods (\S+)", written["about"])
    methods = only[1].split(",") if only else list(search.methods)
    assert set(written["methods"]) >= set(methods)
    cells = search.cells(search.preset, methods)
    for one in search.rounds:
        gathered = gather_cells(cells, Ledger(ROOT, ROOT), one.seeds, [search.shared, one.changes])
        chosen = choose(summarise(candidate_table(cells), gathered, test=False), one.keep)
        cells = [result.cell for best in chosen.values() for result in best]
    for cell in cells:
        own = flat(to_dict(load_preset(grid.parent / "preset.toml", cell.method)))
        assert {key: own[key] for key in flat(cell.changes)} == flat(cell.changes), cell.method


@pytest.mark.parametrize(
    "text",
    [
        "methods = 3",
        "[methods]\nprotonet = 3",
        "[methods.protonet]\n[sample]\n",
        "sample = 3\n[methods.protonet]",
        '[methods.protonet]\n[sample]\ncandidates = "x"',
        "times = 3\n[methods.protonet]",
        "rounds = 3\n[methods.protonet]",
        "shared = 3\n[methods.protonet]",
        "preset = 3\n[methods.protonet]",
    ],
)
def test_a_grid_with_a_value_of_the_wrong_kind_is_one_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(text)
    with pytest.raises(SettingsError, match="grid"):
        read_search(tmp_path / "grid.toml")
