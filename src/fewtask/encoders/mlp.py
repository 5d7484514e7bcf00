"""The 3-layer networks for features: the paper's for fingerprints and sounds, and its head for text."""

from __future__ import annotations

import math

from torch import nn

from fewtask.encoders.base import Encoder
from fewtask.encoders.normalisation import EpisodeBatchNorm
from fewtask.settings import EncoderSettings


def mlp(settings: EncoderSettings, input_shape: tuple[int, ...]) -> Encoder:
    """Two blocks of Linear, BatchNorm, LeakyReLU, then Linear (appendix, Tables 14 and 15)."""
    d, width = math.prod(input_shape), settings.width
    layers = [
        nn.Sequential(nn.Flatten(), nn.Linear(d, width), EpisodeBatchNorm(width), nn.LeakyReLU()),
        nn.Sequential(nn.Linear(width, width), EpisodeBatchNorm(width), nn.LeakyReLU()),
        nn.Linear(width, width),
    ]
    return Encoder(layers, [input_shape, (width,), (width,), (width,)])


def text_head(settings: EncoderSettings, input_shape: tuple[int, ...]) -> Encoder:
    """Three linear layers with ReLU between them, on sentence features (appendix, Table 16)."""
    d, width = math.prod(input_shape), settings.width
    layers = [
        nn.Sequential(nn.Flatten(), nn.Linear(d, width), nn.ReLU()),
        nn.Sequential(nn.Linear(width, width), nn.ReLU()),
        nn.Linear(width, width),
    ]
    return Encoder(layers, [input_shape, (width,), (width,), (width,)])
