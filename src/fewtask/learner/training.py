"""From own tasks to trained members: the method that the user named, or what cross-validation over tasks chooses."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fewtask.auto import AutoSettings, Chosen, choose_for
from fewtask.auto.folds import available, fold_count, units
from fewtask.auto.recorded import vote_score
from fewtask.cost import foretell
from fewtask.datasets.base import Progress
from fewtask.errors import TaskError
from fewtask.learner.held_out import CENTROID, LOGISTIC, HeldOut, assess, assess_test, line_of
from fewtask.methods import Method
from fewtask.pool import Dataset
from fewtask.protocol import meta_test_episodes
from fewtask.run import execute
from fewtask.settings import RunSettings

NAMES = {"centroid": CENTROID, "logistic": LOGISTIC}
Say = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Trained:
    """Members that vote, the settings of the first, and what is known of them."""

    members: tuple[Method, ...]
    settings: RunSettings
    held_out: HeldOut
    record: dict[str, Any]
    history: list[dict[str, Any]]
    notes: tuple[str, ...]


def train_one(
    dataset: Dataset,
    settings: RunSettings,
    out: Path | None,
    *,
    device: str,
    episodes: int,
    say: Say,
    show_progress: bool | None,
    progress: Progress,
) -> Trained:
    """The method of the settings, its weights chosen on validation tasks."""
    if out is None or not (out / "result.json").exists():
        say(foretell(settings, dataset.input_shape, device))
    result = execute(settings, dataset, out, device=device, show_progress=show_progress)
    pools = dataset.pools(settings.data, settings.episode.way).to(device)
    held_out = assess(
        (result.method,), pools, name=settings.method, seed=settings.evaluation.seed, episodes=episodes,
        progress=progress,
    )  # fmt: skip
    return Trained((result.method,), settings, held_out, result.record, result.history, dataset.notes)


def too_few_tasks(dataset: Dataset, settings: RunSettings, folds: int) -> str | None:
    """Why tasks cannot be held out in turn; None where they can."""
    try:
        fold_count(available(dataset, settings.data, settings.episode.way), folds, settings.episode.way)
    except TaskError as error:
        return str(error)
    return None


def in_turn(dataset: Dataset) -> str:
    """What happens to the tasks when a method is chosen."""
    tasks = "all of these tasks" if dataset.test is None else "all tasks but the test tasks"
    then = "" if dataset.test is None else "; test tasks are scored once, in the end"
    return f"{tasks} are held out in turn, and all are trained on in the end{then}"


def train_automatically(
    dataset: Dataset,
    base: RunSettings,
    out: Path | None,
    options: AutoSettings,
    *,
    workers: int,
    device: str,
    episodes: int,
    say: Say,
    show_progress: bool | None,
    progress: Progress,
    kept: Mapping[str, Any],
) -> Trained:
    """Whatever wins on held-out tasks, trained on all of them; `base` gives encoder and sizes.

    Test tasks are kept out of all of that; where there are any, the chosen is scored on them once, in the end.
    kept: what the user changed, which every candidate keeps.
    """
    place = tempfile.TemporaryDirectory(prefix="fewtask-auto-") if out is None else nullcontext(str(out))
    with place as name:
        chosen = choose_for(
            dataset, base, Path(name), options,
            workers=workers, device=device, say=say, show_progress=show_progress, kept=kept,
            floors=dataset.test is None,
        )  # fmt: skip
    notes = (*dataset.notes, chosen.verdict)
    if dataset.test is None:
        names = units(available(dataset, base.data, base.episode.way))
        return Trained(chosen.members, chosen.settings, held_out_of(chosen, names), chosen.record, [], notes)
    pools = dataset.pools(base.data, base.episode.way).to(device)
    held_out = assess_test(
        chosen.members, pools, chosen.calibration,
        name=chosen.settings.method, seed=base.evaluation.seed, episodes=episodes, progress=progress,
    )  # fmt: skip
    test = vote_score(chosen.members, pools, meta_test_episodes(base, pools), chosen.calibration)
    return Trained(chosen.members, chosen.settings, held_out, chosen.record | {"test": test}, [], notes)


def held_out_of(chosen: Chosen, names: list[str]) -> HeldOut:
    """The folds' models on the tasks that they had not seen, beside untrained methods on the same episodes."""
    rows = []
    for place, one in enumerate(chosen.held_out):
        rows.append(line_of(one.shot, chosen.settings.method, one.honest))
        for method, shots in chosen.floors.items():
            if method != chosen.settings.method:
                found = shots[place]
                # Logistic regression is shown as it comes.
                shown = found.honest if method == "centroid" else found.judged.log_probabilities
                rows.append(line_of(one.shot, NAMES[method], shown))
    return HeldOut(tuple(rows), chosen.calibration, tuple(names), chosen.settings.episode.way)


def auto_options(minutes: float | None, steps: int | None, more: Mapping[str, Any] | None) -> AutoSettings:
    """Options from a learner's parameters; `steps` is the length of the longest runs."""
    options = AutoSettings(minutes=minutes)
    if steps is not None:
        options = dataclasses.replace(options, most_steps=steps)
    return dataclasses.replace(options, **(more or {}))
