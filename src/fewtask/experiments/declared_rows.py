"""The rows of an experiment: tables of the paper that it fills, rows of its own and maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fewtask.auto_settings import VOTERS
from fewtask.changes import flat, nested
from fewtask.errors import SettingsError, unknown
from fewtask.experiments.grid import Cell, Changes
from fewtask.experiments.narrowing import narrow
from fewtask.experiments.tables import COMPARED, METHOD_TITLES, OURS, Axis, Table, get_table
from fewtask.methods import AUTO
from fewtask.presets import preset_label

ROW_KEYS = ("title", "method", "settings_of", "set", "seeds", "refit", "voters")
SHORT_TITLES = {
    "data.train_tasks": "training tasks",
    "data.train_classes": "training classes",
    "data.train_rows": "rows a class",
    "data.max_per_class": "rows a class",
}


def with_changes(table: Table, changes: Changes) -> Table:
    """With settings of every row; those that a row has of its own come last."""

    def changed(cell: Cell) -> Cell:
        own = nested([*flat(changes).items(), *flat(cell.changes).items()])
        return replace(cell, changes=own, steps_of=cell.steps_of and changed(cell.steps_of))

    return replace(table, cells=tuple(map(changed, table.cells)))


def compared(table: Table, wanted: str | None) -> Table:
    """With the row that the others are compared with: the one asked for, the table's own, or its last."""
    if wanted is not None and wanted not in table.rows:
        raise unknown("row", wanted, table.rows)
    own = table.reference if table.reference in table.rows else table.rows[-1]
    return replace(table, reference=wanted or own)


def paper_table(name: str, experiment: str, preset: str, values: Mapping[str, Any]) -> Table:
    """A table of the paper on the experiment's preset."""
    table = narrow(get_table(name), [preset])
    wanted = values.get("methods")
    if wanted is not None:
        known = {cell.method for cell in table.cells}
        if not known & set(wanted):
            raise unknown(f"method of {name}", wanted[0], known)
        table = narrow(table, methods=[method for method in wanted if method in known])
    label = preset_label(preset)
    cells = [replace(cell, column=cell.column.replace(label, experiment)) for cell in table.cells]
    return replace(table, cells=tuple(cells))


def row_cells(experiment: str, preset: str, values: Mapping[str, Any]) -> list[Cell]:
    """A row of its own, and its refit where that is asked for."""
    if unknown_keys := set(values) - set(ROW_KEYS):
        raise unknown("key of a row", min(unknown_keys), ROW_KEYS)
    if "method" not in values:
        raise SettingsError("a row has no method")
    method, voters = values["method"], values.get("voters")
    if voters is not None and (method != AUTO or voters not in VOTERS):
        raise SettingsError(f"voters = {voters!r}: it is for rows of the method auto, and one of {', '.join(VOTERS)}")
    settings = flat(values.get("set", {}))
    title = values.get("title", METHOD_TITLES.get(method, method))
    cell = Cell(
        title, experiment, preset, method, nested(settings.items()),
        seeds=values.get("seeds"), settings_of=values.get("settings_of"), voters=voters,
    )  # fmt: skip
    if not values.get("refit", False):
        return [cell]
    changes = nested([*settings.items(), ("data.train_on_validation", True)])
    return [cell, replace(cell, row=f"{title}, refit", changes=changes, steps_of=cell)]


def map_table(title: str, preset: str, values: Mapping[str, Any]) -> Table:
    """A column for each pair of values, a row a method."""
    try:
        rows, columns = (_axis(values["map"][side]) for side in ("rows", "columns"))
    except KeyError as error:
        raise SettingsError(f"its map does not say {error}: rows and columns have setting and values") from error
    methods: Sequence[str] = values.get("methods", COMPARED)
    cells = [
        Cell(
            METHOD_TITLES.get(method, method),
            f"{rows.label(down)}, {columns.label(across)}",
            preset,
            method,
            nested((axis.setting, value) for axis, value in ((rows, down), (columns, across)) if value is not None),
        )
        for down in rows.values
        for across in columns.values
        for method in methods
    ]
    return Table("map", title, tuple(cells), METHOD_TITLES[OURS], "map", axes=(rows, columns))


def _axis(values: Mapping[str, Any]) -> Axis:
    setting = values["setting"]
    title = values.get("title", SHORT_TITLES.get(setting, setting))
    return Axis(setting, title, tuple(None if value == "all" else value for value in values["values"]))
