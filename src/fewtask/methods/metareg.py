"""MetaReg (Balaji et al., NeurIPS 2018): an l2 coefficient for every weight, learned with hypergradients.

    L_tr = L_proto + Σ_i λ_i θ_i²   with λ ≥ 0

λ has no direct path to the validation loss: all of its gradient is indirect.
"""

from __future__ import annotations

import torch
from torch import nn

from fewtask.episodes import Episode
from fewtask.methods.base import Method, Step
from fewtask.settings import RunSettings


class MetaReg(Method):
    name = "metareg"
    title = "MetaReg"
    cost = 1.3
    summary = "ProtoNet with element-wise l2 coefficients learned by hypergradients"
    groups = ("hyper", "metareg")

    def __init__(self, settings: RunSettings, input_shape: tuple[int, ...]) -> None:
        super().__init__(settings, input_shape)
        initial = settings.metareg.initial
        self.coefficients = nn.ParameterList(torch.full_like(p, initial) for p in self.encoder.parameters())

    @property
    def bilevel(self) -> bool:
        return True

    def outer(self) -> list[nn.Parameter]:
        return list(self.coefficients)

    def project(self) -> None:
        with torch.no_grad():
            for coefficient in self.coefficients:
                coefficient.clamp_(min=0.0)

    def training_loss(self, episodes: list[Episode]) -> Step:
        plain = self.episode_loss(episodes[0])
        penalties = [(c * p.pow(2)).sum() for c, p in zip(self.coefficients, self.encoder.parameters())]
        return Step(plain.loss + torch.stack(penalties).sum(), plain.accuracy)
