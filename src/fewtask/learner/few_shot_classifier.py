"""FewShotClassifier: a scikit-learn classifier whose `fit` adapts a trained model to the rows it is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from fewtask.learner.adapted import AdaptedClassifier, one_class
from fewtask.learner.meta_learner import MetaLearner
from fewtask.learner.model import Model


class FewShotClassifier(ClassifierMixin, BaseEstimator):
    """Classifies from few rows, with a meta-learned model or, without one, by prototypes of the standardised input.

    Parameters
    ----------
    model
        folder of a run, a fitted `MetaLearner` or its `model_` (in a grid of parameters, which scikit-learn
        copies untrained), or None. With a model X is what the model was trained with (arrays, frames, lists of
        SMILES, ...); without one it is a matrix of numbers.
    device
        where a model from a folder computes.

    Attributes after `fit`
    ----------------------
    classes_: the labels, sorted. adapted_: the adapted classifier, with a model.
    mean_, scale_ [D], prototypes_ [K, D]: without a model.
    """

    def __init__(self, model: str | Path | MetaLearner | Model | None = None, *, device: str = "cpu") -> None:
        self.model = model
        self.device = device

    def fit(self, X: Any, y: Any) -> FewShotClassifier:
        if self.model is not None:
            self.adapted_ = AdaptedClassifier(self._loaded(), X, y)
            self.classes_ = self.adapted_.classes_
            return self
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, index = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise one_class(self.classes_[0])
        self.mean_, deviation = X.mean(axis=0), X.std(axis=0)
        self.scale_ = np.where(deviation > 0, deviation, 1.0)
        rows = self._standardised(X)
        self.prototypes_ = np.stack([rows[index == k].mean(axis=0) for k in range(len(self.classes_))])
        return self

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """[M, K] log-probabilities, in the order of `classes_`."""
        check_is_fitted(self, "classes_")
        if self.model is not None:
            return self.adapted_.predict_log_proba(X)
        rows = self._standardised(validate_data(self, X, dtype=np.float64, reset=False))
        # Mean over features, not their sum: sureness must not grow with the width of the input.
        scores = -((rows[:, None] - self.prototypes_) ** 2).mean(axis=2)
        return scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)

    def predict_proba(self, X: Any) -> np.ndarray:
        """[M, K] probabilities, in the order of `classes_`."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """[M] most likely class of each row."""
        likely = self.predict_log_proba(X).argmax(axis=1)
        return self.classes_[likely]

    def __sklearn_clone__(self) -> FewShotClassifier:
        """A trained model is shared by copies, not trained anew: scikit-learn would take its training away."""
        return type(self)(self.model, device=self.device)

    def _standardised(self, X: np.ndarray) -> np.ndarray:
        return (X - self.mean_) / self.scale_

    def _loaded(self) -> Model:
        if isinstance(self.model, MetaLearner):
            return self.model.fitted_model()
        if isinstance(self.model, Model):
            return self.model
        assert self.model is not None
        return Model.load(Path(self.model), self.device)
