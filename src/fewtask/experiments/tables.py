"""The paper's ten tables and three figures: the runs that each is made of, and the numbers that the paper gives.

The numbers are in paper_tables.json beside this file. Where the paper contradicts itself, what is meant is used
here and the table's note says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Literal

from fewtask.errors import SettingsError, unknown
from fewtask.experiments.grid import Cell, Changes
from fewtask.methods import METHODS
from fewtask.presets import base_preset, is_path, preset_label, preset_names

METHOD_TITLES = {name: method.title for name, method in METHODS.working().items()}
COMPARED = ("protonet", "metareg", "metamix", "mlti", "protonet-st", "meta-interpolation")
NON_IMAGE = ("metabolism", "tox21", "nci", "glue-scitail", "esc50")
IMAGE = ("rmnist", "mini-imagenet-s-1shot", "mini-imagenet-s-5shot", "cifar100-fs-1shot", "cifar100-fs-5shot")
PAPER = (*NON_IMAGE, *IMAGE)
OURS = "meta-interpolation"
FULL_TRAIN, FULL_VALIDATION = 20, 15
SET_SIZES = (1, 2, 3, 4, 5)


def method_title(method: str) -> str:
    """As tables show it; "meta-interpolation:mean" is Meta-Interpolation, mean."""
    name, _, variant = method.partition(":")
    return ", ".join(filter(None, (METHOD_TITLES.get(name, name), variant)))


@dataclass(frozen=True)
class Variant:
    """A row of an ablation: a method and the settings that differ; `key` is its name in the paper's numbers."""

    title: str
    key: str
    method: str = OURS
    changes: Changes | None = None


@dataclass(frozen=True)
class Experiment:
    """A table or a figure: its cells, and the row that the others are compared with."""

    name: str
    title: str
    cells: tuple[Cell, ...]
    reference: str
    kind: Literal["table", "loss", "tasks", "set-size"] = "table"
    note: str = ""

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


def experiment_names() -> list[str]:
    return list(_MAKERS)


def get_experiment(name: str) -> Experiment:
    if name not in _MAKERS:
        raise unknown("table or figure", name, [*_MAKERS, "all"])
    return _MAKERS[name](name)


def narrow(experiment: Experiment, datasets: Sequence[str] = (), methods: Sequence[str] = ()) -> Experiment:
    """Only some presets and methods. A preset that the paper's table does not have takes the place of the one that
    it extends, and keeps the paper's numbers beside it, or of the table's first.

    A data set's name stands for all of its presets that extend no other.
    """
    cells = list(experiment.cells)
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
        raise SettingsError(f"nothing of '{experiment.name}' is left with these data sets and methods")
    return replace(experiment, cells=tuple(cells))


def narrow_all(datasets: Sequence[str] = (), methods: Sequence[str] = ()) -> list[Experiment]:
    """Every table and figure as far as it has these data sets and methods; other presets are tried in all of them."""
    narrowed = []
    wanted = named_presets(datasets)
    for experiment in map(get_experiment, experiment_names()):
        own = {cell.preset for cell in experiment.cells}
        presets = [p for p in wanted if belongs(p, own)]
        kept = [name for name in methods if name in {cell.method for cell in experiment.cells}]
        if (presets or not datasets) and (kept or not methods):
            narrowed.append(narrow(experiment, presets, kept))
    return narrowed


def belongs(preset: str, own: Collection[str]) -> bool:
    """Whether a preset stands in a table of others: itself, by the one that it extends, or as none of the paper's."""
    return preset in own or (base_preset(preset) or preset) in own or (base_preset(preset) or preset) not in PAPER


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


def _pair(values: Any) -> tuple[float, float] | None:
    return None if values is None else (float(values[0]), float(values[1]))


def method_cells(presets: Sequence[str], methods: Sequence[str], numbers: dict[str, Any]) -> tuple[Cell, ...]:
    """A row a method, a column a preset; numbers by the paper's spelling of both."""
    return tuple(
        Cell(
            method_title(method),
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


def _compared(name: str, title: str, presets: Sequence[str], key: str) -> Experiment:
    cells = method_cells(presets, ("centroid", *COMPARED), paper_numbers()[key])
    return Experiment(name, title, cells, METHOD_TITLES[OURS])


def _ablation(name: str, title: str, variants: Sequence[Variant], key: str, reference: str) -> Experiment:
    return Experiment(name, title, variant_cells("esc50", variants, paper_numbers()[key]), reference)


def _noise(name: str) -> Experiment:
    numbers = paper_numbers()
    own = {
        "support_and_noise": numbers["table6_noise_rmnist"]["support_and_noise"],
        "support": numbers["table2_image"]["meta_interpolation"]["rmnist"],
    }
    variants = [v for v in STRATEGIES if v.key in own]
    note = "The paper prints 75.35 for support, which is ProtoNet's number: the method's own, of Table 2, is shown."
    return Experiment(
        name, "Interpolation with noise, RMNIST", variant_cells("rmnist", variants, own), "support", note=note
    )


def _backbones(name: str) -> Experiment:
    numbers = dict(paper_numbers()["table7_fomaml"])
    numbers["meta_interpolation"] = numbers["protonet_meta_interpolation"]
    methods = ("fomaml", "fomaml-mlti", "fomaml-meta-interpolation", OURS)
    cells = method_cells(("metabolism", "esc50"), methods, numbers)
    cells = tuple(replace(cell, row="ProtoNet + Meta-Interpolation") if cell.method == OURS else cell for cell in cells)
    return Experiment(name, "First-order MAML as backbone", cells, METHOD_TITLES["fomaml-meta-interpolation"])


def _fewer_classes(name: str, split: str, key: str, full: int) -> Experiment:
    numbers = paper_numbers()[key]
    cells = []
    for position, count in enumerate(numbers["tasks"]):
        # The full number is no restriction, so that these runs are those of Table 1.
        changes: Changes = {} if count == full else {"data": {f"{split}_classes": count}}
        for method in ("protonet", "mlti", OURS):
            paper = _pair(numbers[method.replace("-", "_")][position])
            cells.append(Cell(METHOD_TITLES[method], f"esc50, {count} classes", "esc50", method, changes, paper))
    note = "The paper prints the number of base classes as a number of tasks."
    return Experiment(
        name, f"Fewer meta-{split.replace('train', 'training')} classes", tuple(cells), METHOD_TITLES[OURS], note=note
    )


def _figure_loss(name: str) -> Experiment:
    cells = method_cells(("rmnist", "nci"), COMPARED, {})
    return Experiment(name, "Meta-training and meta-validation loss", cells, METHOD_TITLES[OURS], "loss")


def _figure_tasks(name: str) -> Experiment:
    cells = method_cells(("nci", "esc50"), ("mlti", OURS), {})
    return Experiment(name, "Original and interpolated tasks", cells, METHOD_TITLES[OURS], "tasks")


def _figure_set_size(name: str) -> Experiment:
    note = "All sets are matched: sets of more than two elements cannot be crossed."
    return Experiment(name, "Accuracy against set size", variant_cells("esc50", SIZES, {}), "2", "set-size", note)


_MAKERS: dict[str, Callable[[str], Experiment]] = {
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
