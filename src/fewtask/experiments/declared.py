"""Experiments as they are declared: `experiments/DATA SET/NAME/` holds `experiment.toml` and what belongs to it.

    asks = "Which method leads when each has the best of six settings?"    one sentence
    role = "primary"            or "ablation", "exploration", "superseded"; one primary experiment a data set
    looked_at = "Nothing."      what had been looked at before it was frozen
    preset = "preset.toml"      a file beside it, or a name; unset: preset.toml
    tables = ["table1"]         tables and figures of the paper that it fills with this preset
    methods = ["protonet"]      rows of those tables, or of the map; unset: all
    seeds = 5                   runs of each row
    test = false                meta-validation alone; unset: meta-test too
    reference = "ProtoNet"      the row that the others are compared with; unset: the table's
    set = {"train.steps" = 9}   settings of every row, whatever the preset says
    title, note                 a heading instead of the folder's name, and a remark
    [[rows]]                    a row of its own: title, method, set = {"data.strict" = true}, seeds;
                                settings_of: another method whose settings of the preset it takes instead of its own;
                                refit = true: another that trains on validation tasks too, for the steps it selected;
                                voters = "folds": of the method auto, another way to vote than that of its settings
    [map.rows] [map.columns]    setting, values ("all" leaves it as it is) and title: a table for each pair of values

`grid.toml` is the search that chose `preset.toml`, `records/` holds the runs, `costs.json` what
a step of each row costs. Nothing else is known of an experiment.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

from fewtask.changes import flat, nested
from fewtask.errors import SettingsError, unknown
from fewtask.experiments.declared_rows import compared, map_table, paper_table, row_cells, with_changes
from fewtask.experiments.grid import Changes
from fewtask.experiments.tables import OURS, Table
from fewtask.presets import is_path

Role = Literal["primary", "ablation", "exploration", "superseded"]
ROLES: tuple[Role, ...] = get_args(Role)
ROOT = Path("experiments")
FILE = "experiment.toml"
KNOWN = {"asks", "role", "looked_at", "preset", "tables", "methods", "seeds", "test", "reference", "set", "title",
         "note", "rows", "map"}  # fmt: skip


@dataclass(frozen=True)
class Experiment:
    folder: Path
    asks: str
    role: Role
    looked_at: str
    preset: str
    seeds: int
    test: bool
    title: str
    note: str
    changes: Changes
    """Settings of every row."""
    tables: tuple[Table, ...]

    @property
    def dataset(self) -> str:
        return self.folder.parent.name

    @property
    def name(self) -> str:
        return f"{self.dataset}/{self.folder.name}"

    @property
    def records(self) -> Path:
        return self.folder / "records"

    @property
    def costs(self) -> Path:
        """What a step of each row costs, where `fewtask bench --rows` has measured it."""
        return self.folder / "costs.json"


def find_experiment(name: str, root: Path = ROOT) -> Experiment | None:
    folder = experiment_folder(name, root)
    if folder is not None and not _has_preset(folder):
        chooser = (folder / _values(folder).get("preset", "preset.toml")).resolve().parent
        raise SettingsError(
            f"the settings of {name} have not been chosen yet: fewtask tune {chooser.parent.name}/{chooser.name}"
        )
    return None if folder is None else read_experiment(folder)


def experiment_folder(name: str, root: Path = ROOT) -> Path | None:
    """By its name, DATA SET/NAME, or by the path of its folder or file; None where there is none."""
    folders = (root / name, Path(name), *([Path(name).parent] if Path(name).name == FILE else []))
    return next((folder for folder in folders if (folder / FILE).is_file()), None)


def declared_names(root: Path = ROOT) -> list[str]:
    return [f"{path.parent.parent.name}/{path.parent.name}" for path in sorted(root.glob(f"*/*/{FILE}"))]


def all_experiments(root: Path = ROOT) -> list[Experiment]:
    """Every declared experiment by data set, in the order of their roles and names.

    One whose preset has not been chosen yet, by its own search or by another experiment's, is left out.
    """
    folders = [root / name for name in declared_names(root)]
    found = [read_experiment(folder) for folder in folders if _has_preset(folder)]
    found.sort(key=lambda one: (one.dataset, ROLES.index(one.role), one.name))
    for first, second in pairwise(found):
        if first.dataset == second.dataset and first.role == second.role == "primary":
            raise SettingsError(f"{first.name} and {second.name} are both primary: a data set has one")
    return found


def _has_preset(folder: Path) -> bool:
    preset = str(_values(folder).get("preset", "preset.toml"))
    return not is_path(preset) or (folder / preset).exists()


def _values(folder: Path) -> dict[str, Any]:
    path = folder / FILE
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error


def read_experiment(folder: Path) -> Experiment:
    folder = folder.absolute()
    path = folder / FILE
    values = _values(folder)
    try:
        return _experiment(folder, values)
    except SettingsError as error:
        raise SettingsError(f"{path}: {error}") from error
    except (AttributeError, TypeError, KeyError, ValueError) as error:
        raise SettingsError(f"{path}: a value stands where a table, a list or a text belongs: {error}") from error


def _experiment(folder: Path, values: Mapping[str, Any]) -> Experiment:
    for key in values:
        if key not in KNOWN:
            raise unknown("key", key, KNOWN)
    for key in ("asks", "role", "looked_at"):
        if not isinstance(values.get(key), str) or not values[key]:
            raise SettingsError(f"it does not say '{key}'")
    if values["role"] not in ROLES:
        raise unknown("role", values["role"], ROLES)
    seeds = values.get("seeds", 5)
    if not isinstance(seeds, int) or isinstance(seeds, bool) or seeds < 1:
        raise SettingsError(f"seeds is the number of runs of each row, not {seeds!r}")
    for key in ("tables", "methods"):
        if not all(isinstance(one, str) for one in values.get(key, [])) or isinstance(values.get(key), str):
            raise SettingsError(f"{key} is a list of names")
    preset = values.get("preset", "preset.toml")
    if is_path(preset):
        preset = str((folder / preset).resolve())
    plain = Experiment(
        folder, values["asks"], values["role"], values["looked_at"], preset, seeds,
        values.get("test", True), values.get("title", folder.name.replace("-", " ")), values.get("note", ""),
        nested(flat(values.get("set", {})).items()), (),
    )  # fmt: skip
    tables = [paper_table(name, plain.name, preset, values) for name in values.get("tables", ())]
    if "map" in values:
        tables.append(map_table(plain.title, preset, values))
    rows = [cell for row in values.get("rows", ()) for cell in row_cells(plain.name, preset, row)]
    if tables:
        tables[0] = replace(tables[0], cells=(*tables[0].cells, *rows))
    elif rows:
        reference = next((cell.row for cell in rows if cell.method == OURS), rows[0].row)
        tables = [Table("rows", plain.title, tuple(rows), reference)]
    else:
        raise SettingsError("it declares no tables, no rows and no map")
    tables = [compared(with_changes(table, plain.changes), values.get("reference")) for table in tables]
    return replace(plain, tables=tuple(tables))
