"""What the trees cost, counted: ⊕ calls, nodes visited and repaired, and Lemma 9's splits, merges and moves."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
import pytest

from windlass import aggregates as agg
from windlass.aggregates.counting import Counter, counted
from windlass.stores import ClassicBTree, FiBA
from windlass.stores.fiba.store import BTree

N = 4096
ARITIES = [2, 4, 8]


def filled(store: type[BTree], min_arity: int, n: int = N) -> tuple[BTree, Counter]:
    aggregate, calls = counted(agg.sum())
    tree = store(aggregate, min_arity=min_arity, dtype="int64", nullable=False)
    tree.bulk_insert(np.arange(n) * 1000, np.ones(n, np.int64))
    calls.reset()
    return tree, calls


def levels(d: float, min_arity: int) -> float:
    """Levels of a tree that are touched at distance d."""
    return math.log(max(d, 1), min_arity) + 2


@pytest.mark.parametrize("min_arity", ARITIES)
def test_in_order_is_constant(min_arity: int) -> None:
    """At d = 0 a round is O(1), whatever the window: a leaf's worth of ⊕, and now and then a split."""
    costs = []
    for n in (N // 8, N):
        tree, calls = filled(FiBA, min_arity, n)
        visits, rounds = tree.counts["visits"], 200
        for k in range(rounds):
            tree.evict(k * 1000)
            tree.insert((n + k) * 1000, 1)
        costs.append(calls.combine / rounds)
        assert calls.combine / rounds <= 8 * min_arity
        assert (tree.counts["visits"] - visits) / rounds <= 6
    assert costs[1] <= 1.3 * costs[0] + 2


@pytest.mark.parametrize("min_arity", ARITIES)
def test_out_of_order_is_logarithmic_in_the_distance(min_arity: int) -> None:
    tree, calls = filled(FiBA, min_arity)
    random = Random(3)
    for d in (1, 4, 16, 64, 256, 1024):
        inserts = 40
        calls.reset()
        visits = tree.counts["visits"]
        for _ in range(inserts):
            tree.insert(int((N - d) * 1000 + random.randrange(1, 999)), 1)
        bound = levels(d + inserts, min_arity)
        assert (tree.counts["visits"] - visits) / inserts <= 2 * bound + 2, d
        assert calls.combine / inserts <= 5 * min_arity * (bound + 1), d


def test_fingers_are_what_makes_it_so() -> None:
    """The classic tree repairs up to its root wherever an event falls."""
    fiba, few = filled(FiBA, 4)
    classic, many = filled(ClassicBTree, 4)
    for k in range(100):
        for tree in (fiba, classic):
            tree.insert((N + k) * 1000, 1)
    assert 2 * few.combine < many.combine
    assert fiba.height == classic.height


@pytest.mark.parametrize("store", [FiBA, ClassicBTree])
def test_a_query_takes_two(store: type[BTree]) -> None:
    tree, calls = filled(store, 4)
    visits = tree.counts["visits"]
    assert tree.query() == N
    assert calls.combine == (2 if store is FiBA else 0)
    assert tree.counts["visits"] == visits


@pytest.mark.parametrize("min_arity", ARITIES)
def test_range_queries(min_arity: int) -> None:
    """O(log d_from + log d_to + log n_sub) visits, and 2 · max arity ⊕ a level."""
    tree, calls = filled(FiBA, min_arity)
    for first in (0, 1, 7, 100, N // 2, N - 200, N - 9):
        for length in (1, 2, 17, 150, 1000, N):
            last = min(N, first + length)
            calls.reset()
            visits = tree.counts["visits"]
            assert tree.query(first * 1000, last * 1000) == last - first
            d_from, d_to = min(first, N - first), min(last, N - last)
            bound = sum(levels(d, min_arity) for d in (d_from, d_to, last - first))
            assert tree.counts["visits"] - visits <= 4 * bound + 4
            assert calls.combine <= 8 * min_arity * bound


@pytest.mark.parametrize("min_arity", ARITIES)
@pytest.mark.parametrize("seed", range(4))
def test_lemma_9(min_arity: int, seed: int) -> None:
    """From an empty tree, splits, merges and moves are at most two an insert or evict, whatever comes."""
    random = Random(seed)
    tree = FiBA(agg.sum(), min_arity=min_arity, dtype="int64", nullable=False)
    held: list[int] = []
    operations = 0
    for _ in range(1500):
        grows = random.random() < (0.7 if operations // 400 % 2 == 0 else 0.3)
        if grows or not held:
            t = random.randrange(10**6)
            tree.insert(t, 1)
            held.append(t)
        else:
            tree.evict(held.pop(random.randrange(len(held))))
        operations += 1
    counts = tree.counts
    assert counts["splits"] + counts["merges"] + counts["moves"] <= 2 * operations
    tree.check_invariants()


def test_a_bulk_change_repairs_each_node_once() -> None:
    tree, calls = filled(FiBA, 4)
    before = tree.counts["repairs"]
    tree.bulk_insert(np.arange(1, N) * 1000 - 500, np.ones(N - 1, np.int64))
    repaired = tree.counts["repairs"] - before
    nodes = int(tree._head[7]) + 1
    assert repaired <= nodes
    assert calls.combine <= 2 * (2 * N + nodes)
    calls.reset()
    before = tree.counts["repairs"]
    assert tree.bulk_evict(up_to=(N - 100) * 1000) > 1.9 * (N - 100)
    assert tree.counts["repairs"] - before <= 8 * (tree.height + 4)
    tree.check_invariants()


@pytest.mark.parametrize("d", [0, 16, 256, 2048])
def test_a_stream_at_one_distance_is_constant(d: int) -> None:
    """Events next to each other form one run: a few ⊕ each, whatever the distance, and what a chunk costs."""
    tree, calls = filled(FiBA, 8)
    events = 2048
    times = (N - d) * 1000 + 1 + np.arange(events) if d else N * 1000 + np.arange(events)
    tree.stream(times[:1024], np.ones(1024, np.int64), window=N)
    calls.reset()
    tree.stream(times[1024:], np.ones(1024, np.int64), window=N)
    assert calls.combine / 1024 <= 8
    tree.check_invariants()


def test_a_stream_in_disorder_is_logarithmic_in_its_chunk() -> None:
    tree, calls = filled(FiBA, 8)
    random = np.random.default_rng(5)
    times = N * 1000 - random.integers(0, 2_000_000, 1024)
    tree.stream(times, np.ones(1024, np.int64), window=N)
    assert calls.combine / 1024 <= 60
    tree.check_invariants()


def test_memory_is_used_again() -> None:
    tree: Any = FiBA(agg.sum(), min_arity=4, capacity=1024)
    tree.bulk_insert(np.arange(1000), np.arange(1000))
    used, rows = tree.nbytes, int(tree._head[7])
    for k in range(50):
        tree.bulk_insert(np.arange(1000 + 20 * k, 1020 + 20 * k), np.arange(20))
        tree.bulk_evict(up_to=20 * (k + 1))
    assert tree.nbytes == used and int(tree._head[7]) <= rows * 1.5
    tree = FiBA(agg.sum())
    tree.bulk_insert(np.arange(100_000), np.arange(100_000))
    used, height = tree.nbytes, tree.height
    tree.bulk_evict(up_to=99_990)
    assert tree.nbytes < used / 50 and tree.height < height and tree.query() == sum(range(99_990, 100_000))
