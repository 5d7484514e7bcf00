"""6. A method of your own: Prototypical Networks with the cosine of the angle instead of the distance.

Registered, it is trained, selected, evaluated and saved like any other. As a file of its own it is a plugin:
`fewtask train rainbow-digits --method cosine --plugin 6_own_method.py`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from fewtask import EpisodeSampler, execute, load_dataset, load_preset, make_method, update
from fewtask.methods import METHODS, Method


@METHODS.register
class Cosine(Method):
    """Scores are cosines to the prototypes, times ten: a softmax over numbers below 1 would never be sure."""

    name, title = "cosine", "Cosine"
    summary = "ProtoNet with cosines instead of distances"

    def scores(self, prototypes: Tensor, query: Tensor) -> Tensor:
        """[B, K, D], [B, M, D] -> [B, M, K]."""
        return 10 * F.normalize(query, dim=-1) @ F.normalize(prototypes, dim=-1).transpose(1, 2)


def check_against_definition() -> None:
    """The loss of one episode, query by query, as the definition has it."""
    settings = load_preset("rainbow-digits", "cosine")
    dataset = load_dataset("rainbow-digits", settings.data)
    method = make_method(settings, dataset.input_shape).eval()
    episode = EpisodeSampler(dataset.train, 0).sample(batch=1, way=3, shot=2, query=2)
    prototypes = [method.embed(rows).mean(0) for rows in episode.support[0]]
    losses = []
    for k, rows in enumerate(episode.query[0]):
        for z in method.embed(rows):
            cosines = torch.stack([z @ c / (z.norm() * c.norm()) for c in prototypes])
            losses.append(-torch.log_softmax(10 * cosines, 0)[k])
    assert torch.allclose(torch.stack(losses).mean(), method.training_loss([episode]).loss, rtol=1e-4)


if __name__ == "__main__":
    check_against_definition()
    settings = update(
        load_preset("rainbow-digits", "cosine"),
        {"train": {"steps": 60, "validate_every": 60, "validation_episodes": 40}, "evaluation": {"episodes": 100}},
    )
    test = execute(settings, load_dataset("rainbow-digits", settings.data), out=None).record["test"]
    print(f"cosine: {100 * test['accuracy']:.1f} ± {100 * test['interval']:.1f} %")
