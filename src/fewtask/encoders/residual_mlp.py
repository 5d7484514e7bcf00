"""A residual network for pretrained features that starts as the identity.

Features that already know other classes are spoilt by a network that learns from few of them. Here the embedding
is the normalised input plus a branch whose last layer is zero at first, so training starts from the untrained
centroid and can only move away as far as it pays.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fewtask.encoders.base import Encoder
from fewtask.encoders.normalisation import EpisodeBatchNorm
from fewtask.settings import EncoderSettings


class ResidualMLP(Encoder):
    """embedding = x̂ + branch(x̂) with x̂ = scale · x / ‖x‖; cuts: input, two of the branch, output.

    At a cut inside the branch the features are [branch features, x̂], and x̂ is carried.
    """

    def __init__(self, settings: EncoderSettings, input_shape: tuple[int, ...]) -> None:
        d, width = math.prod(input_shape), settings.width
        last = nn.Linear(width, d)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        layers = [
            nn.Sequential(nn.Linear(d, width), EpisodeBatchNorm(width), nn.LeakyReLU()),
            nn.Sequential(nn.Linear(width, width), EpisodeBatchNorm(width), nn.LeakyReLU()),
            last,
        ]
        super().__init__(layers, [input_shape, (width + d,), (width + d,), (d,)])
        self.scale, self.input_width = settings.scale, d

    def carry(self, layer: int) -> int:
        return self.input_width if layer in (1, 2) else 0

    def lower(self, x: Tensor, layer: int) -> Tensor:
        x = x.flatten(1)
        return x if layer == 0 else self._run(self._split(x, 0), 0, layer)

    def upper(self, h: Tensor, layer: int) -> Tensor:
        return h if layer == self.depth else self._run(self._split(h, layer), layer, self.depth)

    def _split(self, h: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """The branch's features and the carried input at a cut."""
        if layer == 0:
            unit = self.scale * F.normalize(h, dim=1)
            return unit, unit
        return h[:, : -self.input_width], h[:, -self.input_width :]

    def _run(self, state: tuple[Tensor, Tensor], start: int, stop: int) -> Tensor:
        branch, skip = state
        for module in self.layers[start:stop]:
            branch = module(branch)
        return skip + branch if stop == self.depth else torch.cat([branch, skip], dim=1)


def residual_mlp(settings: EncoderSettings, input_shape: tuple[int, ...]) -> Encoder:
    return ResidualMLP(settings, input_shape)
