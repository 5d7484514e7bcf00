"""YAMNet (a MobileNet of depthwise separable convolutions, trained on AudioSet) up to its embedding.

Weights come from an .npz file of plain arrays with batch norm folded in: `layer1.w` [out, 3, 3, in],
`layerN.dw.w` [1, 3, 3, channels], `layerN.pw.w` [out, 1, 1, in], and a bias `.b` beside each.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fewtask.bounds import read_npz
from fewtask.datasets.audio import YAMNET
from fewtask.errors import DataError

ADDRESS = "https://storage.googleapis.com/audioset/yamnet.h5"
EMBEDDING = 1024
DEPTHWISE_STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)
"""Of layers 2 to 14; layer 1 is a full convolution of stride 2."""


class YamNet:
    """Frozen YAMNet: log-mel patches to embeddings."""

    def __init__(self, weights: Mapping[str, np.ndarray]) -> None:
        try:
            self.first = _convolution(weights, "layer1", (0, 3, 1, 2))
            self.separable = [
                (
                    _convolution(weights, f"layer{n}.dw", (3, 0, 1, 2)),
                    _convolution(weights, f"layer{n}.pw", (0, 3, 1, 2)),
                )
                for n in range(2, 2 + len(DEPTHWISE_STRIDES))
            ]
        except (KeyError, ValueError) as error:
            raise DataError(f"these are not YAMNet's weights ({error}): see the layout in the data notes") from error

    @classmethod
    def load(cls, path: Path) -> YamNet:
        try:
            return cls(read_npz(path))
        except FileNotFoundError as error:
            raise DataError(
                f"YAMNet's weights {path} are missing: put {ADDRESS} there in the layout of the data notes, or use "
                "features 'vggish'"
            ) from error

    @torch.inference_mode()
    def __call__(self, patches: Tensor) -> Tensor:
        """[P, 96, 64] log-mel patches to [P, 1024]."""
        hidden = _same(patches[:, None], *self.first, stride=2)
        for (depthwise, pointwise), stride in zip(self.separable, DEPTHWISE_STRIDES):
            hidden = _same(hidden, *depthwise, stride=stride, groups=hidden.shape[1])
            hidden = _same(hidden, *pointwise)
        return hidden.mean(dim=(2, 3))

    def embed(self, sound: np.ndarray) -> np.ndarray:
        """Sound [samples] at 16 kHz to an embedding of each patch: [P, 1024], every 0.48 s."""
        embedded: np.ndarray = self(torch.from_numpy(YAMNET.patches(sound))).numpy()
        return embedded


def _convolution(weights: Mapping[str, np.ndarray], name: str, order: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    weight = np.ascontiguousarray(weights[f"{name}.w"].transpose(order), dtype=np.float32)
    return torch.from_numpy(weight), torch.from_numpy(weights[f"{name}.b"].astype(np.float32))


def _same(x: Tensor, weight: Tensor, bias: Tensor, stride: int = 1, groups: int = 1) -> Tensor:
    """Convolution with TensorFlow's "same" padding, which puts an odd row or column last, and ReLU."""
    padding = []
    for size, kernel in zip(reversed(x.shape[2:]), reversed(weight.shape[2:])):
        total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        padding += [total // 2, total - total // 2]
    return F.conv2d(F.pad(x, padding), weight, bias, stride=stride, groups=groups).relu()
