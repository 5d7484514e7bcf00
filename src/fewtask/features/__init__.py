"""Kinds of input, by name. Adding one is one file in this folder and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fewtask.errors import RunError
from fewtask.features.array import Array
from fewtask.features.base import Featuriser
from fewtask.features.images import Images
from fewtask.features.molecules import Molecules
from fewtask.features.numbers import Numbers
from fewtask.features.sound import Sound
from fewtask.features.table import BadRow, Table
from fewtask.features.text import Text
from fewtask.plugins import Registry

FEATURISERS: Registry[type[Featuriser]] = Registry(
    "kind of input",
    "fewtask.featurisers",
    {made.kind: made for made in (Numbers, Molecules, Text, Images, Sound, Array)},
)

__all__ = ["FEATURISERS", "BadRow", "Featuriser", "Table", "load_featuriser"]


def load_featuriser(values: Mapping[str, Any]) -> Featuriser:
    """The featuriser whose `settings` a run has kept."""
    kind = str(values.get("kind"))
    made = FEATURISERS.find(kind)
    try:
        return made.from_settings(values)
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(f"the settings of the input '{kind}' are damaged ({error!r}): train the run again") from error
