"""A network of the user's own as the encoder.

Settings are plain values and hold no network, so it is handed over beside them: within `own_encoder(network)` the
encoder "own" is a copy of that network. A saved run keeps its weights; whoever loads it brings the network again.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import nn

from fewtask.encoders.base import Encoder
from fewtask.errors import SettingsError
from fewtask.settings import EncoderSettings

NAME = "own"
_NETWORK: ContextVar[nn.Module | None] = ContextVar("fewtask own encoder", default=None)


@contextmanager
def own_encoder(network: nn.Module | None) -> Iterator[None]:
    """Within the block the encoder "own" is made from this network; None leaves things as they are."""
    token = _NETWORK.set(network if network is not None else _NETWORK.get())
    try:
        yield
    finally:
        _NETWORK.reset(token)


def own(settings: EncoderSettings, input_shape: tuple[int, ...]) -> Encoder:
    """A copy of the user's network: the children of an nn.Sequential are its layers, any other module is one layer."""
    network = _NETWORK.get()
    if network is None:
        raise SettingsError(
            "the encoder of this run is a network of the user's own: give it again, "
            "MetaLearner.load(RUN, encoder=network)"
        )
    copied = copy.deepcopy(network).cpu()
    layers = copied if isinstance(copied, nn.Sequential) else nn.Sequential(copied)
    # Shapes are found by a pass, which needs network and rows in one place, wherever new tensors would go.
    with torch.device("cpu"):
        encoder = Encoder.from_sequential(layers, input_shape)
    return encoder.to(torch.get_default_device())
