"""VGGish (a VGG network trained on YouTube sounds), with the weights of the torchvggish release.

The embedding is the network's own output of 128 numbers a patch, before the PCA and the 8-bit rounding that
AudioSet's published features add.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from fewtask.datasets.audio import VGGISH
from fewtask.errors import DataError

EMBEDDING = 128
WEIGHTS = "vggish-10086976.pth"
ADDRESS = f"https://github.com/harritaylor/torchvggish/releases/download/v0.1/{WEIGHTS}"
CHANNELS = (64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool")


class VggIsh(nn.Module):
    """Log-mel patches to embeddings; the names of its parts are those of the released state dict."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        width = 1
        for item in CHANNELS:
            if isinstance(item, int):
                layers += [nn.Conv2d(width, item, kernel_size=3, padding=1), nn.ReLU()]
                width = item
            else:
                layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.embeddings = nn.Sequential(
            nn.Linear(512 * 6 * 4, 4096),
            nn.ReLU(),
            nn.Linear(4096, 4096),
            nn.ReLU(),
            nn.Linear(4096, EMBEDDING),
            nn.ReLU(),
        )

    @classmethod
    def load(cls, path: Path) -> VggIsh:
        if not path.is_file():
            raise DataError(f"VGGish's weights {path} are missing: download them from {ADDRESS}")
        model = cls()
        try:
            # weights_only: a file that holds anything but tensors and plain containers is refused.
            model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        except (pickle.UnpicklingError, RuntimeError, EOFError, TypeError, KeyError, AttributeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise DataError(f"{path} does not hold VGGish's weights ({reason}): download {ADDRESS}") from error
        return model.eval().requires_grad_(False)

    def forward(self, patches: Tensor) -> Tensor:
        """[P, 96, 64] log-mel patches to [P, 128]."""
        hidden = self.features(patches[:, None])
        # TensorFlow, where the weights were trained, keeps channels last when it flattens.
        embedded: Tensor = self.embeddings(hidden.permute(0, 2, 3, 1).flatten(1))
        return embedded

    @torch.inference_mode()
    def embed(self, sound: np.ndarray) -> np.ndarray:
        """Sound [samples] at 16 kHz to an embedding of each patch: [P, 128], every 0.96 s."""
        embedded: np.ndarray = self(torch.from_numpy(VGGISH.patches(sound))).numpy()
        return embedded
