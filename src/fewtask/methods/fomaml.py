"""First-order MAML (Finn et al., ICML 2017).

The encoder and a linear head take a few gradient steps on the support set. First order drops ∂²L_s/∂θ²: the
adapted weights are θ minus a constant, so the gradient at the adapted weights is the gradient of θ. Methods that mix
supports in the inner steps are in files of their own.

Weights that change from episode to episode have no running statistics. BatchNorm takes those of the support in the
inner steps, and queries are normalised by the adapted network's statistics of the support, in training and at test
alike: a query's label does not depend on the other queries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap

from fewtask.encoders.normalisation import normalising
from fewtask.episodes import Episode
from fewtask.errors import TaskError
from fewtask.methods.adapted import Adapted, balanced_weights, label_means
from fewtask.methods.base import Method, Step
from fewtask.methods.metric import accuracy
from fewtask.settings import RunSettings

Weights = dict[str, Tensor]
Scores = Callable[[Weights, int], Tensor]
"""Scores [K * n, K], the rows of each class together, of the b-th episode with given weights."""


class FOMAML(Method):
    """Each episode adapts its own copy of θ on its support and is judged on its queries."""

    name = "fomaml"
    title = "FOMAML"
    cost = 10.0
    summary = "first-order MAML: gradient steps of encoder and linear head on the support set"
    groups: ClassVar[tuple[str, ...]] = ("adaptation",)
    scaled = False

    def __init__(self, settings: RunSettings, input_shape: tuple[int, ...]) -> None:
        super().__init__(settings, input_shape)
        self.head = nn.Linear(self.encoder.embedding, settings.episode.way)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    @property
    def separable(self) -> bool:
        return True

    def inner(self) -> list[nn.Parameter]:
        return [*self.encoder.parameters(), *self.head.parameters()]

    def episode_loss(self, episode: Episode, update: bool = True) -> Step:
        return self.adapted_loss(
            episode.batch,
            lambda weights, b: self.plain(weights, episode.support[b]),
            lambda weights, b: self.plain(weights, episode.query[b]),
        )

    def adapted_loss(self, batch: int, support: Scores, query: Scores, reference: Scores | None = None) -> Step:
        """Mean query loss after adaptation on the support, one episode after the other.

        reference: the rows whose statistics normalise the queries, where they are not the support's.
        """
        losses, rates = [], []
        for b in range(batch):
            weights: Weights = self.weights()
            for _ in range(self.settings.adaptation.steps):
                weights = self.inner_step(weights, support, b)
            with normalising(self.encoder, statistics="keep"):
                (reference or support)(weights, b)
            with normalising(self.encoder, statistics="kept"):
                scores = query(weights, b)
            losses.append(class_loss(scores))
            rates.append(accuracy(scores, _labels(scores)))
        return Step(torch.stack(losses).mean(), torch.stack(rates).mean())

    def inner_step(self, weights: Weights, support: Scores, b: int) -> Weights:
        # Fresh leaves: the step depends on λ but, to first order, not on θ.
        here = {name: w.detach().requires_grad_() for name, w in weights.items()}
        keeps_graph = any(p.requires_grad for p in self.outer())
        slopes = torch.autograd.grad(class_loss(support(here, b)), list(here.values()), create_graph=keeps_graph)
        rate = self.settings.adaptation.lr
        return {name: w - rate * g for (name, w), g in zip(weights.items(), slopes)}

    def weights(self) -> Weights:
        """θ by name."""
        inner = {id(p) for p in self.inner()}
        return {name: p for name, p in self.named_parameters() if id(p) in inner}

    def plain(self, weights: Weights, rows: Tensor) -> Tensor:
        """Scores of rows [K, n, ...] as they are."""
        with self.passes(1, update=False):
            return self.compute(weights, lambda: self.head(self.features(rows.flatten(0, 1))))

    def compute(self, weights: Weights, computation: Callable[[], Tensor]) -> Tensor:
        """Runs a computation of this module with other weights in place of θ."""
        return functional_call(self, weights, (computation,))

    def forward(self, computation: Callable[[], Tensor]) -> Tensor:
        return computation()

    def embed(self, rows: Tensor) -> Tensor:
        """Rows themselves: adapted weights differ from episode to episode."""
        return rows

    def logits(self, support: Tensor, query: Tensor) -> Tensor:
        """Adapts on each support set [E, K, N, ...] and scores its queries [E, M, ...] -> [E, M, K]."""
        a = self.settings.adaptation
        start = {name: w.detach() for name, w in self.weights().items()}

        def loss(weights: Weights, rows: Tensor) -> Tensor:
            return class_loss(self.plain(weights, rows))

        def adapted(rows: Tensor, queries: Tensor) -> Tensor:
            weights = start
            for _ in range(a.test_steps):
                slopes = torch.func.grad(loss)(weights, rows)
                weights = {name: w - a.lr * slopes[name] for name, w in weights.items()}
            with normalising(self.encoder, statistics="keep"):
                self.plain(weights, rows)
            with normalising(self.encoder, statistics="kept"):
                return self.plain(weights, queries.unsqueeze(1))

        with normalising(self.encoder, statistics="batch"):
            return vmap(adapted, chunk_size=16)(support, query)

    def adapt(self, support: Tensor, labels: Tensor, classes: int) -> Adapted:
        """Adapts once; classes of an episode come in random order, so that any K outputs of the head serve."""
        if classes > self.head.out_features:
            raise TaskError(
                f"{self.name} was trained to tell {self.head.out_features} classes apart, and these examples have "
                f"{classes}: train it with episode.way {classes}, or take a method of prototypes such as protonet"
            )
        share, rows = balanced_weights(labels, classes), support.unsqueeze(1)
        weights: Weights = {name: w.detach() for name, w in self.weights().items()}

        def loss(weights: Weights) -> Tensor:
            losses = F.cross_entropy(self.plain(weights, rows)[:, :classes], labels, reduction="none")
            return (losses * share.to(losses)).sum()

        with normalising(self.encoder, statistics="batch"):
            for _ in range(self.settings.adaptation.test_steps):
                slopes = torch.func.grad(loss)(weights)
                weights = {name: w - self.settings.adaptation.lr * slopes[name] for name, w in weights.items()}

        def seen(computation: Callable[[Tensor], Tensor], queries: Tensor) -> Tensor:
            """Of queries that are normalised by the support's statistics."""
            with torch.no_grad(), self.passes(1, update=False):
                with normalising(self.encoder, update=False, statistics="keep"):
                    self.compute(weights, lambda: self.features(support))
                with normalising(self.encoder, update=False, statistics="kept"):
                    return self.compute(weights, lambda: computation(queries))

        def place(queries: Tensor) -> Tensor:
            return seen(self.features, queries)

        def scores(queries: Tensor) -> Tensor:
            return seen(lambda rows: self.head(self.features(rows))[:, :classes], queries)

        return Adapted(scores, place, label_means(place(support), labels, classes))


def class_loss(scores: Tensor) -> Tensor:
    """Cross-entropy of scores [K * n, K] whose rows stand class by class."""
    return F.cross_entropy(scores, _labels(scores))


def _labels(scores: Tensor) -> Tensor:
    rows, classes = scores.shape
    return torch.arange(classes, device=scores.device).repeat_interleave(rows // classes)
