"""Choose for the user, and use every task: cross-validation over tasks, refit on all of them, votes and calibration.

folds        which tasks are trained on and which are held out
candidates   what is tried
fold_run     one candidate in one fold; halving grows the better half
scores       means with standard errors over tasks, and the choice
refit        the winner on all tasks
vote, calibration, sureness   who predicts, and how sure they may be
choosing     all of it, in one folder
"""

from __future__ import annotations

from fewtask.auto.choosing import Chosen, choose_for
from fewtask.auto_settings import AutoSettings

__all__ = ["AutoSettings", "Chosen", "choose_for"]
