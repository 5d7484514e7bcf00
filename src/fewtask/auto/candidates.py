"""What `auto` tries: a short list for all methods, in the order in which a small budget reaches them.

Weight decay, the scale of distances and averaged weights are worth more than most methods, so ProtoNet stands here
four times. Set functions are small: where there are few tasks a large one learns nothing that lasts.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fewtask.changes import flat, nested
from fewtask.errors import unknown
from fewtask.methods import get_method, groups_of
from fewtask.pool import TaskPool
from fewtask.settings import GROUPS, DataSettings, RunSettings, digest, identity, update

INSTEAD = "protonet"
"""The method that base settings name before one is chosen, and the one that is trained where nothing can be chosen."""
NEVER = 1_000_000_000
"""Steps between two updates of a λ that stays as it is."""
PERIOD = 20
"""Steps between two updates of a λ that learns: the same on every rung, so that a longer run continues a shorter."""
DECAY, WEAK_DECAY = 0.1, 0.01
AVERAGE = 0.999
LEARNED_FROM = 0.1
"""Where a learned scale of distances begins: what rainbow-digits/best prefers."""
LOG_EVERY, CHECKPOINT_EVERY = 10, 100
MODEL_GROUPS = tuple(group for group in GROUPS if group not in ("data", "train", "evaluation", "auto"))
ALSO = ("train.average", "train.pieces")
"""Settings of the other groups that are a model's too."""
SEARCHS = ("optimizer.schedule", "hyper.schedule", "hyper.period", "train.average")
"""Settings that every candidate has from the search."""


