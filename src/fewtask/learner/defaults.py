"""Settings for data that nobody has tuned for: what served on all of the paper's data, in the size that the data carry.

Averaged weights and weight decay did more for accuracy than the choice of a method. Widths follow the encoder. The set
function has half of the paper's width, which costs half and lost little in the experiments `*/small-phi`, where 128 and
less lost more; λ follows its direct gradient, to which second derivatives added nothing in `*/second-order`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fewtask.pool import Dataset, TaskPool
from fewtask.settings import RunSettings, update

SHOT, QUERY, VALIDATION_QUERY, POOL_WAY = 5, 10, 15, 5

IMAGES: dict[str, Any] = {
    "encoder": {"name": "conv4", "width": 32},
    "optimizer": {"lr": 1e-3, "weight_decay": 5e-4},
    "interpolation": {"layer": 3},
    "mixup": {"alpha": 2.0},
    "train": {"steps": 2000},
}
# Features that know other classes already (of pictures: the classic ones): start from them, and move away slowly.
PRETRAINED: dict[str, Any] = {
    "encoder": {"name": "residual-mlp", "width": 256},
    "optimizer": {"lr": 1e-4, "weight_decay": 1e-4},
    "train": {"steps": 1500},
}
# Thousands of bits and few rows: strong decay.
FINGERPRINTS: dict[str, Any] = {
    "encoder": {"name": "mlp", "width": 500},
    "optimizer": {"lr": 1e-3, "weight_decay": 0.1},
    "train": {"steps": 1500},
}
NUMBERS: dict[str, Any] = {
    "encoder": {"name": "mlp", "width": 256},
    "optimizer": {"lr": 1e-3, "weight_decay": 0.03},
    "train": {"steps": 1500},
}
KINDS = {"molecules": FINGERPRINTS, "text": PRETRAINED, "sound": PRETRAINED, "images": PRETRAINED}
COMMON: dict[str, Any] = {
    "episode": {"batch": 4},
    "train": {"average": 0.999, "validate_every": 100, "validation_episodes": 300},
    "interpolation": {"pairs": "matched"},
    "set_function": {"hidden": 512},
    "adaptation": {"lr": 0.1, "steps": 5, "test_steps": 5},
}


def own_settings(
    dataset: Dataset, kind: str, method: str, seed: int = 0, changes: Mapping[str, Any] | None = None
) -> RunSettings:
    """Settings of a method for own tasks; `kind` is the featuriser's, `changes` what the user wants otherwise."""
    settings = update(RunSettings(dataset=dataset.name, method=method, seed=seed), COMMON)
    settings = update(settings, IMAGES if len(dataset.input_shape) == 3 else KINDS.get(kind, NUMBERS))
    pools = [dataset.train, *([dataset.validation] if dataset.validation is not None else [])]
    settings = update(settings, episode_sizes(pools, (changes or {}).get("episode", {}).get("shot")))
    settings = update(settings, changes or {})
    if direct_suffices(settings) and "estimator" not in (changes or {}).get("hyper", {}):
        settings = update(settings, {"hyper": {"estimator": "direct"}})
    return settings


def direct_suffices(settings: RunSettings) -> bool:
    """Whether all of λ stands in the validation loss itself.

    A set function that leaves single rows alone, a learned share of the losses and a regulariser act on training
    only: what they learn comes from the indirect part.
    """
    learned = settings.set_function.name in ("set-transformer", "deep-sets") and not settings.interpolation.learn_weight
    return settings.method == "meta-interpolation" and learned


def episode_sizes(pools: list[TaskPool], shot: int | None = None) -> dict[str, Any]:
    """Way, shot and queries that every class of every pool can give."""
    smallest = int(min(pool.sizes.min() for pool in pools))
    way = int(min(pool.task_counts.min() for pool in pools))
    if pools[0].is_class_pool:
        way = min(POOL_WAY, way)
    shot = shot or max(1, min(SHOT, smallest // 2))
    room = max(1, smallest - shot)
    return {
        "episode": {"way": way, "shot": shot, "query": min(QUERY, room)},
        "evaluation": {"query": min(VALIDATION_QUERY, room)},
    }


def said(settings: RunSettings, rows: int) -> str:
    """The choices in one sentence, with the settings that change them."""
    e = settings.episode
    return (
        f"{settings.method} with encoder {settings.encoder.name} of width {settings.encoder.width}, "
        f"{e.way}-way {e.shot}-shot episodes with {e.query} queries, {settings.train.steps} steps on {rows} rows "
        "(episode.shot, encoder.width, train.steps and all other settings can be given)"
    )
