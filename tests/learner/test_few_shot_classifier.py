"""FewShotClassifier among scikit-learn's own tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from synthetic import one_task

from fewtask import FewShotClassifier, MetaLearner


@parametrize_with_checks([FewShotClassifier()])
def test_it_is_an_estimator(estimator: Any, check: Any) -> None:
    """No check is expected to fail. The one of arrays of other libraries skips itself where SciPy is not told to."""
    check(estimator)


def test_without_a_model_it_is_the_nearest_centroid_of_the_standardised_input() -> None:
    X, y = load_iris(return_X_y=True)
    wanted = make_pipeline(StandardScaler(), NearestCentroid()).fit(X[::3], y[::3]).predict(X)
    found = FewShotClassifier().fit(X[::3], y[::3])
    assert np.array_equal(found.predict(X), wanted)
    np.testing.assert_allclose(found.predict_proba(X).sum(axis=1), 1.0)


def test_it_works_in_pipelines_and_searches(learner: MetaLearner, tmp_path: Path) -> None:
    learner.save(tmp_path / "run")
    X, y = one_task(200, 60)
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    pipeline = make_pipeline(MinMaxScaler(), FewShotClassifier())
    assert cross_val_score(pipeline, X, y, cv=folds).shape == (3,)
    found = cross_val_score(FewShotClassifier(tmp_path / "run"), X, y, cv=folds, error_score="raise")
    assert np.array_equal(found, cross_val_score(FewShotClassifier(learner), X, y, cv=folds, error_score="raise"))
    search = GridSearchCV(FewShotClassifier(), {"model": [None, tmp_path / "run", learner.model_]}, cv=folds)
    search.fit(X, y)
    results = search.cv_results_["mean_test_score"]
    # The saved model and the one in memory are the same model.
    assert results[1] == results[2]
    assert search.predict(X).shape == (60,)


def test_with_a_model_it_is_what_adapt_gives(learner: MetaLearner) -> None:
    X, y = one_task(200, 40)
    found = FewShotClassifier(learner).fit(X[:10], y[:10])
    assert np.array_equal(found.predict_proba(X), learner.adapt(X[:10], y[:10]).predict_proba(X))
    with pytest.raises(ValueError, match="all rows have one class, 'a'"):
        FewShotClassifier(learner).fit(X[:3], ["a"] * 3)
