"""The encoders, by name. Adding one is one file in this folder and one line here."""

from __future__ import annotations

from collections.abc import Callable

from fewtask.encoders.base import Encoder
from fewtask.encoders.conv4 import conv4
from fewtask.encoders.electra import electra
from fewtask.encoders.mlp import mlp, text_head
from fewtask.encoders.own import own
from fewtask.encoders.residual_mlp import residual_mlp
from fewtask.plugins import Registry
from fewtask.settings import EncoderSettings

__all__ = ["ENCODERS", "Encoder", "make_encoder"]

ENCODERS: Registry[Callable[[EncoderSettings, tuple[int, ...]], Encoder]] = Registry(
    "encoder",
    "fewtask.encoders",
    {
        "conv4": conv4,
        "electra": electra,
        "mlp": mlp,
        "own": own,
        "residual-mlp": residual_mlp,
        "text-head": text_head,
    },
)


def make_encoder(settings: EncoderSettings, input_shape: tuple[int, ...]) -> Encoder:
    """An encoder whose input and hidden widths follow the data."""
    return ENCODERS.find(settings.name)(settings, input_shape)
