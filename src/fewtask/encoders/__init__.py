"""The encoders, by name. Adding one is one file in this folder and one line here."""

from __future__ import annotations

from collections.abc import Callable

from fewtask.encoders.base import Encoder
from fewtask.encoders.conv4 import conv4
from fewtask.encoders.electra import electra
from fewtask.encoders.mlp import mlp, text_head
from fewtask.encoders.own import own
from fewtask.encoders.residual_mlp import residual_mlp
from fewtask.errors import unknown
from fewtask.settings import EncoderSettings

__all__ = ["ENCODERS", "Encoder", "make_encoder"]

ENCODERS: dict[str, Callable[[EncoderSettings, tuple[int, ...]], Encoder]] = {
    "conv4": conv4,
    "electra": electra,
    "mlp": mlp,
    "own": own,
    "residual-mlp": residual_mlp,
    "text-head": text_head,
}


def make_encoder(settings: EncoderSettings, input_shape: tuple[int, ...]) -> Encoder:
    """An encoder whose input and hidden widths follow the data."""
    if settings.name not in ENCODERS:
        raise unknown("encoder", settings.name, ENCODERS)
    return ENCODERS[settings.name](settings, input_shape)
