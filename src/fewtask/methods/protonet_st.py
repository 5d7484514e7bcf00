"""ProtoNet+ST: the set function in the network, learned by bilevel optimisation, and no interpolation.

The paper's control: does the gain come from the extra parameters alone?
"""

from __future__ import annotations

from fewtask.methods.set_based import SetMethod


class ProtoNetST(SetMethod):
    name = "protonet-st"
    title = "ProtoNet+ST"
    cost = 2.5
    summary = "ProtoNet with the set function on singletons, bilevel, without interpolation"
