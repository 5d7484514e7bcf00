"""4. Merging two tasks: what the set function of Meta-Interpolation does, and what it costs."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

from fewtask import EpisodeSampler, execute, load_dataset, load_preset, update
from fewtask.explain import class_shares, draw_merging, merge_two_tasks

settings = update(
    load_preset("rainbow-digits", "meta-interpolation"),
    {
        "set_function": {"hidden": 64},
        "train": {"steps": 30, "validate_every": 30, "validation_episodes": 20},
        "hyper": {"updates": 3},
        "evaluation": {"episodes": 40},
    },
)
dataset = load_dataset("rainbow-digits", settings.data)
result = execute(settings, dataset, out=None)
method = result.method.eval()

# φ takes a set of vectors, whatever their order and number, to one vector of the same width.
h, other = torch.randn(2, 3, method.encoder.width(method.layer))
pairs = torch.stack([h, other], dim=1)
with torch.no_grad():
    assert torch.allclose(method.phi(pairs), method.phi(pairs.flip(1)), atol=1e-5)
    assert method.phi(h.unsqueeze(1)).shape == h.shape

# A training step draws pairs of tasks; its loss is that of the first task as it is, and with merged support.
episodes = method.draw(EpisodeSampler(dataset.train, 0))
print(len(episodes), "episodes a group; loss", float(method.training_loss(episodes).loss.detach()))

# λ, the parameters of φ, follow the loss on validation tasks by hypergradients; the history says how they fared.
updates = [row["hyper"] for row in result.history if "hyper" in row]
print(len(updates), "updates of λ; length of the direct and the indirect part of the last:")
print({key: round(updates[-1][key], 3) for key in ("direct", "indirect")})

# How much of each element is in the merged one, and where the merged task lies.
print(
    "median share of the second element:",
    round(float(torch.tensor(class_shares(method, dataset.train).pairs).median()), 3),
)
merged = merge_two_tasks(method, dataset.train, seed=0)
print(merged.tasks, merged.classes)
with tempfile.TemporaryDirectory() as folder:
    draw_merging(merged, Path(folder) / "merging.png")
