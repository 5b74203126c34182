"""Sums that leave 64 bits: against Python's integers, in every store, with snapshots and narrower partials before."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass import agg
from windlass.errors import Overflow
from windlass.stores import (
    DABA,
    BInt,
    ClassicBTree,
    FiBA,
    FlatFAT,
    FlatFIT,
    Recompute,
    SlickDeque,
    SlickDequeInv,
    Store,
    SubtractOnEvict,
    TwoStacks,
)

IN_ORDER: list[Any] = [Recompute, FlatFAT, BInt, FlatFIT, TwoStacks, DABA, SubtractOnEvict, SlickDeque]
MANY_RANGES: list[Any] = [Recompute, FlatFAT, BInt, FlatFIT, SlickDequeInv]
TOP = 2**63 - 1
SIGNED = st.sampled_from([TOP, -TOP - 1, 2**62, -(2**62), 1, -1, 0, 5]) | st.integers(-(2**63), TOP)
UNSIGNED = st.sampled_from([2**64 - 1, 2**63, 1, 0]) | st.integers(0, 2**64 - 1)
RANGE = {"int64": (-(2**63), TOP), "uint64": (0, 2**64 - 1)}


def expected(values: list[Any], dtype: str) -> Any:
    """The sum of these values; null where there is none, or none that fits."""
    some = [v for v in values if v is not None]
    low, high = RANGE[dtype]
    return sum(some) if some and low <= sum(some) <= high else None


def windows(values: list[Any], size: int, dtype: str) -> list[Any]:
    return [expected(values[max(0, i + 1 - size) : i + 1], dtype) for i in range(len(values))]


def listed(answers: Any) -> list[Any]:
    found = answers.to_pylist() if isinstance(answers, pa.Array) else pa.array(answers, from_pandas=True).to_pylist()
    return [None if v is None else int(v) for v in found]


@pytest.mark.parametrize("store", IN_ORDER)
@pytest.mark.parametrize(("dtype", "numbers"), [("int64", SIGNED), ("uint64", UNSIGNED)])
@pytest.mark.parametrize("nullable", [False, True])
@given(data=st.data(), size=st.integers(1, 5))
def test_a_window_slides_over_sums_that_do_not_fit(
    store: type[Store], dtype: str, numbers: Any, nullable: bool, data: Any, size: int
) -> None:
    values = data.draw(st.lists(numbers | st.none() if nullable else numbers, min_size=1, max_size=24))
    cut = data.draw(st.integers(0, len(values)))
    small = data.draw(st.lists(st.integers(0, 9), max_size=6))  # the first partials have one field
    stream = pa.array([*small, *values], dtype)
    s = store(agg.sum(on_overflow="null"), dtype=dtype, nullable=nullable)
    answers = s.slide(stream[: len(small)], size)
    found = listed(answers) + listed(s.slide(stream[len(small) : len(small) + cut], size))
    s = store(agg.sum(on_overflow="null"), dtype=dtype, nullable=nullable).restore(s.snapshot())
    s = copy.copy(s)
    found += listed(s.slide(stream[len(small) + cut :], size))
    assert found == windows([*small, *values], size, dtype)
    s.check_invariants()


@pytest.mark.parametrize("store", MANY_RANGES)
@given(values=st.lists(SIGNED, min_size=1, max_size=24))
def test_many_ranges(store: type[Any], values: list[int]) -> None:
    s = store(agg.sum(on_overflow="null"), dtype="int64")
    found = s.slide(pa.array(values, pa.int64()), windows=[4, 2])
    for name, size in (("4", 4), ("2", 2)):
        assert listed(found.column(name)) == windows(values, size, "int64")


@pytest.mark.parametrize("store", IN_ORDER)
@given(values=st.lists(SIGNED, min_size=1, max_size=12), data=st.data())
def test_one_event_at_a_time(store: type[Store], values: list[int], data: Any) -> None:
    s, held = store(agg.sum(on_overflow="null"), dtype="int64"), []
    for value in values:
        s.insert(value)
        held.append(value)
        if data.draw(st.booleans()):
            s.evict()
            held.pop(0)
        assert s.query() == expected(held, "int64")


@pytest.mark.parametrize("store", [FiBA, ClassicBTree])
@given(data=st.data())
def test_a_tree_by_time(store: type[Any], data: Any) -> None:
    tree, held = store(agg.sum(on_overflow="null"), min_arity=2, dtype="int64"), dict[int, int]()
    for _ in range(data.draw(st.integers(1, 12))):
        times = data.draw(st.lists(st.integers(0, 20), min_size=1, max_size=5))
        values = data.draw(st.lists(SIGNED, min_size=len(times), max_size=len(times)))
        tree.bulk_insert(np.array(times), np.array(values, np.int64))
        for t, v in zip(times, values, strict=True):
            held[t] = held.get(t, 0) + v
        if data.draw(st.booleans()):
            oldest = data.draw(st.integers(0, 10))
            tree.bulk_evict(oldest)
            held = {t: v for t, v in held.items() if t >= oldest}
        if data.draw(st.booleans()):
            tree = store(agg.sum(on_overflow="null"), min_arity=2, dtype="int64").restore(tree.snapshot())
        tree.check_invariants()
        assert tree.query() == expected(list(held.values()), "int64")
        assert tree.query(3, 12) == expected([v for t, v in held.items() if 3 <= t < 12], "int64")


@given(values=st.lists(SIGNED, min_size=1, max_size=20), small=st.integers(0, 10))
def test_a_stream_through_a_tree(values: list[int], small: int) -> None:
    tree, everything = FiBA(agg.sum(on_overflow="null"), dtype="int64"), [1] * small + values
    parts = [pa.array([1] * small, pa.int64()), pa.array(values, pa.int64())]
    found = listed(tree.stream(np.arange(small), parts[0], 3))
    found += listed(tree.stream(small + np.arange(len(values)), parts[1], 3))
    assert found == windows(everything, 3, "int64")


@pytest.mark.parametrize("store", [*IN_ORDER, FiBA])
def test_a_sum_that_does_not_fit_is_refused_and_the_window_goes_on(store: type[Any]) -> None:
    s = store(agg.sum("x"), dtype="int64")

    def insert(i: int, value: int) -> None:
        s.insert(i, value) if store is FiBA else s.insert(value)

    insert(0, 2**62)
    insert(1, 2**62)
    with pytest.raises(Overflow, match=r"sum\(x\) by .*: the sum is 9223372036854775808, which int64 cannot hold"):
        s.query()
    insert(2, -1)
    assert s.query() == TOP
    assert s.mode == "compiled"


@pytest.mark.parametrize("store", IN_ORDER)
def test_small_values_keep_partials_of_one_field(store: type[Store]) -> None:
    wide, narrow = store(agg.sum(), dtype="int64"), store(agg.sum(on_overflow="wrap"), dtype="int64")
    for s in (wide, narrow):
        s.slide(np.full(5000, 2**40), 1000)
    assert wide.nbytes == narrow.nbytes
    wide.slide(np.full(10, 2**54), 1000)
    assert wide.nbytes > narrow.nbytes


@pytest.mark.parametrize("store", [Recompute, SubtractOnEvict, TwoStacks])
def test_a_snapshot_of_partials_of_one_field_can_be_read(store: type[Store]) -> None:
    """As they all were before there was a second one."""
    before = store(agg.sum(), dtype="int64")
    before.insert_many(np.array([2**60, 2**60]))
    after = store(agg.sum(), dtype="int64").restore(before.snapshot())
    assert after.query() == 2**61
    after.insert_many(np.full(6, 2**60))
    with pytest.raises(Overflow):
        after.query()


@given(values=st.lists(SIGNED, min_size=1, max_size=12))
def test_interpreted_sums_are_the_same(values: list[int]) -> None:
    for store in (TwoStacks, SubtractOnEvict):
        counted, calls = agg.counted(agg.sum(on_overflow="null"))
        found = store(counted, dtype="int64").slide(pa.array(values, pa.int64()), 3)
        assert listed(found) == windows(values, 3, "int64")
        assert calls.total > 0 or len(values) == 1


@pytest.mark.parametrize("technique", [TwoStacks, DABA, FlatFAT, SubtractOnEvict])
def test_a_slide_over_sums_that_do_not_fit_changes_nothing(technique: Any) -> None:
    store = technique(agg.sum(), dtype="int64")
    store.insert_many([5, 7])
    for _ in range(2):
        with pytest.raises(Overflow):
            store.slide(np.array([2**62, 2**62]), 3)
        assert (len(store), store.query()) == (2, 12)
    assert store.slide(np.array([1, 2]), 3).tolist() == [13, 10]


def test_a_stream_over_sums_that_do_not_fit_changes_nothing() -> None:
    store = FiBA(agg.sum(), dtype="int64")
    store.bulk_insert([1, 2], [5, 7])
    for _ in range(2):
        with pytest.raises(Overflow):
            store.stream([3, 4], np.array([2**62, 2**62]), window=3)
        assert (store.times().tolist(), store.query()) == ([1, 2], 12)
    assert store.stream([3], np.array([1]), window=3).tolist() == [13]
