"""A training loss that can be computed again."""

from __future__ import annotations

import torch
from torch import Tensor

from fewtask.episodes import Episode
from fewtask.methods import Method, Step


class Replay:
    """A training loss that can be computed again: the same batch and the same random numbers.

    `first` is the loss as it is computed once, in the ordinary course of things.
    """

    def __init__(self, method: Method, episodes: list[Episode]) -> None:
        self.method, self.episodes = method, episodes
        self.random = torch.get_rng_state()
        self.first: Step = method.training_loss(episodes)

    def __call__(self) -> Tensor:
        buffers = [b.clone() for b in self.method.buffers()]
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self.random)
            loss = self.method.training_loss(self.episodes).loss
        # Running statistics have seen this batch already.
        for buffer, saved in zip(self.method.buffers(), buffers):
            buffer.copy_(saved)
        return loss
