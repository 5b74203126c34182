"""What is refused, and that nothing has changed then; snapshots, damaged and whole; functions that raise halfway."""

from __future__ import annotations

import copy
import datetime
import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from windlass import aggregates as agg
from windlass.errors import CorruptSnapshot, InvalidArgument, WrongType
from windlass.stores import ClassicBTree, FiBA

STORES = [FiBA, ClassicBTree]


def some(store: Any = FiBA) -> Any:
    tree = store(agg.sum(), min_arity=2)
    tree.bulk_insert(np.arange(40), np.arange(40))
    return tree


@pytest.mark.parametrize("arity", [1, 0, -3, 65, 2.0, "4", True])
def test_arity(arity: Any) -> None:
    with pytest.raises(InvalidArgument, match="min_arity"):
        FiBA(agg.sum(), min_arity=arity)


def test_times() -> None:
    tree = some()
    for wrong, error in (
        (1.5, WrongType),
        ("x", WrongType),
        (None, WrongType),
        (True, WrongType),
        (2**63, InvalidArgument),
    ):
        with pytest.raises(error):
            tree.insert(wrong, 1)
    with pytest.raises(InvalidArgument, match="time 1 is null"):
        tree.bulk_insert([3, None], [1, 2])
    with pytest.raises(WrongType):
        tree.bulk_insert(np.array([0.5]), [1])
    with pytest.raises(InvalidArgument, match="got 2 times and 3 values"):
        tree.bulk_insert([1, 2], [1, 2, 3])
    with pytest.raises(InvalidArgument, match="got 1 times and 2 values"):
        tree.stream([1], [1, 2], window=3)
    assert tree.query() == sum(range(40)) and len(tree) == 40
    tree.check_invariants()


def test_stream_options() -> None:
    tree = some()
    for options in (
        {},
        {"window": 3, "span": 3},
        {"window": 0},
        {"span": 0},
        {"span": "a while"},
        {"span": 3, "last": [4]},
    ):
        with pytest.raises(InvalidArgument):
            tree.stream([1], [1], **options)
    assert len(tree) == 40


def test_extreme_times() -> None:
    least, greatest = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    tree = FiBA(agg.collect_list(), min_arity=2)
    for t in (0, greatest, least, 5):
        tree.insert(int(t), int(t) % 7)
    assert list(tree) == [least, 0, 5, greatest]
    assert len(tree.query()) == 4 and tree.query(int(least), 0) == [int(least) % 7]
    assert tree.query(5) == [5, int(greatest) % 7] and tree.query(None, int(least)) in (None, [])
    assert tree.bulk_evict(int(least)) == 0 and tree.evict(int(least)) and tree.bulk_evict(int(greatest)) == 2
    spanned = FiBA(agg.sum())
    assert spanned.stream([int(least), int(least) + 1, int(greatest)], [1, 2, 4], span=10).tolist() == [1, 3, 4]
    spanned.check_invariants()


def test_dates_and_timestamps_are_microseconds() -> None:
    tree = FiBA(agg.count(), dtype=())
    tree.insert(datetime.date(1970, 1, 2), 0)
    tree.insert(datetime.datetime(1970, 1, 1, 0, 0, 1), 0)
    tree.insert(np.datetime64("1970-01-01T00:00:00.000001500", "ns"), 0)
    assert list(tree) == [1, 1_000_000, 86_400_000_000]


def test_questions_of_an_empty_tree() -> None:
    for tree in (FiBA(agg.sum()), FiBA(agg.sum(), dtype="int64")):
        assert tree.query() is None and tree.query(1, 5) is None and not tree.evict(3) and tree.bulk_evict(9) == 0
        assert tree.oldest() is None and tree.youngest() is None and 3 not in tree and len(tree) == 0
    tree = some()
    assert tree.query(10, 10) is None and tree.query(20, 10) is None and tree.query(100, 200) is None
    assert 7 in tree and 70 not in tree
    assert tree.bulk_evict(1000) == 40 and tree.query() is None and tree.height == 0
    tree.check_invariants()


@pytest.mark.parametrize("store", STORES)
def test_snapshot(store: Any) -> None:
    tree = some(store)
    tree.evict(7)
    data = tree.snapshot()
    restored = store(agg.sum()).restore(data)
    assert restored.min_arity == 2 and list(restored) == list(tree) and restored.query(3, 20) == tree.query(3, 20)
    restored.check_invariants()
    restored.insert(7, 100)
    assert 7 not in tree
    for twin in (copy.copy(tree), pickle.loads(pickle.dumps(tree))):
        twin.insert(7, 1)
        twin.check_invariants()
        assert twin.query() == tree.query() + 1
    for k in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[k] ^= 0x41
        with pytest.raises(CorruptSnapshot):
            store(agg.sum()).restore(bytes(damaged))
    for end in (0, 10, len(data) // 2, len(data) - 1):
        with pytest.raises(CorruptSnapshot):
            store(agg.sum()).restore(data[:end])
    other = FiBA if store is ClassicBTree else ClassicBTree
    with pytest.raises(CorruptSnapshot):
        other(agg.sum()).restore(data)


def test_a_snapshot_with_times_out_of_order_is_refused() -> None:
    tree = some()
    columns, times = tree.live()
    tree.live = lambda: (columns, times[::-1].copy())
    with pytest.raises(CorruptSnapshot, match="do not ascend"):
        FiBA(agg.sum()).restore(tree.snapshot())


def test_an_exception_in_the_middle_changes_nothing() -> None:
    def combine(a: int, b: int) -> int:
        if 13 in (a, b):
            raise RuntimeError("unlucky")
        return a + b

    touchy = agg.define("touchy", lift=lambda v: v, combine=combine, identity=0, compile=False)
    tree = FiBA(touchy(), min_arity=2, dtype="int64", nullable=False)
    tree.bulk_insert(np.arange(30), np.full(30, 100))
    before = tree.query(), list(tree), tree.height
    for act in (
        lambda: tree.insert(4, 13),
        lambda: tree.insert(1000, 13),
        lambda: tree.bulk_insert([3, 77], [1, 13]),
        lambda: tree.stream([90, 91], [1, 13], window=20),
    ):
        with pytest.raises(RuntimeError, match="unlucky"):
            act()
        tree.check_invariants()
        assert (tree.query(), list(tree), tree.height) == before
    assert tree.evict(3) and tree.query() == 2900
    tree.check_invariants()


def test_nulls_and_columns() -> None:
    tree = FiBA(agg.avg("price", weight="volume"), nullable=True)
    tree.bulk_insert([1, 2, 3], pa.table({"price": [1.0, None, 3.0], "volume": [1, 5, 3]}))
    assert tree.query() == 2.5
    tree.insert(4, None, 2)
    assert tree.query() == 2.5 and len(tree) == 4
