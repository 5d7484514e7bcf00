"""3. Episodes: pools of tasks, the sampler, and a Prototypical Network written out by hand."""

from __future__ import annotations

import torch

from fewtask import EpisodeSampler, TaskPool, load_dataset, load_preset, make_method

# Rows in one tensor; a task is a name with the rows of each of its classes.
rows = torch.randn(60, 4)
fixed = TaskPool.fixed(
    rows,
    {
        "first": {"no": range(0, 15), "yes": range(15, 30)},
        "second": {"no": range(30, 45), "yes": range(45, 60)},
    },
)
print([task.name for task in fixed.tasks])

# Or a class pool, of which every episode takes a few: then any mixture of classes is a task.
pool = TaskPool.class_pool(rows, {"dog": range(0, 20), "cat": range(20, 40), "owl": range(40, 60)})
episode = EpisodeSampler(pool, 0).sample(batch=2, way=3, shot=5, query=7)
print(tuple(episode.support.shape), tuple(episode.query.shape))  # [B, K, N, d] and [B, K, Q, d]

# A sampler's draws follow from its seed, and its state can be saved: that is how a run is continued exactly.
again = EpisodeSampler(pool, 0).sample(batch=2, way=3, shot=5, query=7)
assert torch.equal(again.support, episode.support)

# What a ProtoNet does with an episode: class means of embedded support rows, distances of embedded queries.
settings = load_preset("rainbow-digits", "protonet")
dataset = load_dataset("rainbow-digits", settings.data)
torch.manual_seed(0)
method = make_method(settings, dataset.input_shape).eval()
episode = EpisodeSampler(dataset.train, 0).sample(batch=1, way=5, shot=2, query=3)
with torch.no_grad():
    support = method.embed(episode.support.flatten(0, 2)).view(5, 2, -1)
    query = method.embed(episode.query.flatten(0, 2))
    prototypes = support.mean(dim=1)  # [K, D]
    scores = -(torch.cdist(query, prototypes) ** 2)  # [K * Q, K]
    labels = torch.arange(5).repeat_interleave(3)
    by_hand = torch.nn.functional.cross_entropy(scores, labels)
    print(f"loss {by_hand:.4f}, accuracy {(scores.argmax(1) == labels).float().mean():.2f}")
    assert torch.allclose(by_hand, method.episode_loss(episode).loss, rtol=1e-3)
