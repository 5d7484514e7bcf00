"""Accuracy on held-out tasks in the folder of a model: as a table, and as a picture."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fewtask.files import write_text
from fewtask.learner.held_out import HeldOut
from fewtask.plotting import draw, method_colour


def write_held_out(found: HeldOut, folder: Path) -> None:
    """held-out.csv and, where matplotlib is there, held-out.png."""
    write_text(folder / "held-out.csv", found.table())
    if find_spec("matplotlib") is not None:
        draw(lambda plt: paint(found, plt), folder / "held-out.png")


def paint(found: HeldOut, plt: Any) -> Any:
    """Accuracy, AUC and calibration error by shot, a curve a method."""
    figure, panels = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
    measures = (("accuracy", "accuracy"), ("auc", "AUC"), ("calibration_error", "calibration error"))
    for panel, (measure, title) in zip(panels, measures):
        for method in dict.fromkeys(line.method for line in found.lines):
            own = [line for line in found.lines if line.method == method]
            values = [getattr(line, measure) for line in own]
            errors = [getattr(line, f"{measure}_interval", 0.0) for line in own]
            style = {"color": method_colour(method), "marker": "o", "markersize": 4, "capsize": 2}
            panel.errorbar([line.shot for line in own], values, errors, label=method, **style)
        panel.set(xscale="log", xlabel="labelled examples a class", title=title)
        shots = sorted({line.shot for line in found.lines})
        panel.set_xticks(shots, [str(shot) for shot in shots])
        panel.minorticks_off()
    panels[0].legend()
    return figure
