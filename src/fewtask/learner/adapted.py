"""What `adapt` returns: a classifier for one new task."""

from __future__ import annotations

from typing import Any

import numpy as np

from fewtask.auto.vote import Judgement
from fewtask.errors import InputError
from fewtask.learner.inputs import as_labels
from fewtask.learner.model import Model


class AdaptedClassifier:
    """Labels rows of a new task from the few that it was shown; the model itself is not changed.

    classes_: the labels, sorted, as they were given.
    """

    def __init__(self, model: Model, X: Any, y: Any) -> None:
        features = model.features(X)
        labels = as_labels(y, len(features))
        self.classes_, index = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise one_class(self.classes_[0])
        self.model_ = model
        self.adapted_ = model.adapt(features, index.reshape(-1), len(self.classes_))

    def judge(self, X: Any) -> Judgement:
        """Calibrated log-probabilities [M, K] and distances [M] to the nearest prototype."""
        return self.adapted_.judge(self.model_.features(X))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """[M, K] log-probabilities, in the order of `classes_`."""
        return self.judge(X).log_probabilities

    def predict_proba(self, X: Any) -> np.ndarray:
        """[M, K] probabilities, in the order of `classes_`."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """[M] most likely class of each row."""
        return self.classes_[self.predict_log_proba(X).argmax(axis=1)]

    def distances(self, X: Any) -> np.ndarray:
        """[M] distance of each row to the nearest prototype."""
        return self.judge(X).distances

    def unlike_support(self, X: Any) -> np.ndarray:
        """[M] whether a row is further from every prototype than 99 of 100 queries of the held-out tasks were."""
        return self.distances(X) > self.adapted_.limit

    def score(self, X: Any, y: Any) -> float:
        """Share of the rows that are labelled right."""
        predicted = self.predict(X)
        return float(np.mean(predicted == as_labels(y, len(predicted))))


def one_class(label: Any) -> InputError:
    return InputError(f"all rows have one class, '{label}': at least two classes are needed")
