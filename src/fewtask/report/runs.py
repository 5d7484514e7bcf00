"""All runs and their cost: one flat row each."""

from __future__ import annotations

from pathlib import Path
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
    presets = {one.experiment.records: one.experiment for one in collected.shown}
    rows = []
    for path, record in collected.files.items():
        folder = next((parent for parent in path.absolute().parents if parent.name == "records"), path.parent)
        experiment, name = presets.get(folder), f"{folder.parent.parent.name}/{folder.parent.name}"
        own = {} if experiment is None else _own_settings(path, record, experiment)
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


def _own_settings(path: Path, record: dict[str, Any], experiment: Experiment) -> dict[str, Any]:
    """What differs from the experiment's preset, or for a candidate of its search from where that started."""
    preset = experiment.preset
    if path.parent.name == "search" and (experiment.folder / "grid.toml").exists():
        preset = read_search(experiment.folder / "grid.toml").preset or preset
    return differing(record, preset)


def differing(record: dict[str, Any], preset: str) -> dict[str, Any]:
    """The settings of a run that are not a preset's; those of an unknown method or setting differ in nothing."""
    try:
        groups = groups_of(record["method"])
        own = flat(identity(from_dict(record["settings"]), groups))
        base = flat(identity(load_preset(preset, record["method"]), groups))
    except FewtaskError:
        return {}
    return {key: value for key, value in own.items() if key != "seed" and base.get(key) != value}
