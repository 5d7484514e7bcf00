"""Memory and time of a run, known before they are spent.

A training step and a hyper-update run once on tensors without numbers, which gives their arithmetic, their memory
traffic and the bytes of the tensors that live at their fullest moment; the machine's rates make seconds of it.
"""

from __future__ import annotations

from fewtask.cost.estimate import Cost, CostUnknownError, estimate_cost
from fewtask.cost.fit import check_memory, describe, foretell

__all__ = ["Cost", "CostUnknownError", "check_memory", "describe", "estimate_cost", "foretell"]
