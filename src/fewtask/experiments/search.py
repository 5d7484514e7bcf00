"""Settings chosen on meta-validation: a declared grid, the same number of candidates for every method.

The grid is a TOML file: [every] holds lists of values that all methods try, [methods.NAME] those of one method's
own settings; a method's candidates are all combinations, or as many of them as [sample] says. Settings listed in
[times] are given as multiples of the preset's, because data sets differ in them. An experiment's grid also says where
it starts and how it goes on: `preset`, the settings of all runs under [shared], and any number of [[rounds]], each with
`seeds`, `keep` (how many candidates of each method go on) and `set` (settings of this round alone, such as fewer
steps). Meta-test takes no part.
"""

from __future__ import annotations

import itertools
import json
import math
import tomllib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from fewtask.changes import flat, nested
from fewtask.errors import RunError, SettingsError, unknown
from fewtask.experiments.grid import Cell, Changes
from fewtask.experiments.summary import CellResult, Summary
from fewtask.experiments.tables import METHOD_TITLES, Table
from fewtask.methods import get_method
from fewtask.presets import is_path, load_preset, preset_label
from fewtask.settings import RunSettings, to_dict, update

Values = tuple[tuple[str, Any], ...]
"""One candidate: (("train.average", 0.999), ("mixup.alpha", 2.0))."""


@dataclass(frozen=True)
class Round:
    """All candidates left are run with these changes and so many seeds, and the best `keep` of each method go on."""

    seeds: int = 1
    keep: int = 1
    changes: Changes = field(default_factory=dict)


@dataclass(frozen=True)
class Search:
    """The lists of values of each method's settings; `multiples`: settings given as multiples of the preset's.

    sample: how many of the combinations are tried and the seed of their choice; None: all.
    """

    lists: dict[str, dict[str, list[Any]]]
    multiples: frozenset[str]
    sample: tuple[int, int] | None = None
    preset: str | None = None
    shared: Changes = field(default_factory=dict)
    rounds: tuple[Round, ...] = (Round(),)

    @property
    def methods(self) -> list[str]:
        return list(self.lists)

    def candidates(self, preset: str, method: str) -> list[Values]:
        """The chosen combinations, in the grid's order."""
        if method not in self.lists:
            raise SettingsError(f"the grid has nothing to try for '{method}': it has {', '.join(self.methods)}")
        own = flat(to_dict(load_preset(preset, method)))
        lists = {
            key: [round_off(own[key] * value) if key in self.multiples else value for value in values]
            for key, values in self.lists[method].items()
        }
        if self.sample is not None:
            return sampled(lists, *self.sample)
        return [tuple(zip(lists, values)) for values in itertools.product(*lists.values())]

    def cells(self, preset: str, methods: Sequence[str]) -> list[Cell]:
        """A row a candidate."""
        return [
            Cell(f"{METHOD_TITLES.get(method, method)}: {values_text(values)}", preset, preset, method, nested(values))
            for method in methods
            for values in self.candidates(preset, method)
        ]

    def without(self, keys: Iterable[str]) -> Search:
        """Less the settings that are fixed for all methods."""
        fixed = set(keys)
        lists = {m: {key: values for key, values in own.items() if key not in fixed} for m, own in self.lists.items()}
        return replace(self, lists=lists)


def sampled(lists: Mapping[str, list[Any]], count: int, seed: int) -> list[Values]:
    """So many different combinations, in which every value of a setting comes equally often.

    The first has the first value of each list. A setting's values stand in an order of their own, which depends on its
    name alone: methods that share settings try the same combinations of them.
    """
    if count > math.prod(map(len, lists.values())):
        raise SettingsError(f"[sample] asks for {count} candidates, and the lists have no more than their product")
    for attempt in itertools.count():
        columns = []
        for key, values in lists.items():
            repeated = list(itertools.islice(itertools.cycle(range(len(values))), count))
            rng = np.random.default_rng([seed, attempt, zlib.crc32(key.encode())])
            columns.append([values[i] for i in (repeated[0], *rng.permutation(repeated[1:]))])
        found = [tuple(zip(lists, values)) for values in zip(*columns)]
        if len(set(found)) == count:
            return found
    raise AssertionError("there is always another attempt")


def round_off(value: float) -> float:
    """0.1 times 3 is 0.3 in a preset."""
    return float(f"{value:.6g}")


