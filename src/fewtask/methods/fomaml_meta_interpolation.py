"""First-order MAML whose inner steps see interpolated supports.

λ acts through the interpolated support of the inner steps, so ∂²L_s/∂θ∂λ stays where first order drops ∂²L_s/∂θ².
"""

from __future__ import annotations

from torch import Tensor

from fewtask.episodes import Episode
from fewtask.errors import SettingsError
from fewtask.methods.base import Step
from fewtask.methods.fomaml import FOMAML, Weights
from fewtask.methods.meta_interpolation import MetaInterpolation
from fewtask.pool import TaskPool


class FOMAMLWithMetaInterpolation(FOMAML, MetaInterpolation):
    """The inner steps see the support interpolated by φ_λ with another task's."""

    name = "fomaml-meta-interpolation"
    title = "FOMAML + Meta-Interpolation"
    cost = 40.0
    summary = "first-order MAML whose inner steps see supports interpolated by the set function"
    groups = ("adaptation", "hyper", "set_function", "interpolation")

    def check(self, train: TaskPool, validation: TaskPool) -> None:
        super().check(train, validation)
        strategy = self.settings.interpolation.strategy
        if strategy not in ("support", "support+noise"):
            raise SettingsError(f"{self.name} interpolates supports only, and interpolation.strategy is '{strategy}'")

    def training_loss(self, episodes: list[Episode]) -> Step:
        first = episodes[0]
        if not self.interpolates():
            return self.episode_loss(first)

        def mixed(weights: Weights, b: int) -> Tensor:
            def computation() -> Tensor:
                members, _ = self.lower([_one(e, b) for e in episodes], update=False)
                return self.head(self.upper_mixed(members).flatten(0, 2))

            return self.compute(weights, computation)

        mix = self.adapted_loss(
            first.batch,
            mixed,
            lambda weights, b: self.plain(weights, first.query[b]),
            # At test there is nothing but the plain support.
            lambda weights, b: self.plain(weights, first.support[b]),
        )
        if not self.settings.interpolation.singleton_loss:
            return mix
        singleton = self.episode_loss(first)
        return self.weighted(singleton, mix)


def _one(episode: Episode, b: int) -> Episode:
    """The b-th episode's support alone, without queries."""
    return Episode(
        episode.support[b : b + 1],
        episode.query[b : b + 1, :, :0],
        episode.tasks[b : b + 1],
        episode.classes[b : b + 1],
    )
