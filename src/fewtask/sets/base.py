"""What a set function offers to the methods."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from fewtask.products import Linear

Averages = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Takes means over rows of singletons [M, d] and of sets [S, d]."""


class SetFunction(nn.Module):
    """phi: a set of n vectors of width d to one vector of width d, whatever their order.

    `forward` is the definition. `singletons`, `merge` and `both` may be overridden with something faster that
    computes the same.
    """

    def forward(self, sets: Tensor) -> Tensor:
        """[S, n, d] -> [S, d], for any n from 1."""
        raise RuntimeError(f"{type(self).__name__} must define forward")

    def singletons(self, h: Tensor) -> Tensor:
        """phi({h}) of each row: [M, d] -> [M, d]."""
        return self(h.unsqueeze(1))

    def merge(self, h: Tensor, members: Tensor) -> Tensor:
        """phi of sets given by index: h [M, d], members [S, n] rows of h -> [S, d]."""
        return self(h[members])

    def both(
        self, alone: Tensor, h: Tensor, members: Tensor, averages: Averages | None = None, shared: int = 0
    ) -> tuple[Tensor, Tensor]:
        """`averages` of `singletons(alone)` and `merge(h, members)`, for functions that can share work.

        The first `shared` rows of `alone` are the first rows of `h` too. Means commute with affine maps: a function
        that ends with one may take them before it, on fewer rows.
        """
        single, merged = self.singletons(alone), self.merge(h, members)
        return (single, merged) if averages is None else averages(single, merged)


class Mean(SetFunction):
    """The mean of a set: no parameters, and the identity on singletons."""

    def __init__(self, d: int) -> None:
        super().__init__()

    def forward(self, sets: Tensor) -> Tensor:
        return sets.mean(dim=1)

    def singletons(self, h: Tensor) -> Tensor:
        return h


class DeepSets(SetFunction):
    """rho(mean of f over the elements), both with one hidden layer (Zaheer et al., Deep Sets, NeurIPS 2017)."""

    def __init__(self, d: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.element = nn.Sequential(Linear(d, hidden), nn.ReLU(), Linear(hidden, hidden))
        self.pooled = nn.Sequential(Linear(hidden, hidden), nn.ReLU(), nn.Dropout(dropout), Linear(hidden, d))

    def forward(self, sets: Tensor) -> Tensor:
        return self.pooled(self.element(sets).mean(dim=1))

    def merge(self, h: Tensor, members: Tensor) -> Tensor:
        """The element network runs once a row, however many sets the row is in."""
        encoded = self.element(h)
        count, size = members.shape
        return self.pooled(encoded.index_select(0, members.reshape(-1)).view(count, size, -1).mean(dim=1))


def index_rows(h: Tensor, members: Tensor) -> Tensor:
    """h [M, c], members [S] -> [S, c]; its backward adds rows up, which index_select does without sorting."""
    return torch.index_select(h, 0, members)
