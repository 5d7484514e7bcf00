"""ProtoNet+ST: the set function in the network, learned by bilevel optimisation, and no interpolation.

The paper's control: does the gain come from the extra parameters alone?
"""

from __future__ import annotations

from fewtask.methods.set_based import SetMethod


class ProtoNetST(SetMethod):
    name = "protonet-st"
    summary = "ProtoNet with the set function on singletons, bilevel, without interpolation"
