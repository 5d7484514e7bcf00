"""Settings of a run: frozen dataclasses, the one definition behind Python, command line, saved runs and docs.

The groups are in groups.py; here they make up a run, are changed, and give it its identity.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fewtask.auto_settings import AutoSettings
from fewtask.errors import SettingsError, unknown
from fewtask.groups import (
    AdaptationSettings,
    CentroidSettings,
    DataSettings,
    EncoderSettings,
    EpisodeSettings,
    EvaluationSettings,
    HyperSettings,
    InterpolationSettings,
    MetaRegSettings,
    MixupSettings,
    ModelSettings,
    OptimizerName,
    OptimizerSettings,
    ScheduleName,
    SetFunctionSettings,
    TrainSettings,
)
from fewtask.ranges import Checked, Seed

__all__ = [
    "COMMON_GROUPS",
    "AdaptationSettings",
    "AutoSettings",
    "CentroidSettings",
    "DataSettings",
    "EncoderSettings",
    "EpisodeSettings",
    "EvaluationSettings",
    "HyperSettings",
    "InterpolationSettings",
    "MetaRegSettings",
    "MixupSettings",
    "ModelSettings",
    "OptimizerName",
    "OptimizerSettings",
    "RunSettings",
    "ScheduleName",
    "SetFunctionSettings",
    "TrainSettings",
    "digest",
    "from_dict",
    "identity",
    "to_dict",
    "update",
]


@dataclass(frozen=True)
class RunSettings(Checked):
    """Everything that a run depends on."""

    dataset: str = "rainbow-digits"
    method: str = "meta-interpolation"
    seed: Seed = 0
    data: DataSettings = field(default_factory=DataSettings)
    episode: EpisodeSettings = field(default_factory=EpisodeSettings)
    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    model: ModelSettings = field(default_factory=ModelSettings)
    optimizer: OptimizerSettings = field(default_factory=OptimizerSettings)
    hyper: HyperSettings = field(default_factory=HyperSettings)
    set_function: SetFunctionSettings = field(default_factory=SetFunctionSettings)
    interpolation: InterpolationSettings = field(default_factory=InterpolationSettings)
    mixup: MixupSettings = field(default_factory=MixupSettings)
    metareg: MetaRegSettings = field(default_factory=MetaRegSettings)
    adaptation: AdaptationSettings = field(default_factory=AdaptationSettings)
    centroid: CentroidSettings = field(default_factory=CentroidSettings)
    train: TrainSettings = field(default_factory=TrainSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    auto: AutoSettings = field(default_factory=AutoSettings)

    @property
    def hyper_period(self) -> int:
        """S, the steps between two updates of λ."""
        return self.hyper.period or max(1, self.train.steps // max(1, self.hyper.updates))


COMMON_GROUPS = ("data", "episode", "encoder", "model", "optimizer", "train", "evaluation")
GROUPS = tuple(item.name for item in dataclasses.fields(RunSettings) if item.name not in ("dataset", "method", "seed"))


def to_dict(settings: RunSettings) -> dict[str, Any]:
    return dataclasses.asdict(settings)


def update(settings: RunSettings, changes: Mapping[str, Any]) -> RunSettings:
    """Settings with some replaced: {"seed": 1, "train": {"steps": 100}}."""
    return _merge(settings, changes, "")


def from_dict(values: Mapping[str, Any]) -> RunSettings:
    return update(RunSettings(), values)


def _merge(node: Any, changes: Mapping[str, Any], where: str) -> Any:
    known = {item.name: item for item in dataclasses.fields(node)}
    replaced: dict[str, Any] = {}
    for key, value in changes.items():
        if key not in known:
            raise unknown("setting", f"{where}{key}", [where + name for name in known])
        current = getattr(node, key)
        if dataclasses.is_dataclass(current):
            if not isinstance(value, Mapping):
                raise SettingsError(f"setting '{where}{key}' is a group and takes a table of settings")
            replaced[key] = _merge(current, value, f"{where}{key}.")
        else:
            replaced[key] = value
    return dataclasses.replace(node, **replaced)


def identity(settings: RunSettings, groups: tuple[str, ...]) -> dict[str, Any]:
    """The settings that make a run what it is: the common groups and those that its method uses."""
    values = to_dict(settings)
    kept = {key: values[key] for key in ("dataset", "method", "seed")}
    for group in COMMON_GROUPS + groups:
        kept[group] = values[group]
    # How often a run is logged or saved does not change what it computes.
    if "hyper" in kept:
        # What counts is when λ is updated, in whichever way it was asked for.
        kept["hyper"] = {k: v for k, v in kept["hyper"].items() if k != "updates"} | {"period": settings.hyper_period}
    kept["train"] = {k: v for k, v in kept["train"].items() if k not in ("log_every", "checkpoint_every")}
    return kept


def digest(values: Mapping[str, Any]) -> str:
    """A short name for settings: the same for the same values, whatever their order."""
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]
