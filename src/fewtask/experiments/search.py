"""Settings chosen on meta-validation: a declared grid, the same number of candidates for every method.

The grid is a TOML file: [every] holds lists of values that all methods try, [methods.NAME] those of one method's
own settings; a method's candidates are all combinations, or as many of them as [sample] says. Settings listed in
[times] are given as multiples of the preset's, because data sets differ in them. A second round, which `second_round`
writes, lists the best candidates themselves: [candidates] NAME = [{...}, ...]. Meta-test takes no part.
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
from fewtask.errors import RunError, SettingsError
from fewtask.experiments.grid import Cell, Changes
from fewtask.experiments.summary import CellResult, Summary
from fewtask.experiments.tables import Experiment, method_title
from fewtask.methods import get_method
from fewtask.presets import load_preset, preset_label
from fewtask.settings import RunSettings, to_dict, update

Values = tuple[tuple[str, Any], ...]
"""One candidate: (("train.average", 0.999), ("mixup.alpha", 2.0))."""


@dataclass(frozen=True)
class Search:
    """The lists of values of each method's settings; `multiples`: settings given as multiples of the preset's.

    sample: how many of the combinations are tried and the seed of their choice; None: all.
    listed: candidates given one by one, of methods that have no lists.
    """

    lists: dict[str, dict[str, list[Any]]]
    multiples: frozenset[str]
    sample: tuple[int, int] | None = None
    listed: Mapping[str, list[Values]] = field(default_factory=dict)

    @property
    def methods(self) -> list[str]:
        return [*self.lists, *self.listed]

    def candidates(self, preset: str, method: str) -> list[Values]:
        """The chosen combinations, in the grid's order."""
        if method in self.listed:
            return self.listed[method]
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

    def experiment(self, preset: str, methods: Sequence[str]) -> Experiment:
        """A row a candidate."""
        cells = [
            Cell(f"{method_title(method)}: {values_text(values)}", preset, preset, method, nested(values))
            for method in methods
            for values in self.candidates(preset, method)
        ]
        label = preset_label(preset)
        return Experiment(f"tune-{label}", f"Candidates on {label}", tuple(cells), cells[-1].row)

    def without(self, keys: Iterable[str]) -> Search:
        """Less the settings that are fixed for all methods."""
        fixed = set(keys)
        lists = {m: {key: values for key, values in own.items() if key not in fixed} for m, own in self.lists.items()}
        listed = {m: [tuple(v for v in one if v[0] not in fixed) for one in own] for m, own in self.listed.items()}
        return replace(self, lists=lists, listed=listed)


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


def values_text(values: Values) -> str:
    return ", ".join(f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in values)


def read_search(path: Path | None = None) -> Search:
    """The declared grid, or one from a file."""
    if path is None:
        text = resources.files(__package__).joinpath("search.toml").read_text(encoding="utf-8")
    else:
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise SettingsError(f"cannot read the grid {path}: {error.strerror}") from error
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"the grid {path} is not valid TOML: {error}") from error
    every, methods, listed = values.get("every", {}), values.get("methods", {}), values.get("candidates", {})
    if set(values) - {"every", "methods", "times", "sample", "candidates"} or not (methods or listed):
        raise SettingsError(
            "a grid has a table [methods.NAME] for each method and may have [every], [times] and [sample], or it has "
            "[candidates] alone"
        )
    sample = values.get("sample")
    search = Search(
        {method: {**every, **own} for method, own in methods.items()},
        frozenset(values.get("times", {}).get("settings", [])),
        None if sample is None else (int(sample["candidates"]), int(sample.get("seed", 0))),
        {method: [tuple(one.items()) for one in own] for method, own in listed.items()},
    )
    _check(search)
    return search


def _check(search: Search) -> None:
    """Refuses what is no list, unknown methods and settings, and an unequal budget."""
    counts = {}
    for method, lists in search.lists.items():
        name = method.partition(":")[0]
        get_method(name)
        for key, values in lists.items():
            if not isinstance(values, list) or not values:
                raise SettingsError(f"the grid gives no list of values for '{key}' of {method}")
            update(RunSettings(method=name), nested([(key, values[0])]))
        counts[method] = math.prod(map(len, lists.values())) if search.sample is None else search.sample[0]
    for method, listed in search.listed.items():
        get_method(method.partition(":")[0])
        for one in listed:
            update(RunSettings(method=method.partition(":")[0]), nested(one))
        counts[method] = len(listed)
    if len(set(counts.values())) > 1:
        numbers = ", ".join(f"{method} {count}" for method, count in counts.items())
        raise SettingsError(f"every method needs the same number of candidates, and here it is: {numbers}")


def choose(summary: Summary, methods: Sequence[str]) -> dict[str, CellResult]:
    """Each method's best candidate by mean accuracy on meta-validation; of equal ones that with the lower loss."""
    chosen = {}
    for method in methods:
        done = [r for r in summary.results if r.cell.method == method]
        lacking = [r.cell.row for r in done if r.seeds < summary.seeds]
        if lacking:
            raise RunError(f"nothing is chosen while runs are missing: {'; '.join(lacking)}")
        chosen[method] = max(done, key=_merit)
    return chosen


def second_round(summary: Summary, methods: Sequence[str], keep: int) -> str:
    """A grid of the best `keep` candidates of each method, for a round with longer runs and more seeds."""
    lines = [f"# The best {keep} candidates of each method in the first round.", "", "[candidates]"]
    for method in methods:
        ranked = sorted((r for r in summary.results if r.cell.method == method), key=_merit, reverse=True)
        tables = (
            "{ " + ", ".join(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in flat(r.cell.changes).items()) + " }"
            for r in ranked[:keep]
        )
        lines += [f"{json.dumps(method)} = [", *(f"  {table}," for table in tables), "]"]
    return "\n".join(lines) + "\n"


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
            name = json.dumps(method) if ":" in method else method
            lines += _table(f"methods.{name}.{group}", values)
    return "\n".join(lines) + "\n"


def _table(name: str, values: Mapping[str, Any]) -> list[str]:
    return ["", f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
