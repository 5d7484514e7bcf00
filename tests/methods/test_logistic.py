"""Logistic regression against scikit-learn's, on rows narrower and wider than there are of them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from fewtask.methods.logistic import regress


@pytest.mark.parametrize(
    ("width", "classes", "counts"),
    [(3, 2, (4, 7)), (60, 3, (5, 5, 5)), (8, 4, (1, 2, 3, 9)), (90, 5, (20, 20, 20, 20, 15))],
)
def test_log_probabilities_are_scikit_learn_s(width: int, classes: int, counts: tuple[int, ...]) -> None:
    rng = np.random.default_rng(width)
    labels = np.repeat(np.arange(classes), counts)
    support = rng.normal(size=(len(labels), width)) + 0.5 * labels[:, None]
    query = rng.normal(size=(9, width))
    wanted = LogisticRegression(tol=1e-10, max_iter=20_000).fit(support, labels).predict_log_proba(query)
    found = regress(torch.from_numpy(support), torch.from_numpy(labels), classes, torch.from_numpy(query))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=2e-5)


def test_rows_far_apart_and_rows_that_are_all_alike() -> None:
    """Neither a support that any line divides nor one that none can makes the weights anything but finite."""
    labels = torch.tensor([0, 0, 1, 1])
    far = regress(torch.tensor([[-1e3], [-9e2], [1e3], [9e2]]), labels, 2, torch.tensor([[-5e2], [5e2]]))
    assert far.argmax(1).tolist() == [0, 1]
    alike = regress(torch.ones(4, 3), labels, 2, torch.zeros(2, 3))
    torch.testing.assert_close(alike, torch.full((2, 2), 0.5).log())
