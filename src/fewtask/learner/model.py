"""A trained model: one or several methods, and all that is needed to predict with them later and elsewhere.

It is saved in a run's folder beside what the run wrote:

    predictor.json      members with their settings, featuriser, scale, calibration, tasks, what it was trained for
    model.safetensors   weights; of several members model-1.safetensors, model-2.safetensors, ...

Paths in it are relative to the folder, which may be moved. Nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fewtask import __version__
from fewtask.auto.calibration import Calibration
from fewtask.auto.vote import Judgement, vote
from fewtask.encoders.own import own_encoder
from fewtask.errors import InputError, RunError
from fewtask.evaluation import embed_rows
from fewtask.features import Featuriser, load_featuriser
from fewtask.files import read_json, write_json, write_tensors
from fewtask.learner.inputs import as_array, feature_rows
from fewtask.methods import Method
from fewtask.methods.adapted import Adapted
from fewtask.pool import Task, TaskPool
from fewtask.run import load_run
from fewtask.saved import input_scale, input_shape, load_method, read_config, saved_settings
from fewtask.settings import to_dict

FILE = "predictor.json"
FORMAT = 1


@dataclass(frozen=True, eq=False)
class Model:
    """Members that vote, and what they need.

    featuriser:  raw inputs -> features; None for a run on a data set of fewtask's own, which takes features.
    scale:       the pool's (shift, factor) of the features.
    about:       what it was trained for: name, tasks, classes, way, shot, notes.
    """

    members: tuple[Method, ...]
    featuriser: Featuriser | None
    scale: tuple[float, float] | None
    input_shape: tuple[int, ...]
    calibration: Calibration = field(default_factory=Calibration)
    about: Mapping[str, Any] = field(default_factory=dict)

    @property
    def device(self) -> torch.device:
        return next(self.members[0].parameters()).device

    def features(self, X: Any) -> np.ndarray:
        """Raw rows, in whatever form, as features [M, *input_shape]."""
        if self.featuriser is not None:
            return feature_rows(X, self.featuriser)
        values = as_array(X)
        if values.dtype.kind not in "fiub":
            raise InputError(f"X holds {values.dtype}: this run takes features of shape {self.input_shape}")
        if values.shape[1:] != self.input_shape:
            raise InputError(f"rows of shape {self.input_shape} are needed, as in training, and X is {values.shape}")
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            row = int(np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))[0])
            raise InputError(f"row {row} of X holds NaN or infinity: leave such rows out or fill them")
        return values.astype(np.float32) if values.dtype.kind == "f" else values

    def embed(self, features: np.ndarray) -> list[Tensor]:
        """Features [M, ...] -> embeddings [M, D], one tensor a member; the scale of training is applied here."""
        rows = torch.as_tensor(features).to(self.device)
        every = np.arange(len(rows))
        pool = TaskPool(rows, ("new",), (every,), (Task("new", (0,)),), self.scale)
        return [embed_rows(member.eval(), pool, every) for member in self.members]

    def adapt(self, features: np.ndarray, labels: np.ndarray, classes: int) -> AdaptedModel:
        """Shown features [S, ...] with labels [S] from 0 to K - 1, any number of rows of each class."""
        index = torch.as_tensor(labels, dtype=torch.int64, device=self.device)
        embedded = self.embed(features)
        adapted = [member.adapt(z, index, classes) for member, z in zip(self.members, embedded)]
        counts = np.bincount(labels, minlength=classes)
        return AdaptedModel(self, adapted, counts, self.calibration.limit(counts))

    # Files

    def save(self, folder: Path, weights: bool = True) -> None:
        """Writes the model into a folder; with weights=False they are in it already."""
        names = weight_files(len(self.members))
        if weights:
            for name, member in zip(names, self.members):
                write_tensors(folder / name, member.state_dict(), {"fewtask": __version__})
        write_json(
            folder / FILE,
            {
                "format": FORMAT,
                "fewtask": __version__,
                "members": [
                    {"weights": name, "settings": to_dict(member.settings)} for name, member in zip(names, self.members)
                ],
                "featuriser": None if self.featuriser is None else self.featuriser.settings(),
                "scale": self.scale,
                "input_shape": list(self.input_shape),
                **self.calibration.as_dict(),
                "trained_for": dict(self.about),
            },
        )

    @classmethod
    def load(cls, folder: Path, device: str = "cpu", encoder: nn.Module | None = None) -> Model:
        """A saved model, or a run of `fewtask train` on a data set of its own; `encoder` is a user's own network."""
        with own_encoder(encoder):
            if not (folder / FILE).exists():
                return cls._of_run(folder, device)
            values = read_json(folder / FILE)
            if not isinstance(values, dict) or values.get("format") != FORMAT:
                raise RunError(f"{folder / FILE} is not of format {FORMAT}, which this fewtask reads: update fewtask")
            try:
                return cls._of_values(folder, values, device)
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                raise RunError(f"{folder / FILE} is damaged ({error!r}): train the run again") from error

    @classmethod
    def _of_values(cls, folder: Path, values: Mapping[str, Any], device: str) -> Model:
        shape = input_shape(values["input_shape"], folder / FILE)
        return cls(
            tuple(_member(folder, member, shape, device) for member in values["members"]),
            None if values["featuriser"] is None else load_featuriser(values["featuriser"]),
            input_scale(values["scale"], folder / FILE),
            shape,
            Calibration.from_dict(values),
            values["trained_for"],
        )

    @classmethod
    def _of_run(cls, folder: Path, device: str) -> Model:
        method = load_run(folder, device)
        path, config = folder / "config.json", read_config(folder)
        scale, shape = input_scale(config["input_scale"], path), input_shape(config["input_shape"], path)
        about = {"name": method.settings.dataset, "way": method.settings.episode.way}
        return cls((method,), None, scale, shape, about=about)


@dataclass(frozen=True, eq=False)
class AdaptedModel:
    """A model that has seen the support of one task.

    counts: [K] rows of each class in the support.
    limit:  a row that is further than this from every prototype is unlike the support.
    """

    model: Model
    members: list[Adapted]
    counts: np.ndarray
    limit: float

    def judge(self, features: np.ndarray) -> Judgement:
        """Calibrated log-probabilities [M, K] and distances [M] of features [M, ...]."""
        found = vote(self.members, self.model.embed(features))
        return replace(found, log_probabilities=self.model.calibration.apply(found, self.counts))


def weight_files(members: int) -> list[str]:
    return ["model.safetensors"] if members == 1 else [f"model-{i + 1}.safetensors" for i in range(members)]


def _member(folder: Path, values: Mapping[str, Any], shape: tuple[int, ...], device: str) -> Method:
    """`weights` is a file of the folder itself: a path could lead out of it."""
    name = values["weights"]
    if not isinstance(name, str) or Path(name).name != name:
        raise RunError(f"{folder / FILE} is damaged: '{name}' is no file of its folder")
    settings = saved_settings(values["settings"], folder / FILE)
    return load_method(settings, shape, folder / name, folder / FILE).to(device).eval()
