"""The paper's ten tables and three figures: the runs that each is made of, and the numbers that the paper gives.

The numbers are in paper_tables.json beside this file. Where the paper contradicts itself, what is meant is used
here and the table's note says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Literal

from fewtask.errors import unknown
from fewtask.experiments.grid import Cell, Changes
from fewtask.methods import METHODS
from fewtask.presets import preset_label

METHOD_TITLES = {name: method.title for name, method in METHODS.working().items()}
COMPARED = ("protonet", "metareg", "metamix", "mlti", "protonet-st", "meta-interpolation")
NON_IMAGE = ("metabolism", "tox21", "nci", "glue-scitail", "esc50")
IMAGE = ("rmnist", "mini-imagenet-s-1shot", "mini-imagenet-s-5shot", "cifar100-fs-1shot", "cifar100-fs-5shot")
OURS = "meta-interpolation"
FULL_TRAIN, FULL_VALIDATION = 20, 15
SET_SIZES = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Variant:
    """A row of an ablation: a method and the settings that differ; `key` is its name in the paper's numbers."""

    title: str
    key: str
    method: str = OURS
    changes: Changes | None = None


@dataclass(frozen=True)
class Axis:
    """A setting and its values; None leaves it as the preset has it."""

    setting: str
    title: str
    values: tuple[Any, ...]

    def label(self, value: Any) -> str:
        return f"{'all' if value is None else value} {self.title}"


@dataclass(frozen=True)
class Table:
    """A table or a figure: its cells, and the row that the others are compared with."""

    name: str
    title: str
    cells: tuple[Cell, ...]
    reference: str
    kind: Literal["table", "loss", "tasks", "set-size", "map"] = "table"
    note: str = ""
    axes: tuple[Axis, ...] = ()
    """Of a map: what its rows and its columns vary."""

    @property
    def rows(self) -> list[str]:
        return list(dict.fromkeys(cell.row for cell in self.cells))

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(cell.column for cell in self.cells))


ABLATIONS = (
    Variant("Meta-Interpolation", "full"),
    Variant("without interpolation", "without_interpolation", "protonet-st"),
    Variant("without bilevel optimisation", "without_bilevel", OURS, {"interpolation": {"bilevel": False}}),
    Variant("without the singleton loss", "without_singleton_loss", OURS, {"interpolation": {"singleton_loss": False}}),
)
STRATEGIES = (
    Variant("query + support", "query_and_support", OURS, {"interpolation": {"strategy": "support+query"}}),
    Variant("query", "query", OURS, {"interpolation": {"strategy": "query"}}),
    Variant("support + noise", "support_and_noise", OURS, {"interpolation": {"strategy": "support+noise"}}),
    Variant("support", "support", OURS, {"interpolation": {"strategy": "support"}}),
)
SET_FUNCTIONS = (
    Variant("ProtoNet", "protonet", "protonet"),
    Variant("Deep Sets", "deep_sets", OURS, {"set_function": {"name": "deep-sets"}}),
    Variant("Set Transformer", "set_transformer", OURS, {"set_function": {"name": "set-transformer"}}),
)
LAYERS = tuple(
    Variant(title, key, OURS, {"interpolation": {"layer": layer}})
    for layer, (title, key) in enumerate(
        (("input", "input"), ("layer 1", "layer1"), ("layer 2", "layer2"), ("layer 3", "layer3"))
    )
)
SIZES = tuple(
    # Sets of more than two are matched; so are the smaller ones here, to compare like with like.
    Variant(f"{size}", f"{size}", OURS, {"interpolation": {"cardinality": size, "pairs": "matched"}})
    for size in SET_SIZES
)


@cache
def paper_numbers() -> dict[str, Any]:
    """Every accuracy that the paper reports, in percent with its interval."""
    text = resources.files(__package__).joinpath("paper_tables.json").read_text(encoding="utf-8")
    values: dict[str, Any] = json.loads(text)
    return values


def table_names() -> list[str]:
    return list(_MAKERS)


def get_table(name: str) -> Table:
    if name not in _MAKERS:
        raise unknown("table or figure", name, [*_MAKERS, "all"])
    return _MAKERS[name](name)


def _pair(values: Any) -> tuple[float, float] | None:
    return None if values is None else (float(values[0]), float(values[1]))


def method_cells(presets: Sequence[str], methods: Sequence[str], numbers: dict[str, Any]) -> tuple[Cell, ...]:
    """A row a method, a column a preset; numbers by the paper's spelling of both."""
    return tuple(
        Cell(
            METHOD_TITLES.get(method, method),
            preset_label(preset),
            preset,
            method,
            {},
            _pair(numbers.get(method.replace("-", "_"), {}).get(preset.replace("-", "_"))),
        )
        for preset in presets
        for method in methods
    )