@dataclass(frozen=True)
class Candidate:
    """A method with its settings.

    floor: untrained, and what others must beat. learns_lambda: λ has an outer objective, which needs tasks of its own.
    """

    name: str
    method: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    floor: bool = False
    learns_lambda: bool = False
    kept: Mapping[str, Any] = field(default_factory=dict)
    """What the user changed, {"optimizer.lr": 0.01}: it comes after the candidate's own."""

    @property
    def slug(self) -> str:
        """The name as a folder is called."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")

    @property
    def cost(self) -> float:
        """Of a step, in steps of a ProtoNet."""
        return get_method(self.method).cost


def candidates(pool: TaskPool, wanted: tuple[str, ...] = ()) -> list[Candidate]:
    """The list for these tasks, centroids first; `wanted` are names of those to keep beside them."""
    return named_candidates(shares_labels(pool), wanted)


def named_candidates(same_classes: bool, wanted: tuple[str, ...] = ()) -> list[Candidate]:
    """The same for tasks that have the same classes, or have not."""
    floors = [
        Candidate(f"centroid, {kind}", "centroid", {"centroid": {"preparation": kind}}, floor=True)
        for kind in ("raw", "standardised", "unit")
    ]
    # Dearer to score than centroids are: a small budget should have seen the first trained candidates before it.
    regression = Candidate("logistic regression", "logistic", floor=True)
    decay = {"optimizer": {"weight_decay": DECAY}}
    matched = {"interpolation": {"pairs": "matched"}}
    small = {"set_function": {"hidden": 128, "heads": 4}}
    frozen = {"hyper": {"period": NEVER}}
    # Second derivatives added nothing in `*/second-order`.
    direct = {"hyper": {"estimator": "direct"}}
    trained = [
        Candidate("protonet", "protonet", decay),
        Candidate("mean-interpolation", "mean-interpolation", decay | matched),
        Candidate("protonet, weak decay", "protonet", {"optimizer": {"weight_decay": WEAK_DECAY}}),
        # Ten over the width: 0.02 for an embedding of 500 numbers.
        Candidate(
            "protonet, scaled", "protonet",
            {"optimizer": {"weight_decay": 0.0}, "model": {"scale": 10.0, "scale_by": "dimension"}},
        ),
        Candidate(
            "protonet, learned scale", "protonet", decay | {"model": {"scale": LEARNED_FROM, "scale_by": "learned"}}
        ),
        Candidate("metamix", "metamix", decay),
        Candidate("mlti", "mlti", decay),
        Candidate("meta-interpolation, frozen", "meta-interpolation", decay | matched | small | frozen),
        Candidate("meta-interpolation", "meta-interpolation", decay | matched | small | direct, learns_lambda=True),
        Candidate("protonet-st", "protonet-st", decay | small | {"interpolation": {"bilevel": False}}),
        Candidate("metareg", "metareg", {"optimizer": {"weight_decay": 0.0}}, learns_lambda=True),
        Candidate("fomaml", "fomaml", {"optimizer": {"weight_decay": WEAK_DECAY}}),
    ]  # fmt: skip
    if same_classes:
        merged = {"interpolation": {"pairs": "matched", "label_sharing": True}}
        trained.insert(2, Candidate("mean-interpolation, class by class", "mean-interpolation", decay | merged))
    if not wanted:
        return [*floors, *trained[:2], regression, *trained[2:]]
    known = {candidate.name: candidate for candidate in trained}
    for name in wanted:
        if name not in known:
            raise unknown("candidate", name, known)
    return [*floors, regression, *(known[name] for name in wanted)]


def shares_labels(pool: TaskPool) -> bool:
    """Whether fixed tasks have the same classes, so that they can be merged class by class."""
    labels = {tuple(pool.class_names[c] for c in task.classes) for task in pool.tasks}
    return not pool.is_class_pool and len(pool.tasks) > 1 and len(labels) == 1


def candidate_settings(base: RunSettings, candidate: Candidate, steps: int) -> RunSettings:
    """Settings of a run of so many steps; nothing in them but that number depends on it, so that runs can grow."""
    settings = update(base, {"method": candidate.method, **candidate.changes})
    # The tasks are as they were dealt: whatever chose their rows has done so.
    settings = dataclasses.replace(settings, data=DataSettings(seed=base.data.seed))
    settings = update(
        settings,
        {
            "optimizer": {"schedule": "constant"},
            "hyper": {"schedule": "constant", "period": PERIOD} | candidate.changes.get("hyper", {}),
            "train": {
                "steps": steps, "average": base.train.average or AVERAGE, "validate_every": NEVER,
                "validation_episodes": 1, "log_every": LOG_EVERY, "checkpoint_every": CHECKPOINT_EVERY,
            },
        },
    )  # fmt: skip
    # A λ that stays as it is has no period.
    stays = candidate.changes.get("hyper", {}).get("period") == NEVER
    return update(settings, nested(item for item in candidate.kept.items() if item[0] != "hyper.period" or not stays))


def keeping(
    tried: Sequence[Candidate], base: RunSettings, changes: Mapping[str, Any]
) -> tuple[list[Candidate], list[str]]:
    """The candidates with what the user changed; those that are then another's twin drop out. And a sentence on each.

    Rows were dealt by settings of the data, and the search decides how long runs are and how they are scored.
    """
    own = {key: value for key, value in flat(changes).items() if key.partition(".")[0] in MODEL_GROUPS or key in ALSO}
    found: dict[tuple[str, bool], str] = {}
    kept, twins = [], []
    for plain in tried:
        candidate = dataclasses.replace(plain, kept=own)
        same = identity(candidate_settings(base, candidate, 1), groups_of(candidate.method))
        known = found.setdefault((digest(same), candidate.learns_lambda), candidate.name)
        if known == candidate.name:
            kept.append(candidate)
        else:
            twins.append(f"{candidate.name} is then {known} and is left out")
    theirs = {key for candidate in tried for key in flat(candidate.changes)} | set(SEARCHS)
    said = [f"{key}={value}" for key, value in own.items() if key in theirs]
    return kept, ([f"every candidate keeps {', '.join(said)}", *twins] if said else [])
