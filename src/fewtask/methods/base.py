"""The interface of a method: how it draws episodes, its losses, and how it labels queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from fewtask.encoders import make_encoder
from fewtask.encoders.normalisation import EpisodeBatchNorm, normalising
from fewtask.episodes import Episode
from fewtask.errors import SettingsError
from fewtask.methods.adapted import Adapted, label_means
from fewtask.methods.metric import accuracy, class_mean, cross_entropy, prototype_logits
from fewtask.pool import TaskPool
from fewtask.sampler import EpisodeSampler
from fewtask.settings import RunSettings


@dataclass(frozen=True)
class Step:
    """What a training step computed: the loss to minimise and the accuracy on its queries."""

    loss: Tensor
    accuracy: Tensor


class Method(nn.Module):
    """A Prototypical Network by default; other methods replace what they do differently.

    θ (`inner`) is trained on the training loss. λ (`outer`) is trained on the validation loss by hypergradients
    where `bilevel`, or together with θ where `joint`.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    """As tables and figures call it."""
    summary: ClassVar[str]
    cost: ClassVar[float] = 1.0
    """Time of a step against ProtoNet's, roughly: until a ledger knows better."""
    groups: ClassVar[tuple[str, ...]] = ()
    """Groups of settings, besides the common ones, that this method uses."""
    trained: ClassVar[bool] = True
    scaled: ClassVar[bool] = True
    """Whether `model.scale` multiplies the distances; not where nothing is trained or a head gives the scores."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "title" not in vars(cls) and "name" in vars(cls):
            # Not that of the method it is made from.
            cls.title = cls.name

    def __init__(self, settings: RunSettings, input_shape: tuple[int, ...]) -> None:
        super().__init__()
        self.settings = settings
        self.encoder = make_encoder(settings.encoder, input_shape)
        # Learned as an exponent, so that it stays positive and weight decay draws it to where it started.
        learned = self.scaled and settings.model.scale_by == "learned"
        self.log_scale = nn.Parameter(torch.zeros(())) if learned else None

    # Parameters

    @property
    def bilevel(self) -> bool:
        return False

    @property
    def joint(self) -> bool:
        return False

    @property
    def separable(self) -> bool:
        """Whether the loss of an episode is the same whatever other episodes are in its batch."""
        if self.settings.model.normalisation == "episode":
            return True
        return not any(isinstance(module, EpisodeBatchNorm) for module in self.encoder.modules())

    def inner(self) -> list[nn.Parameter]:
        """θ."""
        return [*self.encoder.parameters(), *([] if self.log_scale is None else [self.log_scale])]

    def outer(self) -> list[nn.Parameter]:
        """λ."""
        return []

    def outer_groups(self) -> list[dict[str, Any]]:
        """λ as an optimiser takes it: groups of parameters, with a learning rate where it is not `hyper.lr`."""
        return [{"params": self.outer()}]

    def outer_report(self) -> dict[str, Any]:
        """What a line of the history says of λ, besides its hypergradient."""
        return {}

    def project(self) -> None:
        """Brings λ back to where it is allowed, after an update."""

    def check(self, train: TaskPool, validation: TaskPool) -> None:
        """Raises SettingsError for settings that cannot work on these tasks, before training starts."""
        if self.settings.train.pieces > 1 and not self.separable:
            raise SettingsError(
                "train.pieces works a batch through in parts, and BatchNorm over the whole batch needs it at once: set "
                "model.normalisation to episode"
            )

    def prepare(self, train: TaskPool, accuracy: Callable[[], float]) -> None:
        """Whatever is found from the data before the first step.

        `accuracy` is that of the method as it is, on the fixed list of validation episodes.
        """

    # Training

    def draw(self, sampler: EpisodeSampler) -> list[Episode]:
        """The episodes of one step: the first to be learned, then its partners in augmentation."""
        e = self.settings.episode
        return [sampler.sample(e.batch, e.way, e.shot, e.query)]

    def training_loss(self, episodes: list[Episode]) -> Step:
        """L_tr of a batch, with its graph."""
        return self.episode_loss(episodes[0])

    def validation_loss(self, episode: Episode) -> Tensor:
        """L_V, the outer objective: as in training, but running statistics stay untouched."""
        return self.episode_loss(episode, update=False).loss

    def episode_loss(self, episode: Episode, update: bool = True) -> Step:
        """The loss of plain episodes (Eq. 2); `update` moves the running statistics."""
        support, query = self.encode(episode, update)
        return self.step(class_mean(support), query, episode.labels())

    def step(self, prototypes: Tensor, query: Tensor, labels: Tensor) -> Step:
        """[B, K, D], [B, M, D], [M] -> loss and accuracy."""
        logits = self.scores(prototypes, query)
        return Step(cross_entropy(logits, labels), accuracy(logits, labels))

    def scores(self, prototypes: Tensor, query: Tensor) -> Tensor:
        """Minus the scaled distances: [B, K, D], [B, M, D] -> [B, M, K]."""
        model = self.settings.model
        logits = prototype_logits(prototypes, query, model.distance)
        if not self.scaled:
            return logits
        factor = model.scale / query.shape[-1] if model.scale_by == "dimension" else model.scale
        if self.log_scale is not None:
            return logits * (factor * self.log_scale.exp())
        return logits if factor == 1.0 else logits * factor

    def encode(self, episode: Episode, update: bool = True) -> tuple[Tensor, Tensor]:
        """Support [B, K, N, D] and queries [B, K * Q, D] of plain episodes, in one pass."""
        rows = join(episode.support, episode.query)
        with self.passes(episode.batch, update=update):
            z = self.features(rows.flatten(0, 1))
        return part(z, episode)

    def features(self, rows: Tensor) -> Tensor:
        """f̂: rows [M, ...] to embeddings [M, D]."""
        return self.encoder(rows)

    @contextmanager
    def passes(self, batch: int, *, update: bool) -> Iterator[None]:
        """BatchNorm for a pass over the rows of `batch` episodes, by the settings."""
        groups = batch if self.settings.model.normalisation == "episode" else 1
        with normalising(self.encoder, update=update, groups=groups):
            yield

    def interpolated_prototypes(self, supports: Sequence[Tensor]) -> Tensor:
        """Prototypes [K, D] of the task between two supports [K, N, ...], as the method makes it in training."""
        way, shot = supports[0].shape[:2]
        layer = self.settings.interpolation.layer
        mixed = self.mixed([self.encoder.lower(support.flatten(0, 1), layer) for support in supports], way, shot)
        z = self.encoder.upper(mixed, layer)
        return class_mean(z.view(1, way, -1, z.shape[-1]))[0]

    def mixed(self, h: Sequence[Tensor], way: int, shot: int) -> Tensor:
        """Features of the task between two: [K * N, d] each, class by class -> [K * n, d]."""
        raise SettingsError(f"'{self.name}' does not interpolate tasks: a task map needs a method that does")

    # Prediction

    def embed(self, rows: Tensor) -> Tensor:
        """Rows [M, ...] to what `logits` takes, [M, D]; in evaluation a row's embedding is made once."""
        return self.features(rows)

    def logits(self, support: Tensor, query: Tensor) -> Tensor:
        """Embedded support [E, K, N, D] and queries [E, M, D] to scores [E, M, K]."""
        return self.scores(class_mean(support), query)

    def adapt(self, support: Tensor, labels: Tensor, classes: int) -> Adapted:
        """Embedded support [S, D] with labels [S] from 0 to K - 1, any number of rows of each class."""
        prototypes = label_means(support, labels, classes)
        # A support of one row a class, which is its own mean: scores are made in one place only.
        return Adapted(lambda query: self.logits(prototypes[None, :, None], query[None])[0], lambda q: q, prototypes)


def check_shared_labels(train: TaskPool, setting: str) -> None:
    """Refuses to mix tasks class by class that have no classes in common."""
    labels = {tuple(train.class_names[c] for c in task.classes) for task in train.tasks}
    if train.is_class_pool or len(labels) > 1:
        raise SettingsError(f"{setting} needs fixed tasks with the same classes, and these differ")


def join(*sets: Tensor) -> Tensor:
    """Rows of the same episodes side by side: tensors [B, K, n, ...] -> [B, sum of K * n, ...]."""
    return torch.cat([s.flatten(1, 2) for s in sets], dim=1)


def part(z: Tensor, episode: Episode) -> tuple[Tensor, Tensor]:
    """Embeddings of joined support and queries apart again: [B, K, N, D] and [B, K * Q, D]."""
    z = z.view(episode.batch, -1, z.shape[-1])
    count = episode.way * episode.shot
    return z[:, :count].unflatten(1, (episode.way, episode.shot)), z[:, count:]
