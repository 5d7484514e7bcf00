"""Merges with a handful of learned numbers that start at the mean.

φ({h}) = h exactly, so singletons cost nothing and the network at test is a plain Prototypical Network: φ acts on
training alone. With so few numbers, each of them moves under the hypergradient.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fewtask.sets.base import SetFunction, index_rows


class SmallMerge(SetFunction):
    """The identity on singletons; a subclass says how `forward` merges several elements."""

    def singletons(self, h: Tensor) -> Tensor:
        return h

    def merge(self, h: Tensor, members: Tensor) -> Tensor:
        count, size = members.shape
        return self(index_rows(h, members.reshape(-1)).view(count, size, -1))


class Gate(SmallMerge):
    """Each feature leans by its own gate g towards the larger (g > 0) or the smaller of its values: d numbers.

    φ(X)_f = Σ_i softmax_i(g_f x_if) x_if: the mean at g = 0, the maximum and the minimum far from it.
    """

    def __init__(self, d: int) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(d))

    def forward(self, sets: Tensor) -> Tensor:
        if sets.shape[1] == 2:
            # A softmax over two scores is a sigmoid of their difference.
            a, b = sets.unbind(1)
            difference = a - b
            return torch.addcmul(b, torch.sigmoid(self.gate * difference), difference)
        return (torch.softmax(self.gate * sets, dim=1) * sets).sum(dim=1)


class RandomWeight(SmallMerge):
    """Random weights with a learned spread, as Mixup's from a Beta distribution: one number.

    w = softmax(s z) over the elements of a set, z ~ N(0, 1): near the mean for a small spread s, one element alone
    for a large one. Unlike Beta's its draws can be differentiated twice. No element is preferred: the order does not
    count, in distribution. Outside training it is the mean.
    """

    def __init__(self, d: int) -> None:
        super().__init__()
        # softplus(0.54) = 1: about Beta(2, 2) between two elements. At 0 its mean gradient would vanish.
        self.spread = nn.Parameter(torch.tensor(0.5413))

    def forward(self, sets: Tensor) -> Tensor:
        if not self.training:
            return sets.mean(dim=1)
        # Drawn on the CPU, from the generator whose state is saved with a run.
        noise = torch.randn(sets.shape[:2]).to(sets)
        return torch.einsum("sn,snd->sd", self.weights(noise), sets)

    def weights(self, noise: Tensor) -> Tensor:
        """[S, n] normal numbers to [S, n] weights that add up to one."""
        return torch.softmax(F.softplus(self.spread) * noise, dim=1)


class LowRank(SmallMerge):
    """The mean plus a step along r learned directions, as far as the elements are apart along r others: 2 r d numbers.

    φ(X) = m + log(1 + mean_i ((x_i - m) U)²) V, with V = 0 at the start.
    """

    def __init__(self, d: int, rank: int) -> None:
        super().__init__()
        self.apart = nn.Parameter(torch.randn(d, rank) / d**0.5)
        self.direction = nn.Parameter(torch.zeros(rank, d))

    def forward(self, sets: Tensor) -> Tensor:
        mean = sets.mean(dim=1)
        if sets.shape[1] == 1:
            return mean
        apart = ((sets - mean.unsqueeze(1)) @ self.apart).pow(2).mean(dim=1)
        return torch.addmm(mean, torch.log1p(apart), self.direction)
