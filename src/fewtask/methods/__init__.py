"""The methods, by name. Adding one is one file in this folder and one line here."""

from __future__ import annotations

from fewtask.methods.base import Method, Step
from fewtask.methods.centroid import Centroid
from fewtask.methods.fomaml import FOMAML
from fewtask.methods.fomaml_meta_interpolation import FOMAMLWithMetaInterpolation
from fewtask.methods.fomaml_mlti import FOMAMLWithMLTI
from fewtask.methods.logistic import Logistic
from fewtask.methods.mean_interpolation import MeanInterpolation
from fewtask.methods.meta_interpolation import MetaInterpolation
from fewtask.methods.metamix import MetaMix
from fewtask.methods.metareg import MetaReg
from fewtask.methods.mlti import MLTI
from fewtask.methods.protonet import ProtoNet
from fewtask.methods.protonet_st import ProtoNetST
from fewtask.plugins import Registry
from fewtask.settings import COMMON_GROUPS, GROUPS, RunSettings

__all__ = ["AUTO", "METHODS", "Method", "Step", "get_method", "groups_of", "make_method"]

AUTO = "auto"
"""In place of a method: the choice of one by cross-validation over tasks (fewtask.auto)."""

METHODS: Registry[type[Method]] = Registry(
    "method",
    "fewtask.methods",
    {
        method.name: method
        for method in (
            Centroid,
            Logistic,
            ProtoNet,
            MetaReg,
            MetaMix,
            MLTI,
            ProtoNetST,
            MeanInterpolation,
            MetaInterpolation,
            FOMAML,
            FOMAMLWithMLTI,
            FOMAMLWithMetaInterpolation,
        )
    },
)


def get_method(name: str) -> type[Method]:
    return METHODS.find(name)


def groups_of(name: str) -> tuple[str, ...]:
    """Groups of settings, besides the common ones, that a method uses; what chooses a method uses those of all."""
    if name == AUTO:
        return tuple(group for group in GROUPS if group not in COMMON_GROUPS)
    return get_method(name).groups


def make_method(settings: RunSettings, input_shape: tuple[int, ...]) -> Method:
    return get_method(settings.method)(settings, input_shape)
