"""Meta-training: Algorithm 1."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fewtask.errors import RunError
from fewtask.evaluation import evaluate
from fewtask.hypergradient import get_estimator
from fewtask.methods import Method
from fewtask.pool import Pools, TaskPool
from fewtask.protocol import EpisodeList, selection_episodes
from fewtask.sampler import EpisodeSampler
from fewtask.threads import keep_memory, notice_others
from fewtask.training.averaging import averaged, move_average, start_average
from fewtask.training.history import History
from fewtask.training.hyper import lambda_gradient
from fewtask.training.interruption import InterruptedRunError, ctrl_c
from fewtask.training.optimisers import learning_rate, make_optimiser, make_schedule
from fewtask.training.progress import TrainingProgress
from fewtask.training.replay import first_gradient, in_pieces
from fewtask.training.state import Best, TrainingState


def fit(
    method: Method,
    pools: Pools,
    *,
    checkpoint: Path | None = None,
    history: History | None = None,
    show_progress: bool | None = None,
    on_row: Callable[[dict[str, Any]], None] | None = None,
) -> TrainingState:
    """Trains a method, continuing from the checkpoint if it is there, and returns the final state.

    The selected weights are in `state.best`; the method itself keeps those of the last step.
    """
    settings, train = method.settings, method.settings.train
    keep_memory()
    notice_others()
    history = history or History(None)
    state = new_state(method, pools.train, pools.outer)
    history.restore([] if checkpoint is None else state.resume(checkpoint))
    episodes = selection_episodes(settings, pools)
    method.train()
    logged = time.perf_counter()
    started = logged - state.seconds

    def note(row: dict[str, Any]) -> None:
        row = {"step": state.step, **row, "seconds": round(time.perf_counter() - started, 3)}
        history.add(row)
        progress.show(row)
        if on_row is not None:
            on_row(row)

    label = f"{settings.method} on {settings.dataset}"
    with TrainingProgress(label, train.steps, state.step, show_progress) as progress, ctrl_c() as stop_asked:
        while state.step < train.steps:
            hyper_row = training_step(state)
            progress.advance()
            last = state.step == train.steps
            if hyper_row:
                note(hyper_row)
            if state.step % train.log_every == 0 or last:
                note(_training_row(state, time.perf_counter() - logged))
                logged = time.perf_counter()
            if state.step % train.validate_every == 0 or last:
                note(validate(state, pools, episodes))
            state.seconds = time.perf_counter() - started
            if checkpoint is not None and (state.step % train.checkpoint_every == 0 or stop_asked() or last):
                state.save(checkpoint, history.rows)
            if stop_asked() and not last:
                where = (
                    "" if checkpoint is None else f" and saved in {checkpoint.parent}; run the same command to go on"
                )
                raise InterruptedRunError(f"stopped after step {state.step} of {train.steps}{where}")
    return state


def new_state(method: Method, train_pool: TaskPool, outer_pool: TaskPool) -> TrainingState:
    settings = method.settings
    optimiser = make_optimiser(
        settings.optimizer.name, method.inner(), settings.optimizer.lr, settings.optimizer.weight_decay
    )
    outer = method.outer()
    hyper = settings.hyper
    hyper_optimiser = make_optimiser(hyper.name, method.outer_groups(), hyper.lr) if outer else None
    updates = settings.train.steps if method.joint else settings.train.steps // settings.hyper_period
    return TrainingState(
        method=method,
        optimiser=optimiser,
        schedule=make_schedule(settings.optimizer.schedule, optimiser, settings.train.steps),
        hyper_optimiser=hyper_optimiser,
        hyper_schedule=make_schedule(hyper.schedule, hyper_optimiser, updates) if hyper_optimiser else None,
        sampler=EpisodeSampler(train_pool, (settings.seed, 1)),
        outer_sampler=EpisodeSampler(outer_pool, (settings.seed, 2)),
        average=start_average(method),
        sums=torch.zeros(4, dtype=torch.float64, device=next(method.parameters()).device),
    )


def training_step(state: TrainingState) -> dict[str, Any] | None:
    """One iteration of Algorithm 1; the numbers of the hyper-update where there was one."""
    method, theta, lam = state.method, state.method.inner(), state.method.outer()
    hyper_update = method.bilevel and (state.step + 1) % method.settings.hyper_period == 0
    # λ takes part in the graph only when it is to be updated.
    _require(lam, hyper_update or method.joint)
    pieces = in_pieces(method.draw(state.sampler), method.settings.train.pieces)
    graph = hyper_update and get_estimator(method.settings.hyper.estimator).graph and len(pieces) == 1
    slopes, step, replays = first_gradient(method, pieces, [*theta, *lam] if method.joint else theta, graph)
    row = None
    if hyper_update:
        # Before θ moves: the graph of L_tr belongs to this θ.
        gradient, report = lambda_gradient(state, replays, slopes if graph else None)
        _apply(state.hyper_optimiser, state.hyper_schedule, lam, gradient)
        method.project()
        row = {"hyper": report}
    elif method.joint:
        _apply(state.hyper_optimiser, state.hyper_schedule, lam, slopes[len(theta) :])
        method.project()
    _apply(state.optimiser, state.schedule, theta, slopes[: len(theta)])
    move_average(state.method, state.average, state.step)
    squared = torch.stack(torch._foreach_norm([s.detach() for s in slopes[: len(theta)]])).pow(2).sum()
    state.sums += torch.stack([step.loss.detach(), step.accuracy, squared, squared.new_ones(())]).double()
    state.step += 1
    return row


def validate(state: TrainingState, pools: Pools, episodes: EpisodeList) -> dict[str, Any]:
    """Accuracy on validation episodes; keeps the weights if they are the best so far.

    Those of the last step are kept where they have been trained on these very tasks.
    """
    method = state.method
    with averaged(method, state.average):
        score = evaluate(method, pools.selection, episodes)
        last = state.step == method.settings.train.steps
        if score.accuracy > state.best.accuracy if pools.selects else last:
            weights = {name: value.detach().clone() for name, value in method.state_dict().items()}
            state.best = Best(state.step, score.accuracy, score.loss, weights)
    return {"validation_loss": score.loss, "validation_accuracy": score.accuracy}


def _require(parameters: Sequence[Tensor], wanted: bool) -> None:
    for parameter in parameters:
        parameter.requires_grad_(wanted)


def _apply(
    optimiser: torch.optim.Optimizer | None, schedule: Any, parameters: Sequence[Tensor], gradient: Sequence[Tensor]
) -> None:
    assert optimiser is not None
    for parameter, slope in zip(parameters, gradient):
        # Fused optimisers read memory in order, whatever the strides: a channels-last gradient must be laid out anew.
        parameter.grad = torch.empty_like(parameter).copy_(slope) if slope.stride() != parameter.stride() else slope
        parameter.grad = parameter.grad.detach()
    optimiser.step()
    schedule.step()
    for parameter in parameters:
        parameter.grad = None


def _training_row(state: TrainingState, elapsed: float) -> dict[str, Any]:
    loss, accuracy, squared, count = state.sums.tolist()
    if not loss == loss or loss in (float("inf"), float("-inf")):
        raise RunError(
            f"the training loss is not finite after step {state.step}: lower optimizer.lr (it is "
            f"{state.method.settings.optimizer.lr:g}) or hyper.lr"
        )
    state.sums.zero_()
    return {
        "loss": loss / count,
        "accuracy": accuracy / count,
        "gradient_norm": (squared / count) ** 0.5,
        "lr": learning_rate(state.optimiser),
        "steps_per_second": round(count / max(1e-9, elapsed), 1),
    }
