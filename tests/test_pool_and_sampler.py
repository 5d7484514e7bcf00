"""Pools and the sampler: every row of an episode is where it says it is, and every draw is equally likely."""

from __future__ import annotations

import itertools
import json
import warnings
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fewtask.episodes import Episode
from fewtask.errors import TaskError
from fewtask.pool import Dataset, TaskPool
from fewtask.protocol import draw_episodes
from fewtask.sampler import EpisodeSampler

quick = settings(max_examples=60, deadline=None)
seeds = st.integers(0, 2**31)


def fixed_pool(sizes: list[list[int]], seed: int = 0) -> TaskPool:
    """One task a list, one class a number of rows; a row's only value is its own index."""
    order = np.random.default_rng(seed).permutation(sum(map(sum, sizes)))
    tasks: dict[str, dict[str, np.ndarray]] = {}
    start = 0
    for t, counts in enumerate(sizes):
        tasks[f"task {t}"] = {}
        for c, count in enumerate(counts):
            tasks[f"task {t}"][f"class {t}.{c}"] = order[start : start + count]
            start += count
    return TaskPool.fixed(torch.arange(len(order), dtype=torch.float32)[:, None], tasks)


def class_pool(sizes: list[int]) -> TaskPool:
    edges = np.cumsum([0, *sizes])
    classes = {f"class {c}": np.arange(edges[c], edges[c + 1]) for c in range(len(sizes))}
    return TaskPool.class_pool(torch.arange(edges[-1], dtype=torch.float32)[:, None], classes)


def check_episode(pool: TaskPool, episode: Episode, way: int, shot: int, query: int) -> None:
    """Shapes, and that all rows belong to the classes and tasks that the episode names, none of them twice."""
    assert episode.support.shape[1:3] == (way, shot)
    assert episode.query.shape[1:3] == (way, query)
    for b in range(episode.batch):
        task = pool.tasks[int(episode.tasks[b])]
        classes = episode.classes[b].tolist()
        assert len(set(classes)) == way
        assert set(classes) <= set(task.classes)
        for k, label in enumerate(classes):
            used = [int(x) for x in (*episode.support[b, k].flatten(), *episode.query[b, k].flatten())]
            assert len(set(used)) == shot + query
            assert set(used) <= set(pool.class_rows[label].tolist())


def chi_square(counts: list[int], kinds: int) -> float:
    expected = sum(counts) / kinds
    return sum((c - expected) ** 2 / expected for c in counts) + (kinds - len(counts)) * expected


@quick
@given(
    st.lists(st.lists(st.integers(5, 60), min_size=3, max_size=6), min_size=2, max_size=4),
    st.integers(1, 5),
    st.integers(2, 3),
    st.integers(1, 3),
    st.integers(0, 2),
    seeds,
)
def test_episodes_of_fixed_tasks_hold_distinct_rows_of_their_own_classes(
    sizes: list[list[int]], batch: int, way: int, shot: int, query: int, seed: int
) -> None:
    pool = fixed_pool(sizes)
    check_episode(pool, EpisodeSampler(pool, seed).sample(batch, way, shot, query), way, shot, query)


@quick
@given(st.lists(st.integers(4, 40), min_size=3, max_size=8), st.integers(1, 5), st.integers(1, 4), seeds)
def test_groups_of_a_class_pool_share_no_class_while_there_are_enough(
    sizes: list[int], batch: int, size: int, seed: int
) -> None:
    pool = class_pool(sizes)
    group = EpisodeSampler(pool, seed).sample_groups(batch, 2, 2, 1, size, partner_query=2)
    assert len(group) == size
    for member, episode in enumerate(group):
        check_episode(pool, episode, 2, 2, 1 if member == 0 else 2)
    if 2 * size <= len(sizes):
        for b in range(batch):
            assert len({int(c) for e in group for c in e.classes[b]}) == 2 * size


def test_tasks_of_a_small_class_pool_may_share_classes() -> None:
    group = EpisodeSampler(class_pool([9, 9, 9]), 0).sample_groups(200, 2, 1, 1, 2)
    shared = [bool(set(a.tolist()) & set(b.tolist())) for a, b in zip(group[0].classes, group[1].classes)]
    assert all(shared)  # two of three classes twice must overlap


@quick
@given(st.integers(2, 6), st.integers(1, 6), st.integers(1, 6), seeds)
def test_fixed_tasks_of_a_group_differ(tasks: int, size: int, batch: int, seed: int) -> None:
    assume(size <= tasks)
    pool = fixed_pool([[5, 6, 7]] * tasks)
    group = EpisodeSampler(pool, seed).sample_groups(batch, 3, 2, 2, size)
    for member, episode in enumerate(group):
        check_episode(pool, episode, 3, 2, 2 if member == 0 else 0)
    for b in range(batch):
        assert len({int(e.tasks[b]) for e in group}) == size


