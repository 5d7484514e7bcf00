"""λ's step: Algorithm 2 on a batch of validation tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from torch import Tensor

from fewtask.hypergradient import hypergradient
from fewtask.training.optimisers import adam_scale, learning_rate
from fewtask.training.replay import Replay, in_pieces
from fewtask.training.state import TrainingState


def lambda_gradient(
    state: TrainingState, replays: Sequence[Replay], train_grad: Sequence[Tensor] | None
) -> tuple[list[Tensor], dict[str, Any]]:
    """The hypergradient, and what a line of the history says of it.

    train_grad: ∂L_tr/∂θ with its graph, where the step has left it.
    """
    method, settings = state.method, state.method.settings
    e, hyper = settings.episode, settings.hyper
    batch = state.outer_sampler.sample(e.batch, e.way, e.shot, e.query)

    def validation(episode: Any, share: float) -> Callable[[], Tensor]:
        return lambda: method.validation_loss(episode) if share == 1.0 else share * method.validation_loss(episode)

    report: dict[str, Any] = {}
    step: float | Literal["auto"] = "auto" if hyper.step == "auto" else learning_rate(state.optimiser)
    gradient = hypergradient(
        hyper.estimator,
        list(replays),
        [validation(episodes[0], share) for episodes, share in in_pieces([batch], settings.train.pieces)],
        method.inner(),
        method.outer(),
        step=step,
        terms=hyper.terms,
        damping=hyper.damping,
        decay=settings.optimizer.weight_decay if hyper.decay else 0.0,
        scale=adam_scale(state.optimiser) if hyper.precondition else None,
        memory=state.solution if hyper.warm_start else None,
        train_grad=train_grad,
        report=report,
    )
    return gradient, report | method.outer_report()
