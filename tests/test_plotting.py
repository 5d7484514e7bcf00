"""One colour a method, wherever it is drawn, and one sentence where matplotlib is missing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from fewtask import plotting
from fewtask.errors import RunError
from fewtask.methods import METHODS


def luminance(colour: str) -> float:
    """Relative luminance of #RRGGBB, after the Web Content Accessibility Guidelines."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_every_method_of_the_house_has_a_colour_of_its_own() -> None:
    colours = [plotting.method_colour(name) for name in METHODS]
    assert len(set(colours)) == len(METHODS)
    assert set(METHODS) == set(plotting.METHOD_COLOURS)


def test_meta_interpolation_is_the_most_visible_on_white() -> None:
    ours = plotting.method_colour("meta-interpolation")
    assert (1 + 0.05) / (luminance(ours) + 0.05) > 3
    widths = {name: plotting.method_width(name) for name in METHODS}
    assert widths.pop("meta-interpolation") > max(widths.values())


def test_a_method_from_elsewhere_keeps_its_colour_from_one_process_to_the_next() -> None:
    # Python's own hash of a text differs from process to process.
    assert plotting.method_colour("someone-elses") == "#44AA99"
    assert plotting.method_colour("someone-elses") not in plotting.METHOD_COLOURS.values()


def test_without_matplotlib_a_sentence_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(RunError, match=r"fewtask\[figures\]"):
        plotting.draw(lambda plt: plt.figure(), tmp_path / "x.png")


def test_an_ending_that_is_no_picture_is_refused_in_a_sentence(tmp_path: Path) -> None:
    def paint(plt: Any) -> Any:
        return plt.figure()

    with pytest.raises(RunError, match=r"ends in \.png or \.pdf"):
        plotting.draw(paint, tmp_path / "new" / "x.doc")
    plotting.draw(paint, tmp_path / "new" / "x.png")
    assert (tmp_path / "new" / "x.png").read_bytes().startswith(b"\x89PNG")
