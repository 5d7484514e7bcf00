"""ELECTRA-small under the paper's 3-layer head (appendix, Table 16), fine-tuned as a whole.

Rows are token ids, segments and attention mask, [3, length] integers. Attention runs in its eager form, because the
fused one has no second derivative, which hypergradients need.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fewtask.encoders.base import Encoder
from fewtask.errors import SettingsError
from fewtask.settings import EncoderSettings

_SAVED: ContextVar[bool] = ContextVar("fewtask saved weights", default=False)
_ASKED: ContextVar[bool] = ContextVar("fewtask downloads", default=False)


class SentencePair(nn.Module):
    """Token rows [M, 3, length] to the [CLS] embedding [M, width], then the head's first layer."""

    def __init__(self, model: nn.Module, hidden: int, width: int) -> None:
        super().__init__()
        self.model = model
        self.head = nn.Sequential(nn.Linear(hidden, width), nn.ReLU())

    def forward(self, rows: Tensor) -> Tensor:
        ids, segments, mask = rows.long().unbind(1)
        # Rows are padded to one length; what no row of the batch uses need not be computed.
        longest = int(mask.sum(1).max())
        out = self.model(
            input_ids=ids[:, :longest], token_type_ids=segments[:, :longest], attention_mask=mask[:, :longest]
        )
        return self.head(out.last_hidden_state[:, 0])


class ElectraEncoder(Encoder):
    """Cuts: after the first, second and third layer of the head; tokens cannot be interpolated."""

    def check_layer(self, layer: int) -> None:
        if layer == 0:
            raise SettingsError("token ids cannot be interpolated: this encoder can be cut at 1 to 3, not at the input")
        super().check_layer(layer)

    def train(self, mode: bool = True) -> ElectraEncoder:
        super().train(mode)
        # The set function's dropout regularises already, and the pretrained model's would only add noise to
        # hypergradients: it is fine-tuned without.
        self.layers[0].model.eval()  # type: ignore[union-attr]
        return self


def electra(settings: EncoderSettings, input_shape: tuple[int, ...]) -> Encoder:
    if len(input_shape) != 2 or input_shape[0] != 3:
        raise SettingsError(
            f"electra takes token rows [3, length] (data.features 'electra'), and rows have shape {tuple(input_shape)}"
        )
    model = _pretrained(settings.path)
    width = settings.width
    layers = [
        SentencePair(model, int(model.config.hidden_size), width),
        nn.Sequential(nn.Linear(width, width), nn.ReLU()),
        nn.Linear(width, width),
    ]
    return ElectraEncoder(layers, [input_shape, (width,), (width,), (width,)])


@contextmanager
def downloading(asked: bool) -> Iterator[None]:
    """Within the block a tokenizer or model may be fetched, if that was asked for."""
    token = _ASKED.set(asked)
    try:
        yield
    finally:
        _ASKED.reset(token)


def local_only() -> bool:
    return not _ASKED.get()


@contextmanager
def weights_are_saved() -> Iterator[None]:
    """Within the block only the network's plan is taken from `encoder.path`, and only from this machine.

    A saved run holds all weights itself, and a stranger's must not choose what is downloaded.
    """
    token = _SAVED.set(True)
    try:
        yield
    finally:
        _SAVED.reset(token)


def _pretrained(path: str) -> Any:
    try:
        from transformers import ElectraConfig, ElectraModel
    except ImportError as error:
        raise SettingsError('the electra encoder needs transformers: pip install "fewtask[text]"') from error
    if _SAVED.get():
        config = ElectraConfig.from_json_file(_local_plan(path))
        return ElectraModel._from_config(config, attn_implementation="eager").to(torch.float32)
    try:
        model = ElectraModel.from_pretrained(path, attn_implementation="eager", local_files_only=local_only())
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"the pretrained model '{path}' is not on this machine, and nothing is downloaded unasked: `hf download "
            f"{path}` fetches it, or give a folder that holds it by encoder.path ({str(error).splitlines()[0]})"
        ) from error
    return model.to(torch.float32)


def _local_plan(path: str) -> str:
    """config.json of a pretrained model: in the folder that is named, or among earlier downloads."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    if (Path(path) / "config.json").is_file():
        return str(Path(path) / "config.json")
    try:
        found = try_to_load_from_cache(path, "config.json")
    except HFValidationError:
        found = None
    if not isinstance(found, str):
        raise SettingsError(
            f"this run's pretrained model '{path}' is not on this machine, and what a run names is not downloaded: "
            "fetch it yourself, or put its folder there"
        )
    return found
