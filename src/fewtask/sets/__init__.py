"""The set functions, by name."""

from __future__ import annotations

from collections.abc import Callable

from fewtask.plugins import Registry
from fewtask.sets.base import DeepSets, Mean, SetFunction
from fewtask.sets.set_transformer import SetTransformer
from fewtask.sets.small import Gate, LowRank, RandomWeight
from fewtask.settings import SetFunctionSettings

__all__ = ["SET_FUNCTIONS", "DeepSets", "Mean", "SetFunction", "SetTransformer", "make_set_function"]

SET_FUNCTIONS: Registry[Callable[[SetFunctionSettings, int], SetFunction]] = Registry(
    "set function",
    "fewtask.set_functions",
    {
        "set-transformer": lambda s, d: SetTransformer(d, s.hidden, s.heads, s.dropout),
        "deep-sets": lambda s, d: DeepSets(d, s.hidden, s.dropout),
        "mean": lambda s, d: Mean(d),
        "gate": lambda s, d: Gate(d),
        "random-weight": lambda s, d: RandomWeight(d),
        "low-rank": lambda s, d: LowRank(d, s.heads),
    },
)


def make_set_function(settings: SetFunctionSettings, d: int) -> SetFunction:
    """A set function for features of width d."""
    return SET_FUNCTIONS.find(settings.name)(settings, d)
