"""What each ingredient of few-task learning is worth: one table over all data sets that declare `ingredients`.

An ingredient is worth a difference of two rows of that experiment, on the same episodes: the bare start with it and
without it, and everything together with it and without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fewtask.experiments.declared import declared_names, read_experiment
from fewtask.experiments.grid import Cell, cell_settings
from fewtask.experiments.ledger import run_digest
from fewtask.experiments.render import grid, mean_text
from fewtask.experiments.statistics import Mean, is_clear, over_seeds, paired_difference
from fewtask.report.collect import Collected, Shown, dataset_title

NAME = "ingredients"
NOT_RUN, NOT_CHOSEN, NO_CHOICE = "not run", "not chosen", "—"


@dataclass(frozen=True)
class Ingredient:
    """Two differences of rows: added to the bare start, and within everything that the search chose."""

    title: str
    alone: tuple[str, str]
    within: tuple[str, str]


def _usual(title: str, part: str) -> Ingredient:
    return Ingredient(title, (f"bare + {part}", "bare"), ("whole", f"whole without {part}"))


INGREDIENTS = (
    _usual("weight decay", "decay"),
    _usual("scale of distances", "scale"),
    _usual("averaged weights", "averages"),
    _usual("encoder that starts from its input", "encoder start"),
    _usual("validation tasks in training", "all tasks"),
    _usual("interpolation by the mean", "mean"),
    Ingredient("interpolation by a set function", ("bare + set function", "bare"), ("Meta-Interpolation", "ProtoNet")),
    Ingredient(
        "its λ learned, not random",
        ("bare + set function", "bare + set function, λ random"),
        ("Meta-Interpolation", "Meta-Interpolation, λ random"),
    ),
)
ACCURACIES = {"bare": "bare ProtoNet, test %", "ProtoNet": "ProtoNet at its best, test %", "whole": "the whole, test %"}


def ingredients_table(collected: Collected) -> str:
    """Markdown: two lines an ingredient, a column a data set; what has not been run is said."""
    names = [name.partition("/")[0] for name in declared_names(collected.root) if name.endswith(f"/{NAME}")]
    columns = [_Column(name, collected) for name in names]
    header = ["ingredient", "", *(column.title for column in columns)]
    body = [[ACCURACIES["bare"], "", *(column.accuracy("bare") for column in columns)]]
    for one in INGREDIENTS:
        body.append([one.title, "alone", *(column.difference(*one.alone) for column in columns)])
        body.append(["", "with the others", *(column.difference(*one.within) for column in columns)])
    body += [[ACCURACIES[row], "", *(column.accuracy(row) for column in columns)] for row in ("ProtoNet", "whole")]
    body.append(["all together", "the whole − bare", *(column.difference("whole", "bare") for column in columns)])
    return "\n".join(grid(header, body))


class _Column:
    """A data set's experiment, as far as it is there."""

    def __init__(self, dataset: str, collected: Collected) -> None:
        self.title = dataset_title(collected.root / dataset)
        shown = {one.experiment.name: one for one in collected.shown}
        self.shown: Shown | None = shown.get(f"{dataset}/{NAME}")
        tables = read_experiment(collected.root / dataset / NAME).tables
        self.cells: dict[str, Cell] = {cell.row: cell for table in tables for cell in table.cells}

    def accuracy(self, row: str) -> str:
        return self._text((row,), lambda records: over_seeds(records[row]), mean_text)

    def difference(self, row: str, other: str) -> str:
        if self.shown is not None and {row, other} <= set(self.cells):
            first, second = (run_digest(cell_settings(self.cells[name], 0)) for name in (row, other))
            if first == second:
                return NOT_CHOSEN
        return self._text((row, other), lambda records: paired_difference(records[row], records[other]), _signed)

    def _text(
        self,
        rows: tuple[str, ...],
        measure: Callable[[Mapping[str, dict[int, dict[str, Any]]]], Mean | None],
        written: Callable[[Mean], str],
    ) -> str:
        if any(row not in self.cells for row in rows):
            return NO_CHOICE
        if self.shown is None:
            return NOT_RUN
        mean = measure({row: self.shown.gathered.of(self.cells[row]) for row in rows})
        return NOT_RUN if mean is None else written(mean).replace("*", "\\*")


def _signed(mean: Mean) -> str:
    text = mean_text(mean, sign=True)
    return f"__{text}__" if is_clear(mean) else text
