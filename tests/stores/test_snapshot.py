"""Snapshots of stores: what comes back, and what is refused. `tests/golden` has those of all versions."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from windlass import agg
from windlass.errors import CorruptSnapshot, WrongType
from windlass.formats.container import open_container, seal_container
from windlass.stores import (
    DABA,
    BInt,
    FlatFAT,
    FlatFIT,
    Recompute,
    SlickDeque,
    SlickDequeInv,
    SlickDequeNonInv,
    SubtractOnEvict,
    TwoStacks,
)

VALUES = [3, 9, -4, 7, 7, 1, 12, -8, 5, 2]

# name: (technique, aggregate, the answer over the last 6 of VALUES, and after inserting 20 and evicting one)
CASES: dict[str, tuple[Any, Any, Any, Any]] = {
    "recompute_sum": (Recompute, agg.sum(), 19, 32),
    "subtract_on_evict_avg": (SubtractOnEvict, agg.avg(), 19 / 6, 32 / 6),
    "flatfat_max": (FlatFAT, agg.max(), 12, 20),
    "bint_min": (BInt, agg.min(), -8, -8),
    "flatfit_first": (FlatFIT, agg.first(), 7, 1),
    "two_stacks_collect_list": (TwoStacks, agg.collect_list(), [7, 1, 12, -8, 5, 2], [1, 12, -8, 5, 2, 20]),
    "daba_variance": (DABA, agg.var_pop(), np.var([7, 1, 12, -8, 5, 2]), np.var([1, 12, -8, 5, 2, 20])),
    "slick_deque_inv_sum": (SlickDequeInv, agg.sum(), 19, 32),
    "slick_deque_non_inv_max": (SlickDequeNonInv, agg.max(), 12, 20),
    "two_stacks_median": (TwoStacks, agg.median(), 3.5, 3.5),
}


def filled(technique: Any, aggregate: Any) -> Any:
    store = technique(aggregate)
    for value in VALUES:
        if len(store) == 6:
            store.evict()
        store.insert(value)
    return store


@pytest.mark.parametrize("name", CASES)
def test_a_snapshot_says_the_same_as_the_store_it_is_of(name: str) -> None:
    technique, aggregate, _, _ = CASES[name]
    store = filled(technique, aggregate)
    data = store.snapshot()
    copy = technique(aggregate).restore(data)
    assert copy.snapshot() == data
    for other in (store, copy):
        other.evict(2)
        other.insert_many([4, 4])
    assert store.query() == pytest.approx(copy.query())


def test_ranges_are_part_of_the_snapshot() -> None:
    store = SlickDeque(agg.sum(), windows=[2, 5])
    store.slide(np.array(VALUES), windows=[2, 5])
    copy = SlickDeque(agg.sum()).restore(store.snapshot())
    assert copy.query_many([2, 5]) == [7, 12]


def test_any_flipped_bit_is_noticed() -> None:
    store = filled(TwoStacks, agg.max())
    data = store.snapshot()
    for i in range(len(data)):
        damaged = bytearray(data)
        damaged[i] ^= 0x10
        with pytest.raises(CorruptSnapshot):
            store.restore(bytes(damaged))
    assert store.snapshot() == data


@pytest.mark.parametrize("length", [0, 1, 8, 20, 60, -17, -1])
def test_a_part_of_a_snapshot_is_refused(length: int) -> None:
    store = filled(DABA, agg.sum())
    data = store.snapshot()
    with pytest.raises(CorruptSnapshot):
        store.restore(data[:length])
    with pytest.raises(CorruptSnapshot):
        store.restore(data + b"more")
    assert store.query() == 19


@pytest.mark.parametrize("other", [TwoStacks(agg.min()), DABA(agg.max()), TwoStacks(agg.max("x"))], ids=repr)
def test_a_snapshot_of_something_else_is_refused(other: Any) -> None:
    with pytest.raises(CorruptSnapshot, match="not of a"):
        other.restore(filled(TwoStacks, agg.max()).snapshot())


def forged(data: bytes, **changes: Any) -> bytes:
    """A snapshot whose content was changed by someone who knows how to seal it again."""
    _, version, _, content, parts = open_container(data)
    for name, value in changes.items():
        of = content["state"] if name in content["state"] else content
        of[name] = value
    return seal_container("store", changes.get("version", version), content, parts)


IMPOSSIBLE = {
    TwoStacks: [[0, 6, 7], [0, 6, -1], [0, 7, 2], [0, -1, 0], [0, 6], [0, 6, 1, 1]],
    DABA: [[0, 6, 7, 0, 0], [0, 6, 0, 1, 0], [0, 6, 2, 3, 0], [0, 6, 1, 0, -1]],
    SlickDequeNonInv: [[0, 6, 7, 10], [0, 1, 2, 10], [0, 6, 2, 99], [0, 6, 0, 10]],
    Recompute: [[0, 5], [0, 1 << 62]],
}


@pytest.mark.parametrize(("technique", "header"), [(t, h) for t, headers in IMPOSSIBLE.items() for h in headers])
def test_impossible_states_are_refused(technique: Any, header: list[int]) -> None:
    """Compiled kernels trust positions, so none may point outside of an array, whoever wrote the snapshot."""
    store = filled(technique, agg.max())
    before = store.snapshot()
    with pytest.raises(CorruptSnapshot):
        store.restore(forged(before, header=header))
    assert store.snapshot() == before


def test_pointers_that_lead_nowhere_are_refused() -> None:
    store = filled(FlatFIT, agg.max())
    record, version, _, content, parts = open_container(store.snapshot())
    for bad in (0, -1, 7, 1 << 40):
        links = np.frombuffer(parts[1], np.int64).copy()
        links[0] = bad  # the oldest event's pointer
        with pytest.raises(CorruptSnapshot):
            store.restore(seal_container(record, version, content, [parts[0], links.tobytes(), *parts[2:]]))


@pytest.mark.parametrize(
    "changes",
    [
        {"fields": [{"name": "other", "dtype": "int64", "shape": []}]},
        {"fields": []},
        {"types": 2},
        {"live": []},
        {"live": [["<i8", [6]], ["|b1", [5]]]},
        {"live": [["<i8", [1 << 40]], ["|b1", [1 << 40]]]},
        {"live": [["<i8", [[1 << 40], 0, 6]], ["|b1", [6]]]},
        {"running": [["object", [1]], ["|b1", [1]]]},
        {"links": [1]},
        {"options": {"windows": [0]}},
        {"options": {"colour": 3}},
        {"layout": 99},
        {"version": 99},
        {"header": "six"},
        {"header": [True, 6]},
        {"colour": 3},
    ],
    ids=str,
)
def test_heads_that_do_not_fit_are_refused(changes: dict[str, Any]) -> None:
    technique = SlickDequeInv if "options" in changes else TwoStacks
    aggregate = agg.sum() if "options" in changes else agg.max()
    store = filled(technique, aggregate)
    before = store.snapshot()
    with pytest.raises(CorruptSnapshot):
        store.restore(forged(before, **changes))
    assert store.snapshot() == before


def test_restore_replaces_everything() -> None:
    store = TwoStacks(agg.sum())
    store.insert(1)
    store.restore(TwoStacks(agg.sum()).snapshot())
    assert (len(store), store.query()) == (0, None)

    ranges = SlickDeque(agg.sum(), windows=[2, 3])
    single = SlickDeque(agg.sum())
    single.insert_many([1, 2, 3])
    ranges.restore(single.snapshot())
    assert ranges.query() == 6


def test_ranges_of_a_store_without_values_are_kept() -> None:
    store = SlickDeque(agg.sum()).restore(SlickDeque(agg.sum(), windows=[2, 3]).snapshot())
    store.insert_many([1, 2, 3])
    assert store.query_many([2, 3]) == [5, 6]


def test_what_the_constructor_said_is_kept() -> None:
    snapshot = filled(TwoStacks, agg.max()).snapshot()
    with pytest.raises(CorruptSnapshot, match="another dtype"):
        TwoStacks(agg.max(), dtype="float64").restore(snapshot)
    roomy = TwoStacks(agg.max(), capacity=100, nullable=True).restore(snapshot)
    roomy.evict(6)
    roomy.slide(np.array([1, 2]), window=2)
    roomy.insert(None)
    assert roomy.query() == 2


def test_other_functions_under_the_same_name_are_refused() -> None:
    def named(combine: Any) -> Any:
        return agg.define("extreme", lift=lambda x: x, combine=combine, compile=False)

    snapshot = filled(TwoStacks, named(lambda a, b: max(a, b))()).snapshot()
    with pytest.raises(CorruptSnapshot, match="functions"):
        TwoStacks(named(lambda a, b: min(a, b))()).restore(snapshot)
    assert TwoStacks(named(lambda a, b: max(a, b))()).restore(snapshot).query() == 12


@pytest.mark.parametrize("nothing", [None, "text", 7])
def test_what_is_not_bytes_is_refused(nothing: Any) -> None:
    with pytest.raises(WrongType, match="bytes"):
        TwoStacks(agg.max()).restore(nothing)


def test_copies_are_independent() -> None:
    store = filled(DABA, agg.sum())
    for twin in (copy.copy(store), copy.deepcopy(store), pickle.loads(pickle.dumps(store))):
        assert twin.query() == 19
        twin.evict()
        twin.insert(100)
    assert (len(store), store.query()) == (6, 19)
