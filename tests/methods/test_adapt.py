"""A method shown labelled rows of a new task: any number of each class, any order."""

from __future__ import annotations

import pytest
import torch
from tiny import tiny

from fewtask.errors import TaskError
from fewtask.methods import METHODS

SHAPE = (6,)


def rows(count: int, seed: int) -> torch.Tensor:
    return torch.randn(count, *SHAPE, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_equal_supports_score_as_episodes_do_in_any_order(name: str) -> None:
    method = tiny(name).eval()
    support, query = method.embed(rows(6, 0)), method.embed(rows(7, 1))
    labels = torch.tensor([0, 0, 1, 1, 2, 2])
    wanted = method.logits(support.view(1, 3, 2, -1), query[None])[0]
    order = torch.tensor([3, 0, 5, 2, 4, 1])
    adapted = method.adapt(support[order], labels[order], 3)
    torch.testing.assert_close(adapted.scores(query), wanted, rtol=1e-9, atol=1e-10)
    # A query's scores do not depend on the queries beside it.
    torch.testing.assert_close(adapted.scores(query[2:3]), wanted[2:3], rtol=1e-9, atol=1e-10)


@torch.no_grad()
def test_prototypes_are_means_over_each_class_s_own_rows() -> None:
    method = tiny("protonet").eval()
    z, query = method.embed(rows(5, 0)), method.embed(rows(4, 1))
    labels = torch.tensor([1, 0, 1, 1, 0])
    adapted = method.adapt(z, labels, 2)
    first, second = (z[1] + z[4]) / 2, (z[0] + z[2] + z[3]) / 3
    torch.testing.assert_close(adapted.prototypes, torch.stack([first, second]))
    for row, scores, distance in zip(query, adapted.scores(query), adapted.distances(query)):
        apart = [float(((row - p) ** 2).sum()) for p in (first, second)]
        torch.testing.assert_close(-scores, torch.tensor(apart, dtype=torch.float64))
        assert float(distance) == pytest.approx(min(apart) ** 0.5)


def test_fomaml_weighs_classes_alike_however_many_rows_they_have() -> None:
    """Doubling every row of one class changes nothing but the statistics of BatchNorm, which are made equal too."""
    method = tiny("fomaml").eval()
    support, query = rows(3, 0), rows(4, 1)
    even = method.adapt(torch.cat([support, support]), torch.tensor([0, 1, 2, 0, 1, 2]), 3).scores(query)
    once = method.adapt(support, torch.tensor([0, 1, 2]), 3).scores(query)
    torch.testing.assert_close(even, once, rtol=1e-9, atol=1e-10)
    uneven = method.adapt(torch.cat([support, support[:1]]), torch.tensor([0, 1, 2, 0]), 3)
    plain = method.adapt(torch.cat([support, support[:1]]), torch.tensor([0, 1, 2, 2]), 3)
    assert not torch.allclose(uneven.scores(query), plain.scores(query))
    assert uneven.prototypes.shape == (3, method.encoder.embedding)
    assert bool((uneven.distances(query) > 0).all())


def test_fomaml_takes_fewer_classes_than_it_was_trained_for_and_refuses_more() -> None:
    method = tiny("fomaml").eval()
    support, labels = rows(4, 0), torch.tensor([0, 0, 1, 1])
    scores = method.adapt(support, labels, 2).scores(support)
    assert scores.shape == (4, 2)
    # Ten steps on four rows: it has learned them, or it has not adapted at all.
    before = tiny("fomaml", {"adaptation": {"test_steps": 0}}).eval().adapt(support, labels, 2).scores(support)
    loss, start = (torch.nn.functional.cross_entropy(s, labels) for s in (scores, before))
    assert loss < start
    with pytest.raises(TaskError, match="fomaml was trained to tell 3 classes apart, and these examples have 4"):
        method.adapt(support, torch.arange(4), 4)
