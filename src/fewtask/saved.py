"""Methods from saved runs, which may be a stranger's: nothing is built, fetched or believed before it is checked.

What config.json says is compared with the header of the weights beside it, on a network that takes no memory, so that
a run can ask for no more than its own file holds. Only files of this machine are read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fewtask.bounds import listed
from fewtask.encoders.electra import weights_are_saved
from fewtask.encoders.own import NAME as OWN
from fewtask.errors import RunError, SettingsError
from fewtask.files import read_json, read_tensors, tensor_shapes
from fewtask.methods import Method, make_method
from fewtask.settings import RunSettings, from_dict
from fewtask.threads import MOST_THREADS

MOST_NUMBERS = 1 << 28
"""Of one row of the input."""


def read_config(out: Path) -> dict[str, Any]:
    """config.json of a run's folder, with the entries and types that it was written with."""
    path = out / "config.json"
    config = read_json(path)
    if not isinstance(config, dict):
        raise RunError(f"{path} is damaged: it holds no table of settings")
    wanted: dict[str, type | tuple[type, ...]] = {
        "settings": dict,
        "input_shape": list,
        "input_scale": (list, type(None)),
        "data_fingerprint": str,
    }
    for key, kind in wanted.items():
        if not isinstance(config.get(key, ...), kind):
            raise RunError(f"{path} is damaged: it has no '{key}' of the right type")
    input_scale(config["input_scale"], path)
    threads = config.get("threads")
    if threads is not None and not (type(threads) is int and 0 < threads <= MOST_THREADS):
        raise RunError(f"{path} is damaged: its threads are not a number from 1 to {MOST_THREADS}")
    return config


def saved_settings(values: Any, path: Path) -> RunSettings:
    """Settings of a saved run; those that are missing were added since and have their defaults."""
    if not isinstance(values, Mapping):
        raise RunError(f"{path} is damaged: its settings are no table")
    try:
        return from_dict(values)
    except SettingsError as error:
        raise RunError(f"{path} cannot be used: {error}") from error


def input_shape(values: Any, path: Path) -> tuple[int, ...]:
    """The shape of a row, if it is one."""
    whole = isinstance(values, list) and 0 < len(values) <= 8
    if not whole or not all(isinstance(side, int) and not isinstance(side, bool) and side > 0 for side in values):
        raise RunError(f"{path} is damaged: its input_shape is not the shape of a row")
    if math.prod(values) > MOST_NUMBERS:
        raise RunError(f"{path} is refused: rows of {math.prod(values):.3g} numbers are more than {MOST_NUMBERS:,}")
    return tuple(values)


def input_scale(values: Any, path: Path) -> tuple[float, float] | None:
    """(shift, factor) of the rows, or None for rows that stay whole numbers."""
    if values is None:
        return None
    numbers = isinstance(values, list) and len(values) == 2
    if not numbers or not all(isinstance(v, int | float) and abs(v) < 1e30 for v in values):
        raise RunError(f"{path} is damaged: the scale of its rows is not two numbers")
    return float(values[0]), float(values[1])


def load_method(settings: RunSettings, shape: tuple[int, ...], weights: Path, stated_in: Path) -> Method:
    """A method with the weights of a file, once that file has exactly the tensors that the settings ask for."""
    with weights_are_saved():
        # A network of the user's own is built where it is; it is no stranger's.
        if settings.encoder.name != OWN:
            with torch.device("meta"):
                _compare(make_method(settings, shape), weights, stated_in)
        method = make_method(settings, shape)
    _compare(method, weights, stated_in)
    tensors, _ = read_tensors(weights)
    method.load_state_dict(tensors)
    return method


def _compare(method: nn.Module, weights: Path, stated_in: Path) -> None:
    wanted = {name: tuple(value.shape) for name, value in method.state_dict().items()}
    there = tensor_shapes(weights)
    different = sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))
    if different:
        raise RunError(
            f"{weights} does not fit {stated_in.name} beside it: {listed(different, most=3)} "
            "differ; take both from the same run"
        )
