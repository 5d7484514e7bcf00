"""The card of a model trained on own data: what it is, how sure it can be, how to use it."""

from __future__ import annotations

from typing import Any

from fewtask import __version__
from fewtask.learner.held_out import HeldOut
from fewtask.learner.model import Model
from fewtask.settings import RunSettings


def own_card(settings: RunSettings, record: dict[str, Any], model: Model, held_out: HeldOut, usage: list[str]) -> str:
    """Markdown for the folder's README.md; `usage` is a prediction that works as pasted."""
    e, about = settings.episode, model.about
    lines = [
        f"# {settings.method} on {about['name']}",
        "",
        f"A few-task meta-learner made by fewtask {__version__}. Shown a few labelled rows of a new task, it labels "
        "the rest; any number of classes, any number of rows of each.",
        "",
        "| | |",
        "|---|---|",
        f"| input | {_input(model)} |",
        f"| trained for | {e.way} classes, {e.shot} examples of each |",
        f"| encoder | {settings.encoder.name}, width {settings.encoder.width} |",
        f"| training | {settings.train.steps} steps, weights of step {record.get('selected_step', 'the last')}, "
        f"{record.get('seconds', 0):.0f} s |",
        f"| members that vote | {len(model.members)} |",
        "",
        *held_out.markdown(),
        f"In short: {held_out.verdict(settings.method, e.shot)}.",
        "",
        "`unlike_support` marks rows that are further from every class's examples than 99 of 100 rows of the held-out "
        "tasks were: what is said of them is a guess.",
        "",
        "## Tasks it learned from",
        "",
    ]
    for split, tasks in about["tasks"].items():
        names = [name for classes in tasks.values() for name in classes] if about["class_pool"] else list(tasks)
        lines.append(f"- {split}: {', '.join(names)}")
    lines += ["", *[f"- {note}" for note in about["notes"]], "", "## Use", ""]
    return "\n".join([*lines, *usage])


def _input(model: Model) -> str:
    shape = f"features of shape {model.input_shape}"
    return shape if model.featuriser is None else f"{model.featuriser.describe()}; {shape}"
