"""Meta-training: the loop, its state and its files."""

from fewtask.training.interruption import InterruptedRunError
from fewtask.training.loop import fit

__all__ = ["InterruptedRunError", "fit"]
