"""The data sets, by name. Adding one is one file in this folder and one line here."""

from __future__ import annotations

from fewtask.datasets.base import Source
from fewtask.datasets.cifar100_fs import SOURCE as CIFAR100_FS
from fewtask.datasets.esc50 import SOURCE as ESC50
from fewtask.datasets.glue_scitail import SOURCE as GLUE_SCITAIL
from fewtask.datasets.metabolism import SOURCE as METABOLISM
from fewtask.datasets.mini_imagenet_s import SOURCE as MINI_IMAGENET_S
from fewtask.datasets.nci import SOURCE as NCI
from fewtask.datasets.rainbow_digits import SOURCE as RAINBOW_DIGITS
from fewtask.datasets.rmnist import SOURCE as RMNIST
from fewtask.datasets.tox21 import SOURCE as TOX21
from fewtask.plugins import Registry

SOURCES: Registry[Source] = Registry(
    "data set",
    "fewtask.datasets",
    {
        source.name: source
        for source in (
            RAINBOW_DIGITS,
            METABOLISM,
            TOX21,
            NCI,
            GLUE_SCITAIL,
            ESC50,
            RMNIST,
            MINI_IMAGENET_S,
            CIFAR100_FS,
        )
    },
)


def get_source(name: str) -> Source:
    return SOURCES.find(name)
