"""Conv4: four blocks of convolution, BatchNorm, ReLU and pooling, 32 filters each (appendix, Tables 11 to 13).

Four poolings need 16x16 pixels; on smaller images the last blocks go without, where one pixel is left.
"""

from __future__ import annotations

from torch import nn

from fewtask.encoders.base import Encoder
from fewtask.encoders.image_block import ImageBlock
from fewtask.errors import SettingsError
from fewtask.settings import EncoderSettings

SMALLEST = 8
"""Pixels a side, below which there is nothing for four convolutions to see."""


def conv4(settings: EncoderSettings, input_shape: tuple[int, ...]) -> Encoder:
    if len(input_shape) != 3 or min(input_shape[1:]) < SMALLEST:
        raise SettingsError(
            f"conv4 takes images [channels, height, width] of at least {SMALLEST}x{SMALLEST} pixels, and rows have "
            f"shape {tuple(input_shape)}"
        )
    channels, height, width = input_shape
    layers: list[nn.Module] = []
    shapes: list[tuple[int, ...]] = [input_shape]
    for _ in range(4):
        pooled = min(height, width) > 1
        layers.append(ImageBlock(channels, settings.width, pooled))
        channels = settings.width
        if pooled:
            height, width = height // 2, width // 2
        shapes.append((channels, height, width))
    return Encoder(layers, shapes)
