"""Prototypical Networks (Snell et al., NeurIPS 2017): a class is the mean of its embedded support rows."""

from __future__ import annotations

from fewtask.methods.base import Method


class ProtoNet(Method):
    """The plain network: φ is the identity."""

    name = "protonet"
    title = "ProtoNet"
    summary = "Prototypical Network: nearest class mean in a learned embedding"
