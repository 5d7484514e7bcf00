"""A table of the paper on other presets than its own, or on some of its data sets and methods alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from fewtask.errors import SettingsError, unknown
from fewtask.experiments.grid import Cell
from fewtask.experiments.tables import IMAGE, NON_IMAGE, Table, get_table, table_names
from fewtask.presets import base_preset, is_path, preset_label, preset_names


def narrow(table: Table, datasets: Sequence[str] = (), methods: Sequence[str] = ()) -> Table:
    """Only some presets and methods. A preset that the paper's table does not have takes the place of the one that
    it extends, and keeps the paper's numbers beside it, or of the table's first.

    A data set's name stands for all of its presets that extend no other.
    """
    cells = list(table.cells)
    if datasets:
        wanted = named_presets(datasets)
        own, first = {cell.preset for cell in cells}, cells[0].preset
        chosen = [cell for cell in cells if cell.preset in wanted]
        for preset in (p for p in wanted if p not in own):
            base = base_preset(preset)
            place = base if base in own else first
            chosen += [_moved(cell, preset, base == place) for cell in cells if cell.preset == place]
        cells = chosen
    if methods:
        present = {cell.method for cell in cells}
        for name in methods:
            if name not in present:
                raise unknown("method of this table", name, present)
        cells = [cell for cell in cells if cell.method in methods]
    if not cells:
        raise SettingsError(f"nothing of '{table.name}' is left with these data sets and methods")
    return replace(table, cells=tuple(cells))


def narrow_all(datasets: Sequence[str] = (), methods: Sequence[str] = ()) -> list[Table]:
    """Every table and figure as far as it has these data sets and methods; other presets are tried in all of them."""
    narrowed = []
    wanted = named_presets(datasets)
    for table in map(get_table, table_names()):
        own = {cell.preset for cell in table.cells}
        presets = [p for p in wanted if belongs(p, own)]
        kept = [name for name in methods if name in {cell.method for cell in table.cells}]
        if (presets or not datasets) and (kept or not methods):
            narrowed.append(narrow(table, presets, kept))
    return narrowed


def belongs(preset: str, own: Collection[str]) -> bool:
    """Whether a preset stands in a table of others: itself, by the one that it extends, or as none of the paper's."""
    root = base_preset(preset) or preset
    return preset in own or root in own or root not in (*NON_IMAGE, *IMAGE)


def named_presets(datasets: Sequence[str]) -> list[str]:
    """Presets by their names or by those of their data sets, each once."""
    known = preset_names()
    wanted: dict[str, None] = {}
    for name in datasets:
        found = [name] if name in known or is_path(name) else []
        found = found or [p for p in known if p.startswith(f"{name}-") and base_preset(p) is None]
        if not found:
            raise unknown("data set or preset", name, known)
        wanted |= dict.fromkeys(found)
    return list(wanted)


def _moved(cell: Cell, preset: str, same_data: bool) -> Cell:
    """A cell on another preset; the paper's number is for its own data."""
    column = cell.column.replace(cell.preset, preset_label(preset))
    return replace(cell, preset=preset, column=column, paper=cell.paper if same_data else None)