def test_a_given_task_leads_its_group_and_partners_are_any_of_the_others() -> None:
    group = EpisodeSampler(fixed_pool([[4, 4]] * 4), 3).sample_groups(300, 2, 1, 1, 2, tasks=np.arange(300) % 4)
    assert group[0].tasks.tolist() == [b % 4 for b in range(300)]
    partners = Counter(zip(group[0].tasks.tolist(), group[1].tasks.tolist()))
    assert set(partners) == set(itertools.permutations(range(4), 2))


def test_every_order_of_classes_is_equally_likely() -> None:
    for pool in (fixed_pool([[3, 3, 3], [3, 3, 3, 3]]), class_pool([3, 3, 3])):
        episode = EpisodeSampler(pool, 5).sample(6000, 3, 1, 1, tasks=np.zeros(6000, dtype=np.int64))
        orders = Counter(tuple(c) for c in episode.classes.tolist())
        # 5 degrees of freedom: 25.7 is passed once in ten thousand seeds.
        assert chi_square(list(orders.values()), 6) < 25.7


@pytest.mark.parametrize("rows", [4, 40])
def test_every_ordered_choice_of_rows_is_equally_likely(rows: int) -> None:
    """4 rows are shuffled whole; 40 are drawn until they differ."""
    pool = class_pool([rows, rows])
    episode = EpisodeSampler(pool, 6).sample(8000, 2, 1, 1)
    pairs = torch.cat([episode.support, episode.query], dim=2)[..., 0] % rows
    counts = Counter(tuple(p) for p in pairs.flatten(0, 1).tolist())
    kinds = rows * (rows - 1)
    # About the mean plus four standard deviations of chi-square.
    assert chi_square(list(counts.values()), kinds) < kinds + 4 * (2 * kinds) ** 0.5


def test_every_class_of_a_pool_is_equally_likely() -> None:
    episode = EpisodeSampler(class_pool([3] * 7), 7).sample(3500, 3, 1, 1)
    counts = Counter(episode.classes.flatten().tolist())
    assert chi_square(list(counts.values()), 7) < 28


def test_aligned_tasks_have_the_same_classes_in_the_same_order() -> None:
    pool = fixed_pool([[4] * 5] * 3)
    one, two = EpisodeSampler(pool, 0).sample_groups(50, 3, 2, 1, 2, partner_query=1, aligned=True)
    assert torch.equal(one.classes % 5, two.classes % 5)
    assert (one.tasks != two.tasks).all()
    assert len({tuple(c) for c in (one.classes % 5).tolist()}) > 10
    check_episode(pool, one, 3, 2, 1)
    check_episode(pool, two, 3, 2, 1)


def test_way_shot_and_query_may_differ_from_call_to_call() -> None:
    pool, shapes = fixed_pool([[20, 20, 20]] * 2), []
    sampler = EpisodeSampler(pool, 0)
    for way, shot, query in ((2, 1, 5), (3, 4, 2), (2, 10, 10)):
        episode = sampler.sample(2, way, shot, query)
        check_episode(pool, episode, way, shot, query)
        shapes.append(tuple(episode.query.shape))
    assert shapes == [(2, 2, 5, 1), (2, 3, 2, 1), (2, 2, 10, 1)]


@quick
@given(seeds, st.integers(0, 5), st.booleans())
def test_a_restored_state_gives_the_same_episodes(seed: int, before: int, pooled: bool) -> None:
    pool = class_pool([9, 8, 7, 30]) if pooled else fixed_pool([[9, 8], [30, 7]])
    sampler = EpisodeSampler(pool, (seed, 1))
    for _ in range(before):
        sampler.sample(2, 2, 1, 1)
    state = json.loads(json.dumps(sampler.state()))
    wanted = sampler.sample_groups(3, 2, 2, 3, 2)
    other = EpisodeSampler(pool, 99)
    other.set_state(state)
    for a, b in zip(wanted, other.sample_groups(3, 2, 2, 3, 2)):
        assert torch.equal(a.support, b.support)
        assert torch.equal(a.query, b.query)
        assert torch.equal(a.classes, b.classes)


def left_over(counts: list[int], shot: int) -> int:
    """Rows of the groups that stay untouched when the smallest groups give the support."""
    groups = [g for g, size in enumerate(sorted(counts)) for _ in range(size)]
    taken = set(groups[:shot])
    return sum(g not in taken for g in groups)


