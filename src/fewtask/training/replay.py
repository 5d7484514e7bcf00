"""A training loss that can be computed again, whole or in pieces."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from fewtask.episodes import Episode
from fewtask.hypergradient.base import gradient
from fewtask.methods import Method, Step


class Replay:
    """A training loss that can be computed again: the same episodes and the same random numbers.

    share: its part of a batch that is worked through in pieces.
    """

    def __init__(self, method: Method, episodes: list[Episode], share: float = 1.0) -> None:
        self.method, self.episodes, self.share = method, episodes, share
        self.random = torch.get_rng_state()

    def compute(self) -> Step:
        """In the ordinary course of things: once, and the running statistics see it."""
        step = self.method.training_loss(self.episodes)
        return step if self.share == 1.0 else Step(self.share * step.loss, self.share * step.accuracy)

    def __call__(self) -> Tensor:
        buffers = [b.clone() for b in self.method.buffers()]
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.random)
            loss = self.compute().loss
        # Running statistics have seen this batch already.
        for buffer, saved in zip(self.method.buffers(), buffers):
            buffer.copy_(saved)
        return loss


def in_pieces(episodes: list[Episode], pieces: int) -> list[tuple[list[Episode], float]]:
    """Groups of episodes as several smaller ones, each with its share of the batch."""
    batch = episodes[0].batch
    if pieces == 1:
        return [(episodes, 1.0)]
    parts = torch.arange(batch, device=episodes[0].support.device).chunk(min(pieces, batch))
    return [([e.take(part) for e in episodes], len(part) / batch) for part in parts]


def first_gradient(
    method: Method, pieces: Sequence[tuple[list[Episode], float]], inputs: Sequence[Tensor], graph: bool
) -> tuple[list[Tensor], Step, list[Replay]]:
    """∂L_tr/∂inputs of a batch, its loss and accuracy, and how to compute it again.

    Pieces are worked through one after the other, so that memory is that of one. Every piece moves the running
    statistics from where they were, and their mean over the pieces stays: what the whole batch would have left.
    """
    if len(pieces) == 1:
        replay = Replay(method, *pieces[0])
        step = replay.compute()
        found = torch.autograd.grad(step.loss, list(inputs), create_graph=graph, allow_unused=True)
        return [torch.zeros_like(x) if g is None else g for x, g in zip(inputs, found)], step, [replay]
    buffers = [b for b in method.buffers() if b.is_floating_point()]
    before = [b.clone() for b in buffers]
    after = [torch.zeros_like(b) for b in buffers]
    total = [torch.zeros_like(x) for x in inputs]
    replays, losses, rates = [], [], []
    for episodes, share in pieces:
        replay = Replay(method, episodes, share)
        step = replay.compute()
        losses.append(step.loss.detach())
        rates.append(step.accuracy)
        for whole, part in zip(total, gradient(lambda loss=step.loss: loss, inputs)):  # type: ignore[misc]
            whole.add_(part)
        for mean, buffer, start in zip(after, buffers, before):
            mean.add_(buffer, alpha=share)
            buffer.copy_(start)
        replays.append(replay)
    for mean, buffer in zip(after, buffers):
        buffer.copy_(mean)
    return total, Step(torch.stack(losses).sum(), torch.stack(rates).sum()), replays
