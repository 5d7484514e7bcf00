"""Figures: the one import of matplotlib, the one style, and one fixed colour a method in all of them.

Colours are Okabe and Ito's as far as they go, which people with any kind of colour vision can tell apart.
Meta-Interpolation has the strongest, and the widest line.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fewtask.errors import RunError

METHOD_COLOURS = {
    "meta-interpolation": "#D55E00",
    "protonet": "#0072B2",
    "mlti": "#009E73",
    "metamix": "#CC79A7",
    "metareg": "#56B4E9",
    "protonet-st": "#E69F00",
    "centroid": "#7F7F7F",
    "logistic": "#BBBBBB",
    "mean-interpolation": "#8C564B",
    "fomaml": "#332288",
    "fomaml-mlti": "#117733",
    "fomaml-meta-interpolation": "#882255",
}
OTHER_COLOURS = ("#AA4499", "#44AA99", "#999933", "#661100", "#6699CC", "#000000")
"""Of methods from elsewhere, and of lines that are no methods."""
FOREGROUND, BACKGROUND = METHOD_COLOURS["meta-interpolation"], METHOD_COLOURS["protonet"]
"""Of figures with two things to show."""
STYLE = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
}
DOTS_PER_INCH = 150


def method_colour(name: str) -> str:
    """The same in every figure; a variant ("meta-interpolation:mean") has its own."""
    return METHOD_COLOURS.get(name) or OTHER_COLOURS[zlib.crc32(name.encode()) % len(OTHER_COLOURS)]


def method_width(name: str) -> float:
    return 2.4 if name == "meta-interpolation" else 1.4


def pyplot() -> Any:
    """matplotlib without a screen, or a sentence that says what to install."""
    try:
        import matplotlib
    except ImportError as error:
        raise RunError('figures need matplotlib: pip install "fewtask[figures]"') from error
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def draw(paint: Callable[[Any], Any], *paths: Path) -> None:
    """Saves the figure that `paint` makes with pyplot, in the style of the house."""
    plt = pyplot()
    with plt.rc_context(STYLE):
        figure = paint(plt)
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                figure.savefig(path, dpi=DOTS_PER_INCH, bbox_inches="tight")
            except (OSError, ValueError) as error:
                raise RunError(f"{path} cannot be drawn ({error}): name a file that ends in .png or .pdf") from error
        plt.close(figure)