@quick
@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), st.integers(1, 5), st.integers(1, 5), seeds)
def test_support_and_query_of_a_class_share_no_group(counts: list[int], shot: int, query: int, seed: int) -> None:
    rows = sum(counts)
    own = np.repeat(np.arange(len(counts)), counts)
    groups = np.concatenate([own, own + len(counts)])
    classes = {"speech": np.arange(rows), "rain": np.arange(rows, 2 * rows)}
    pool = TaskPool.class_pool(torch.arange(2 * rows, dtype=torch.float32)[:, None], classes, groups=groups)
    sampler = EpisodeSampler(pool, seed)
    if len(counts) == 1 or rows < shot + query:
        with pytest.raises(TaskError, match=r"class '(speech|rain)'"):
            sampler.sample(1, 2, shot, query)
        return
    assume(left_over(counts, shot) >= query)
    episode = sampler.sample(8, 2, shot, query)
    check_episode(pool, episode, 2, shot, query)
    for b, k in itertools.product(range(8), range(2)):
        support, queries = (groups[x[b, k, :, 0].long().numpy()] for x in (episode.support, episode.query))
        assert not set(support) & set(queries)


@quick
@given(st.integers(1, 3), st.integers(1, 3), seeds)
def test_no_query_has_a_group_of_any_support_row_of_its_episode(shot: int, query: int, seed: int) -> None:
    """Groups that span classes: the same hypothesis with both labels, the same recording with two sounds."""
    groups = np.tile(np.arange(20), 2)
    classes = {"speech": np.arange(20), "rain": np.arange(20, 40)}
    pool = TaskPool.class_pool(torch.arange(40, dtype=torch.float32)[:, None], classes, groups=groups)
    episode = EpisodeSampler(pool, seed).sample(8, 2, shot, query)
    check_episode(pool, episode, 2, shot, query)
    for b in range(8):
        support, queries = (groups[x[b].flatten().long().numpy()] for x in (episode.support, episode.query))
        assert not set(support) & set(queries)


