"""An encoder is a stack of L layers that can be cut after any of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fewtask.encoders.normalisation import convert
from fewtask.errors import SettingsError
from fewtask.products import multiply_faster


class Encoder(nn.Module):
    """f = f_L ∘ ... ∘ f_1, cut at layer l from the input (0) to the output (L).

    `lower` runs the layers up to the cut and returns flat features [M, d]; `upper` takes such features, gives
    them their shape back and runs the rest: [M, d] -> [M, D]. At some cuts the last `carry(l)` of the d numbers
    belong to a skip connection: a set function must not merge them with the rest, their mean goes along.

    layers: one module a layer; the output of the last is flattened to the embedding.
    shapes: feature shape at every cut, L + 1 of them; shapes[0] is the input's.
    """

    def __init__(self, layers: Sequence[nn.Module], shapes: Sequence[tuple[int, ...]]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(multiply_faster(convert(layer)) for layer in layers)
        self.shapes = [tuple(shape) for shape in shapes]
        assert len(self.shapes) == len(self.layers) + 1

    @classmethod
    def from_sequential(cls, network: nn.Sequential, input_shape: tuple[int, ...]) -> Encoder:
        """Any nn.Sequential of a user's; a layer is one of its children. Shapes are found by a trial pass."""
        shapes: list[tuple[int, ...]] = [tuple(input_shape)]
        training = network.training
        network.eval()
        with torch.no_grad():
            x = torch.zeros(2, *input_shape)
            for layer in network:
                try:
                    x = layer(x)
                except RuntimeError as error:
                    raise SettingsError(
                        f"layer {len(shapes)} of the network does not take features of shape {shapes[-1]}: {error}"
                    ) from error
                shapes.append(tuple(x.shape[1:]))
        network.train(training)
        return cls(list(network), shapes)

    @property
    def depth(self) -> int:
        """L, the number of layers."""
        return len(self.layers)

    @property
    def embedding(self) -> int:
        """D, the width of the embedding."""
        return self.width(self.depth)

    def width(self, layer: int) -> int:
        """d, the number of features at a cut, the carried ones included."""
        self.check_layer(layer)
        return math.prod(self.shapes[layer])

    def carry(self, layer: int) -> int:
        """How many of the features at a cut belong to a skip connection."""
        return 0

    def affine_above(self, layer: int) -> bool:
        """Whether `upper` is an affine map, so that the mean of embeddings is the embedding of the mean."""
        return all(isinstance(module, (nn.Linear, nn.Identity, nn.Flatten)) for module in self.layers[layer:])

    def check_layer(self, layer: int) -> None:
        if not 0 <= layer <= self.depth:
            raise SettingsError(
                f"layer {layer} does not exist: this encoder can be cut at 0 (the input) to {self.depth} (the output)"
            )

    def lower(self, x: Tensor, layer: int) -> Tensor:
        """Rows [M, *input] to features at the cut [M, d]."""
        x = self._shaped(x, 0)
        for module in self.layers[:layer]:
            x = module(x)
        return x.flatten(1)

    def upper(self, h: Tensor, layer: int) -> Tensor:
        """Features at the cut [M, d] to embeddings [M, D]."""
        h = self._shaped(h, layer)
        for module in self.layers[layer:]:
            h = module(h)
        return h.flatten(1)

    def _shaped(self, h: Tensor, layer: int) -> Tensor:
        """Features in the shape of a cut; images with their channels last, where pooling and BatchNorm are fast."""
        h = h.reshape(h.shape[0], *self.shapes[layer])
        # As permutations, because vmap does not know memory formats.
        return h.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2) if h.dim() == 4 else h

    def forward(self, x: Tensor) -> Tensor:
        return self.upper(x.flatten(1), 0)
