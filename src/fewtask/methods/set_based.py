"""Methods whose network contains a set function: f̂ = f_L ∘ ... ∘ f_{l+1} ∘ φ_λ ∘ f_l ∘ ... ∘ f_1."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from fewtask.methods.base import Method
from fewtask.sets import make_set_function
from fewtask.sets.base import Averages
from fewtask.settings import RunSettings


class SetMethod(Method):
    """φ_λ stands after layer l, and every point of a plain episode passes through φ_λ({h})."""

    groups: ClassVar[tuple[str, ...]] = ("hyper", "set_function", "interpolation")

    def __init__(self, settings: RunSettings, input_shape: tuple[int, ...]) -> None:
        super().__init__(settings, input_shape)
        self.layer = settings.interpolation.layer
        self.carried = self.encoder.carry(self.layer)
        self.phi = make_set_function(settings.set_function, self.encoder.width(self.layer) - self.carried)

    @property
    def bilevel(self) -> bool:
        return self.settings.interpolation.bilevel and bool(self.outer())

    @property
    def joint(self) -> bool:
        return not self.settings.interpolation.bilevel and bool(self.outer())

    def outer(self) -> list[nn.Parameter]:
        return list(self.phi.parameters())

    def features(self, rows: Tensor) -> Tensor:
        return self.encoder.upper(self.singletons(self.encoder.lower(rows, self.layer)), self.layer)

    def singletons(self, h: Tensor) -> Tensor:
        """φ_λ({h}) of each row [M, d]; carried features go along as they are."""
        if not self.carried:
            return self.phi.singletons(h)
        return torch.cat([self.phi.singletons(h[:, : -self.carried]), h[:, -self.carried :]], dim=1)

    def merge(self, h: Tensor, members: Tensor) -> Tensor:
        """φ_λ of sets of rows: h [M, d], members [S, n] -> [S, d]; carried features are averaged."""
        if not self.carried:
            return self.phi.merge(h, members)
        merged = self.phi.merge(h[:, : -self.carried], members)
        return torch.cat([merged, h[:, -self.carried :][members].mean(dim=1)], dim=1)

    def both(
        self, alone: Tensor, h: Tensor, members: Tensor, averages: Averages | None = None, shared: int = 0
    ) -> tuple[Tensor, Tensor]:
        """`averages` of `singletons(alone)` and `merge(h, members)`, in one pass through φ_λ where it can."""
        if not self.carried:
            return self.phi.both(alone, h, members, averages, shared)
        own = -self.carried
        single, merged = self.phi.both(alone[:, :own], h[:, :own], members, averages, shared)
        skips = alone[:, -self.carried :], h[:, -self.carried :][members].mean(dim=1)
        skip, merged_skip = skips if averages is None else averages(*skips)
        return torch.cat([single, skip], dim=1), torch.cat([merged, merged_skip], dim=1)
