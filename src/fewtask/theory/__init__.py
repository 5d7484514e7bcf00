"""The paper's theory as functions: each equation computed, so that each statement can be checked.

attention:    the attention-only set function, and α of a pair.
expansion:    Theorem 1, the J-th order approximation of the mixed loss.
proposition1: the linear two-class case and its regulariser c‖θ‖²_M.
rademacher:   Proposition 2, the bound on the Rademacher complexity.

docs/theory.md says which statement is checked where, and which are wrong as printed.
"""

from __future__ import annotations

from fewtask.theory.attention import AttentionLayer, AttentionSetFunction, PairAttention, random_set_function
from fewtask.theory.expansion import (
    MixExpansion,
    delta_terms,
    directional_derivatives,
    expand_mix_loss,
    mix_loss,
    mixed_prototypes,
    protonet_loss,
    singleton_prototypes,
)
from fewtask.theory.proposition1 import (
    Draw,
    LinearCase,
    closed_form,
    delta,
    delta_second_moment,
    second_order_expansion,
)
from fewtask.theory.rademacher import (
    RademacherAverage,
    difference_matrix,
    exact_average,
    monte_carlo_average,
    sharp_bound,
    supremum,
)
from fewtask.theory.rademacher import bound as rademacher_bound

__all__ = [
    "AttentionLayer",
    "AttentionSetFunction",
    "Draw",
    "LinearCase",
    "MixExpansion",
    "PairAttention",
    "RademacherAverage",
    "closed_form",
    "delta",
    "delta_second_moment",
    "delta_terms",
    "difference_matrix",
    "directional_derivatives",
    "exact_average",
    "expand_mix_loss",
    "mix_loss",
    "mixed_prototypes",
    "monte_carlo_average",
    "protonet_loss",
    "rademacher_bound",
    "random_set_function",
    "second_order_expansion",
    "sharp_bound",
    "singleton_prototypes",
    "supremum",
]
