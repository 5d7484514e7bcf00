"""MetaMix (Yao et al., Improving Generalization in Meta-learning via Task Augmentation, ICML 2021)."""

from __future__ import annotations

from fewtask.episodes import Episode
from fewtask.methods.base import Step
from fewtask.methods.mixing import MixingMethod


class MetaMix(MixingMethod):
    """Support as it is; the mixed queries replace the originals."""

    name = "metamix"
    title = "MetaMix"
    cost = 1.2
    summary = "queries mixed with support points of their task by Manifold Mixup"

    def training_loss(self, episodes: list[Episode]) -> Step:
        return self.mixed_query_loss(episodes[0])