def variant_cells(preset: str, variants: Sequence[Variant], numbers: dict[str, Any]) -> tuple[Cell, ...]:
    """A row a variant, one column."""
    return tuple(
        Cell(v.title, preset_label(preset), preset, v.method, v.changes or {}, _pair(numbers.get(v.key)))
        for v in variants
    )


def _compared(name: str, title: str, presets: Sequence[str], key: str) -> Table:
    cells = method_cells(presets, ("centroid", *COMPARED), paper_numbers()[key])
    return Table(name, title, cells, METHOD_TITLES[OURS])


def _ablation(name: str, title: str, variants: Sequence[Variant], key: str, reference: str) -> Table:
    return Table(name, title, variant_cells("esc50", variants, paper_numbers()[key]), reference)


def _noise(name: str) -> Table:
    numbers = paper_numbers()
    own = {
        "support_and_noise": numbers["table6_noise_rmnist"]["support_and_noise"],
        "support": numbers["table2_image"]["meta_interpolation"]["rmnist"],
    }
    variants = [v for v in STRATEGIES if v.key in own]
    note = "The paper prints 75.35 for support, which is ProtoNet's number: the method's own, of Table 2, is shown."
    return Table(name, "Interpolation with noise, RMNIST", variant_cells("rmnist", variants, own), "support", note=note)


def _backbones(name: str) -> Table:
    numbers = dict(paper_numbers()["table7_fomaml"])
    numbers["meta_interpolation"] = numbers["protonet_meta_interpolation"]
    methods = ("fomaml", "fomaml-mlti", "fomaml-meta-interpolation", OURS)
    cells = method_cells(("metabolism", "esc50"), methods, numbers)
    cells = tuple(replace(cell, row="ProtoNet + Meta-Interpolation") if cell.method == OURS else cell for cell in cells)
    return Table(name, "First-order MAML as backbone", cells, METHOD_TITLES["fomaml-meta-interpolation"])


def _fewer_classes(name: str, split: str, key: str, full: int) -> Table:
    numbers = paper_numbers()[key]
    cells = []
    for position, count in enumerate(numbers["tasks"]):
        # The full number is no restriction, so that these runs are those of Table 1.
        changes: Changes = {} if count == full else {"data": {f"{split}_classes": count}}
        for method in ("protonet", "mlti", OURS):
            paper = _pair(numbers[method.replace("-", "_")][position])
            cells.append(Cell(METHOD_TITLES[method], f"esc50, {count} classes", "esc50", method, changes, paper))
    note = "The paper prints the number of base classes as a number of tasks."
    return Table(
        name, f"Fewer meta-{split.replace('train', 'training')} classes", tuple(cells), METHOD_TITLES[OURS], note=note
    )


def _figure_loss(name: str) -> Table:
    cells = method_cells(("rmnist", "nci"), COMPARED, {})
    return Table(name, "Meta-training and meta-validation loss", cells, METHOD_TITLES[OURS], "loss")


def _figure_tasks(name: str) -> Table:
    cells = method_cells(("nci", "esc50"), ("mlti", OURS), {})
    return Table(name, "Original and interpolated tasks", cells, METHOD_TITLES[OURS], "tasks")


def _figure_set_size(name: str) -> Table:
    note = "All sets are matched: sets of more than two elements cannot be crossed."
    return Table(name, "Accuracy against set size", variant_cells("esc50", SIZES, {}), "2", "set-size", note)


_MAKERS: dict[str, Callable[[str], Table]] = {
    "table1": lambda n: _compared(n, "Few-task classification, not images", NON_IMAGE, "table1_non_image"),
    "table2": lambda n: _compared(n, "Few-task classification, images", IMAGE, "table2_image"),
    "table3": lambda n: _ablation(n, "Ablation", ABLATIONS, "table3_ablation_esc50", "Meta-Interpolation"),
    "table4": lambda n: _ablation(n, "Set functions", SET_FUNCTIONS, "table4_set_function_esc50", "Set Transformer"),
    "table5": lambda n: _ablation(n, "Interpolation strategies", STRATEGIES, "table5_strategy_esc50", "support"),
    "table6": _noise,
    "table7": _backbones,
    "table8": lambda n: _fewer_classes(n, "train", "table8_train_tasks_esc50", FULL_TRAIN),
    "table9": lambda n: _fewer_classes(n, "validation", "table9_validation_tasks_esc50", FULL_VALIDATION),
    "table10": lambda n: _ablation(n, "Layer of interpolation", LAYERS, "table10_layer_esc50", "layer 2"),
    "figure-loss": _figure_loss,
    "figure-tasks": _figure_tasks,
    "figure-set-size": _figure_set_size,
}
