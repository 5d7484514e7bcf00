"""Meta-training: the loop, its state and its files."""

from fewtask.training.loop import InterruptedRunError, fit

__all__ = ["InterruptedRunError", "fit"]
