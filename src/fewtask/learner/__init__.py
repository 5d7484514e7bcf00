"""From tasks with labels to predictions on a new one: train, adapt, predict, save."""

from __future__ import annotations

from fewtask.learner.adapted import AdaptedClassifier
from fewtask.learner.few_shot_classifier import FewShotClassifier
from fewtask.learner.meta_learner import MetaLearner
from fewtask.learner.model import Model

__all__ = ["AdaptedClassifier", "FewShotClassifier", "MetaLearner", "Model"]