def candidate_table(cells: Sequence[Cell]) -> Table:
    label = preset_label(cells[0].preset)
    return Table(f"tune-{label}", f"Candidates on {label}", tuple(cells), cells[-1].row)


def values_text(values: Values) -> str:
    return ", ".join(f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in values)


def read_search(path: Path | None = None) -> Search:
    """The declared grid, or one from a file."""
    if path is None:
        text = resources.files(__package__).joinpath("search.toml").read_text(encoding="utf-8")
    else:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"cannot read the grid {path}: {error}") from error
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"the grid {path} is not valid TOML: {error}") from error
    try:
        return _search(values, path)
    except (AttributeError, TypeError, KeyError, ValueError) as error:
        raise SettingsError(
            f"the grid {path} has a value where a table, a list or a number belongs: {error}"
        ) from error


def _search(values: Mapping[str, Any], path: Path | None) -> Search:
    every, methods, sample = values.get("every", {}), values.get("methods", {}), values.get("sample")
    if set(values) - {"every", "methods", "times", "sample", "preset", "shared", "rounds"} or not methods:
        raise SettingsError(
            "a grid has a table [methods.NAME] for each method and may have [every], [times], [sample], preset, "
            "[shared] and [[rounds]]"
        )
    preset = values.get("preset")
    if preset is not None and is_path(preset) and path is not None:
        preset = str((path.parent / preset).resolve())
    search = Search(
        {method: {**every, **own} for method, own in methods.items()},
        frozenset(values.get("times", {}).get("settings", [])),
        None if sample is None else (int(sample["candidates"]), int(sample.get("seed", 0))),
        preset,
        nested(flat(values.get("shared", {})).items()),
        tuple(_round(one) for one in values.get("rounds", [{}])),
    )
    _check(search)
    return search


def _round(values: Mapping[str, Any]) -> Round:
    if wrong := set(values) - {"seeds", "keep", "set"}:
        raise unknown("key of a round", min(wrong), ("seeds", "keep", "set"))
    return Round(values.get("seeds", 1), values.get("keep", 1), nested(flat(values.get("set", {})).items()))


def _check(search: Search) -> None:
    """Refuses what is no list, unknown methods and settings, and an unequal budget."""
    counts = {}
    for method, lists in search.lists.items():
        get_method(method)
        for key, values in lists.items():
            if not isinstance(values, list) or not values:
                raise SettingsError(f"the grid gives no list of values for '{key}' of {method}")
            update(RunSettings(method=method), nested([(key, values[0])]))
        counts[method] = math.prod(map(len, lists.values())) if search.sample is None else search.sample[0]
    if len(set(counts.values())) > 1:
        numbers = ", ".join(f"{method} {count}" for method, count in counts.items())
        raise SettingsError(f"every method needs the same number of candidates, and here it is: {numbers}")


def choose(summary: Summary, keep: int = 1) -> dict[str, list[CellResult]]:
    """Each method's best candidates by mean accuracy on meta-validation; of equal ones that with the lower loss."""
    lacking = [result.cell.row for result in summary.results if result.seeds < summary.seeds]
    if lacking:
        raise RunError(f"nothing is chosen while runs are missing: {'; '.join(lacking)}")
    chosen: dict[str, list[CellResult]] = {result.cell.method: [] for result in summary.results}
    for result in sorted(summary.results, key=_merit, reverse=True):
        chosen[result.cell.method].append(result)
    return {method: ranked[:keep] for method, ranked in chosen.items()}


def _merit(result: CellResult) -> tuple[float, float]:
    assert result.validation_accuracy is not None
    return result.validation_accuracy, -(result.validation_loss or 0.0)


def preset_text(preset: str, about: str, shared: Sequence[Changes], chosen: Mapping[str, Values]) -> str:
    """A preset file: what all methods share, then each method's choice."""
    lines = [f"about = {json.dumps(about)}", f"extends = {json.dumps(preset)}"]
    for group, values in nested(item for changes in shared for item in flat(changes).items()).items():
        lines += _table(group, values)
    for method, found in chosen.items():
        for group, values in nested(found).items():
            lines += _table(f"methods.{method}.{group}", values)
    return "\n".join(lines) + "\n"


def _table(name: str, values: Mapping[str, Any]) -> list[str]:
    return ["", f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