def test_errors_name_the_class_or_task_and_what_was_needed() -> None:
    pool = fixed_pool([[9, 9, 9], [9, 3]])
    with pytest.raises(TaskError, match=r"3-way episodes need 3 classes, and task 'task 1' has 2"):
        EpisodeSampler(pool, 0).sample(1, 3, 1, 1)
    with pytest.raises(TaskError, match=r"class 'class 1\.1' of task 'task 1' has 3 rows, and 2 .*2 .*need 4"):
        EpisodeSampler(pool, 0).sample(1, 2, 2, 2, tasks=np.array([1]))
    with pytest.raises(TaskError, match=r"groups of 3 different tasks need 3 tasks, and there are 2"):
        EpisodeSampler(pool, 0).sample_groups(1, 2, 1, 1, 3)
    with pytest.raises(TaskError, match=r"unknown task 'task 9'.*task 0, task 1"):
        pool.task_index("task 9")
    assert pool.task_index("task 1") == 1
    with pytest.raises(TaskError, match=r"task 'lonely' has 1 class: at least 2"):
        TaskPool.fixed(torch.zeros(3, 1), {"lonely": {"only": [0, 1, 2]}})
    with pytest.raises(TaskError, match="at least one task"):
        TaskPool.fixed(torch.zeros(3, 1), {})
    data = Dataset("toy", pool, pool, fixed_pool([[5, 5]]))
    with pytest.raises(TaskError, match=r"unknown split 'tset': known are train, validation, test"):
        data.split("tset")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([0, 6], "class 'no' names row 6, and the rows are 0 to 5"),
        ([-1, 0], "class 'no' names row -1, and the rows are 0 to 5"),
        ([0, 1, 1], "class 'no' names row 1 2 times"),
    ],
)
def test_rows_that_do_not_exist_or_come_twice_are_refused(rows: list[int], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        TaskPool.fixed(torch.zeros(6, 1), {"task": {"no": rows, "yes": [2, 3]}})


def test_test_classes_that_are_training_classes_are_remarked() -> None:
    rows = torch.zeros(8, 1)
    train = TaskPool.fixed(rows, {"a": {"no": [0, 1], "yes": [2, 3]}})
    test = TaskPool.fixed(rows, {"b": {"no": [4, 5], "yes": [2, 3]}})
    with pytest.warns(UserWarning, match=r"1 test classes of 'toy' are training classes with the same rows \(yes\)"):
        Dataset("toy", train, train, test)
    apart = TaskPool.fixed(rows, {"b": {"no": [4, 5], "yes": [6, 7]}})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Dataset("toy", train, train, apart)


def test_rows_are_decoded_as_they_are_gathered() -> None:
    rows = torch.tensor([[0, 255], [10, 20], [30, 40], [50, 60]], dtype=torch.uint8)
    members = {"a": {"x": [0, 1], "y": [2, 3]}}
    scaled = TaskPool.fixed(rows, members, scale=(10.0, 0.5))
    assert scaled.gather(np.array([[1], [3]])).tolist() == [[[0.0, 5.0]], [[20.0, 25.0]]]
    tokens = TaskPool.fixed(rows.long(), members, scale=None).gather(np.array([0]))
    assert tokens.dtype == torch.int64
    assert tokens.tolist() == [[0, 255]]


def test_a_class_pool_can_be_restricted_and_halved() -> None:
    pool = class_pool([6, 7, 8, 9])
    few = pool.restrict(2)
    assert few.class_names == ("class 0", "class 1")
    assert set(EpisodeSampler(few, 0).sample(20, 2, 1, 1).classes.flatten().tolist()) == {0, 1}
    with pytest.raises(TaskError, match="5 classes were asked for, and the pool has 4"):
        pool.restrict(5)
    one, two = pool.halves(3)
    for whole, a, b in zip(pool.class_rows, one.class_rows, two.class_rows):
        assert sorted([*a, *b]) == sorted(whole)
        assert abs(len(a) - len(b)) <= 1
    with pytest.raises(TaskError, match="only a class pool"):
        fixed_pool([[3, 3]] * 2).restrict(2)


def test_a_digest_changes_with_whatever_episodes_depend_on() -> None:
    def pool(value: float = 1.0, name: str = "x", scale: float = 1.0, groups: np.ndarray | None = None) -> TaskPool:
        rows = torch.tensor([[value], [2.0], [3.0], [4.0]])
        return TaskPool.fixed(rows, {"a": {name: [0, 1], "y": [2, 3]}}, (0.0, scale), groups)

    digests = [p.digest() for p in (pool(), pool(5.0), pool(name="z"), pool(scale=2.0), pool(groups=np.arange(4)))]
    assert len(set(digests)) == 5
    assert pool().digest() == digests[0]


def test_a_list_of_episodes_is_what_its_seed_says_and_balanced_over_tasks() -> None:
    pool = fixed_pool([[9, 9], [9, 9, 9], [20, 9]])
    one, two, other = (draw_episodes(pool, 1100, 2, 2, 3, seed) for seed in (0, 0, 1))
    assert np.array_equal(one.rows, two.rows)
    assert not np.array_equal(one.rows, other.rows)
    counts = Counter(one.tasks.tolist())
    assert max(counts.values()) - min(counts.values()) <= 1
    owner = {int(r): t for t, task in enumerate(pool.tasks) for c in task.classes for r in pool.class_rows[c]}
    for task, rows in zip(one.tasks, one.rows):
        assert {owner[int(r)] for r in rows.flatten()} == {task}
        assert len(np.unique(rows)) == rows.size


@pytest.mark.parametrize("draw", [0, 1, 7])
def test_fewer_tasks_are_a_draw_among_those_of_more(draw: int) -> None:
    pool = fixed_pool([[12] * 3] * 8)
    chosen = {count: {t.name for t in pool.fewer(count, None, draw).tasks} for count in (2, 4, 8)}
    assert [len(names) for names in chosen.values()] == [2, 4, 8]
    assert chosen[2] < chosen[4] < chosen[8]
    fewer = pool.fewer(4, 5, draw)
    for task in fewer.tasks:
        whole = pool.tasks[pool.task_index(task.name)]
        for mine, theirs in zip(task.classes, whole.classes):
            assert fewer.class_names[mine] == pool.class_names[theirs]
            assert len(fewer.class_rows[mine]) == 5
            assert set(fewer.class_rows[mine]) <= set(pool.class_rows[theirs])


def test_draws_of_tasks_differ_and_nothing_is_drawn_where_nothing_is_asked() -> None:
    pool = fixed_pool([[12] * 3] * 8)
    assert len({tuple(t.name for t in pool.fewer(3, None, draw).tasks) for draw in range(8)}) > 4
    assert pool.fewer(None, None, 3) is pool


def test_fewer_classes_of_a_pool_and_numbers_that_cannot_be() -> None:
    pool = class_pool([10] * 6)
    assert len(pool.fewer(4, 3, 0).class_names) == 4
    assert pool.fewer(4, 3, 0).is_class_pool
    for tasks, rows in ((1, None), (7, None), (None, 0)):
        with pytest.raises(TaskError, match=r"train_tasks is|train_rows is"):
            pool.fewer(tasks, rows, 0)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("both", [False, True])
def test_rows_that_are_not_finite_are_found_by_row_and_column(value: float, both: bool) -> None:
    rows = torch.ones(12, 5)
    rows[7, 3] = value
    # Infinities of both signs cancel in no sum.
    rows[9, 1] = -value if both else 1.0
    with pytest.raises(TaskError, match=rf"row 7, column 3 holds {value}, and {2 if both else 1} of 12 rows"):
        TaskPool.fixed(rows, {"task": {"a": range(6), "b": range(6, 12)}})
    TaskPool.fixed(rows.nan_to_num(), {"task": {"a": range(6), "b": range(6, 12)}})
