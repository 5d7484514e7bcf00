"""MetaLearner: trains on several tasks with labels, then adapts to a new one from a handful of examples."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from torch import nn

from fewtask.auto.candidates import INSTEAD
from fewtask.datasets.base import Progress, quiet
from fewtask.encoders.own import own_encoder
from fewtask.errors import InputError, SettingsError
from fewtask.features import Featuriser
from fewtask.files import write_text
from fewtask.learner.adapted import AdaptedClassifier
from fewtask.learner.card import own_card
from fewtask.learner.defaults import own_settings, said
from fewtask.learner.examples import write_example
from fewtask.learner.held_out import EPISODES
from fewtask.learner.held_out_files import write_held_out
from fewtask.learner.inputs import as_array, own_data
from fewtask.learner.model import FILE, Model
from fewtask.learner.scoring import episode_accuracy
from fewtask.learner.training import Trained, auto_options, in_turn, too_few_tasks, train_automatically, train_one
from fewtask.methods import AUTO
from fewtask.own import OwnData
from fewtask.pool import Dataset
from fewtask.settings import RunSettings


class MetaLearner(BaseEstimator):
    """Few-task meta-learning with scikit-learn's conventions.

    Parameters
    ----------
    method
        name of a method (`fewtask list methods`), or "auto": whatever wins on held-out tasks, trained on all.
    features
        what X holds where it is not numbers: "molecules" (SMILES), "text", "images" or "sound" (paths).
    encoder
        name of an encoder, a network of one's own (`nn.Module`; the children of an `nn.Sequential` are layers,
        between which `settings={"interpolation": {"layer": 2}}` cuts), or None: what suits the input.
    shot
        examples of each class that episodes of training show; None: 5, or what the smallest class allows.
    steps
        steps of training; None: 1,500, with images 2,000.
    settings
        all other settings by group, {"optimizer": {"lr": 3e-4}}.
    validation
        names of the tasks (in a class pool: classes) to choose weights on; None: a quarter is set aside.
    episodes
        of held-out tasks, by which it is calibrated and assessed with 1, 2, 5, 10 and 20 examples.
    minutes, auto, n_jobs
        of method "auto": its time (None: no limit), further options by name (`AutoSettings`), and
        how many processes train at once (0: one a core; more than 1 needs `if __name__ == "__main__"` in scripts).
    random_state
        seed of everything.
    device
        "cpu", "cuda", ...
    verbose
        prints what was decided, the memory and time it will take, and a progress bar.

    Attributes after `fit`
    ----------------------
    model_: the trained `Model`. settings_: what was used. notes_: what was decided, a sentence each.
    held_out_: accuracy, AUC and calibration error by shot on held-out tasks, beside untrained methods.
    """

    def __init__(
        self,
        method: str = "protonet",
        *,
        features: str | Featuriser | None = None,
        encoder: str | nn.Module | None = None,
        shot: int | None = None,
        steps: int | None = None,
        settings: Mapping[str, Any] | None = None,
        validation: Sequence[str] | None = None,
        episodes: int = EPISODES,
        minutes: float | None = 10.0,
        auto: Mapping[str, Any] | None = None,
        n_jobs: int = 1,
        random_state: int = 0,
        device: str = "cpu",
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.features = features
        self.encoder = encoder
        self.shot = shot
        self.steps = steps
        self.settings = settings
        self.validation = validation
        self.episodes = episodes
        self.minutes = minutes
        self.auto = auto
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def fit(self, X: Any, y: Any, groups: Any = None) -> MetaLearner:
        """X [R, ...] rows of all tasks, y [R] their classes, groups [R] their tasks; without groups a class pool."""
        return self.fit_data(own_data(X, y, groups, self.features))

    def fit_data(
        self, own: OwnData, out: Path | None = None, test: Sequence[str] = (), progress: Progress = quiet
    ) -> MetaLearner:
        """Trains on own data; `out` saves everything there, and continues what was interrupted."""
        self._check()
        validation = None if self.validation is None else [str(name) for name in self.validation]
        dataset = own.dataset(validation, test, self.random_state, progress)
        own_network = self.encoder if isinstance(self.encoder, nn.Module) else None
        with own_encoder(own_network):
            trained = self._train(own, dataset, out, progress)
        self.settings_, self.held_out_ = trained.settings, trained.held_out
        self.notes_, self.record_, self.history_ = trained.notes, trained.record, trained.history
        self._say(self.held_out_.verdict(self.settings_.method, self.settings_.episode.shot))
        self.model_ = Model(
            trained.members,
            own.featuriser,
            dataset.train.scale,
            tuple(dataset.input_shape),
            self.held_out_.calibration,
            about(dataset, self.settings_) | {"notes": list(self.notes_)},
        )
        self.n_features_in_ = dataset.input_shape[-1]
        self.example_ = (own, dataset)
        if out is not None:
            self.save(out)
        return self

    def _train(self, own: OwnData, dataset: Dataset, out: Path | None, progress: Progress) -> Trained:
        method = INSTEAD if self.method == AUTO else self.method
        settings = own_settings(dataset, own.featuriser.kind, method, self.random_state, self.changes())
        self._say(*dataset.notes)
        show = None if self.verbose else False
        if self.method == AUTO:
            options = auto_options(self.minutes, self.steps, self.auto)
            why = too_few_tasks(dataset, settings, options.folds)
            if why is None:
                self._say(in_turn(dataset))
                return train_automatically(
                    dataset, settings, out, options,
                    workers=self.n_jobs, device=self.device, episodes=self.episodes, say=self._say, show_progress=show,
                    progress=progress, kept=self.changes(),
                )  # fmt: skip
            dataset = dataclasses.replace(dataset, notes=(*dataset.notes, f"{INSTEAD} is trained: {why}"))
            self._say(dataset.notes[-1])
        self._say(said(settings, len(dataset.train.rows)))
        return train_one(
            dataset, settings, out,
            device=self.device, episodes=self.episodes, say=self._say, show_progress=show, progress=progress,
        )  # fmt: skip

    def changes(self) -> dict[str, Any]:
        """The parameters as changes of settings."""
        wanted: dict[str, Any] = {group: dict(values) for group, values in (self.settings or {}).items()}
        given: dict[tuple[str, str], Any] = {("episode", "shot"): self.shot, ("train", "steps"): self.steps}
        if self.encoder is not None:
            given["encoder", "name"] = "own" if isinstance(self.encoder, nn.Module) else self.encoder
        for (group, key), value in given.items():
            if value is not None:
                wanted.setdefault(group, {})[key] = value
        return wanted

    def adapt(self, X: Any, y: Any) -> AdaptedClassifier:
        """A classifier for a new task from labelled rows of it: any classes, any number of rows of each."""
        return AdaptedClassifier(self.fitted_model(), X, y)

    def embed(self, X: Any) -> Any:
        """[M, D] embeddings of rows, of several members side by side."""
        import torch

        model = self.fitted_model()
        return torch.cat(model.embed(model.features(X)), dim=1).cpu().numpy()

    def score(self, X: Any, y: Any, groups: Any = None) -> float:
        """Mean accuracy of episodes of tasks that it has not been trained on, with `shot` examples of each class."""
        return episode_accuracy(self.fitted_model(), self.random_state, X, as_array(y), groups)

    def save(self, path: str | Path) -> None:
        """Writes the folder that `load` and `fewtask predict` read."""
        folder, model = Path(path), self.fitted_model()
        if folder.exists() and any(folder.iterdir()) and not _is_ours(folder):
            raise InputError(f"{folder} is not empty and holds no model: choose another folder")
        model.save(folder, weights=not (folder / "result.json").exists())
        if not hasattr(self, "held_out_"):
            return
        write_held_out(self.held_out_, folder)
        example = write_example(*self.example_, folder) if hasattr(self, "example_") else []
        write_text(folder / "README.md", own_card(self.settings_, self.record_, model, self.held_out_, example))

    @classmethod
    def load(cls, path: str | Path, *, device: str = "cpu", encoder: nn.Module | None = None) -> MetaLearner:
        """A saved model, ready to adapt; `encoder` is the network of one's own that it was trained with, if any."""
        model = Model.load(Path(path), device, encoder)
        settings = model.members[0].settings
        made = cls(settings.method, encoder=encoder or settings.encoder.name, device=device, random_state=settings.seed)
        made.model_, made.settings_ = model, settings
        return made

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def fitted_model(self) -> Model:
        """The trained model, or scikit-learn's error that there is none yet."""
        if not hasattr(self, "model_"):
            from sklearn.exceptions import NotFittedError

            raise NotFittedError("this MetaLearner is not fitted: call fit with rows, labels and tasks first")
        model: Model = self.model_
        return model

    def _check(self) -> None:
        if self.settings is not None and not isinstance(self.settings, Mapping):
            raise SettingsError('settings are given by group, {"train": {"steps": 500}}')

    def _say(self, *sentences: str) -> None:
        if self.verbose:
            for sentence in sentences:
                print(sentence, flush=True)


def about(dataset: Dataset, settings: RunSettings) -> dict[str, Any]:
    """What a saved model says of what it was trained for."""
    pools = dataset.pools(settings.data, settings.episode.way)
    return {
        "name": dataset.name,
        "method": settings.method,
        "way": settings.episode.way,
        "shot": settings.episode.shot,
        "class_pool": pools.train.is_class_pool,
        "tasks": {
            split: {task.name: [pool.class_names[c] for c in task.classes] for task in pool.tasks}
            for split, pool in pools.splits.items()
        },
        "notes": list(dataset.notes),
    }


def _is_ours(folder: Path) -> bool:
    return any((folder / name).exists() for name in (FILE, "config.json", "auto.json"))
