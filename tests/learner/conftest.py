"""Trained once for all tests of this folder; nobody changes it."""

from __future__ import annotations

import pytest
from synthetic import QUICK, many_tasks

from fewtask import MetaLearner


@pytest.fixture(scope="session")
def learner() -> MetaLearner:
    return MetaLearner(steps=60, episodes=60, settings=QUICK).fit(*many_tasks())
