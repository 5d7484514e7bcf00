"""Mean interpolation: Meta-Interpolation with the plain mean in place of the learned set function.

No φ, no λ and, unless the share of the mix loss is learned, no bilevel optimisation. The control of Meta-Interpolation:
does the gain come from merging tasks, or from learning how to?
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from fewtask.methods.meta_interpolation import MetaInterpolation
from fewtask.settings import RunSettings


class MeanInterpolation(MetaInterpolation):
    """Two tasks' features are averaged; on single rows the mean is the identity, so the network is a ProtoNet."""

    name = "mean-interpolation"
    title = "Mean interpolation"
    cost = 1.5
    summary = "two tasks' supports averaged at a layer: Meta-Interpolation without anything learned"
    groups: ClassVar[tuple[str, ...]] = ("hyper", "interpolation")

    def __init__(self, settings: RunSettings, input_shape: tuple[int, ...]) -> None:
        super().__init__(replace(settings, set_function=replace(settings.set_function, name="mean")), input_shape)
