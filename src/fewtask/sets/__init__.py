"""The set functions, by name."""

from __future__ import annotations

from fewtask.errors import unknown
from fewtask.sets.base import DeepSets, Mean, SetFunction
from fewtask.sets.set_transformer import SetTransformer
from fewtask.settings import SetFunctionSettings

__all__ = ["SET_FUNCTIONS", "DeepSets", "Mean", "SetFunction", "SetTransformer", "make_set_function"]

SET_FUNCTIONS = ("set-transformer", "deep-sets", "mean")


def make_set_function(settings: SetFunctionSettings, d: int) -> SetFunction:
    """A set function for features of width d."""
    if settings.name == "set-transformer":
        return SetTransformer(d, settings.hidden, settings.heads, settings.dropout)
    if settings.name == "deep-sets":
        return DeepSets(d, settings.hidden, settings.dropout)
    if settings.name == "mean":
        return Mean(d)
    raise unknown("set function", settings.name, SET_FUNCTIONS)
