"""All runs and their cost: one flat row each."""

from __future__ import annotations

from typing import Any

from fewtask.changes import flat
from fewtask.errors import FewtaskError
from fewtask.experiments.declared import Experiment
from fewtask.experiments.search import read_search
from fewtask.experiments.tables import METHOD_TITLES
from fewtask.methods import groups_of
from fewtask.presets import load_preset
from fewtask.report.collect import Collected, setup_text
from fewtask.settings import from_dict, identity


def run_rows(collected: Collected) -> list[dict[str, Any]]:
    """One flat row a run: what it was for, its settings as far as they are its own, its accuracy and its cost."""
    presets = {one.experiment.records: one.experiment.preset for one in collected.shown}
    starts = {one.experiment.records: _start_of_search(one.experiment) for one in collected.shown}
    rows = []
    for path, record in collected.files.items():
        folder = next((parent for parent in path.absolute().parents if parent.name == "records"), path.parent)
        # What a candidate of a search has of its own differs from where that started.
        preset = (starts if path.parent.name == "search" else presets).get(folder)
        name = f"{folder.parent.parent.name}/{folder.parent.name}"
        own = {} if preset is None else differing(record, preset)
        rows.append(
            {
                "experiment": name,
                "dataset": record["dataset"],
                "method": METHOD_TITLES.get(record["method"], record["method"]),
                "seed": record["seed"],
                "steps": record["settings"]["train"]["steps"],
                "updates of λ": record.get("hyper_updates", 0),
                "selected step": record.get("selected_step"),
                "validation %": round(100 * record["validation"]["accuracy"], 2),
                "test %": round(100 * record["test"]["accuracy"], 2) if "test" in record else None,
                "seconds": round(record["seconds"]),
                "settings of its own": setup_text(own),
                "record": path.name,
            }
        )
    return rows


def _start_of_search(experiment: Experiment) -> str:
    grid = experiment.folder / "grid.toml"
    found = read_search(grid).preset if grid.exists() else None
    return found or experiment.preset


def differing(record: dict[str, Any], preset: str) -> dict[str, Any]:
    """The settings of a run that are not a preset's; those of an unknown method or setting differ in nothing."""
    try:
        groups = groups_of(record["method"])
        own = flat(identity(from_dict(record["settings"]), groups))
        base = flat(identity(load_preset(preset, record["method"]), groups))
    except FewtaskError:
        return {}
    return {key: value for key, value in own.items() if key != "seed" and base.get(key) != value}
