"""What every technique costs, counted and not timed: MQO Table 2, and the bounds of the stores' own cards.

A round is evict, insert, query on a full window of n events. ⊕ stands for combine, inverse and selects together. The
bulk form of a technique must do exactly what the single form does: the same calls, the same answers, the same state
left behind.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stores.matrix import FORMS, Form, interpreted

from windlass import aggregates as agg
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.counting import counted
from windlass.stores import (
    DABA,
    BInt,
    FlatFAT,
    FlatFIT,
    Recompute,
    SlickDequeInv,
    SlickDequeNonInv,
    SubtractOnEvict,
    TwoStacks,
)
from windlass.stores.store import Store

SIZES = (1, 2, 3, 7, 16, 64, 100, 257)
POWERS = (1, 2, 4, 16, 64, 256)

INPUTS: dict[str, Callable[[int], list[int]]] = {
    "random": lambda n: Random(11).choices(range(1000), k=n),
    "increasing": lambda n: list(range(n)),
    "decreasing": lambda n: list(range(n, 0, -1)),
    "constant": lambda n: [5] * n,
    "sawtooth": lambda n: [(i * 7) % 10 for i in range(n)],
}


def log2(n: int) -> int:
    """Levels of a tree over n leaves, rounded up to a power of two."""
    return (n - 1).bit_length() if n > 1 else 0


def rounds(store: type[Store], aggregate: Aggregate, n: int, values: list[int], **options: Any) -> list[int]:
    """⊕ calls of each round on a full window of n."""
    counting, calls = counted(aggregate)
    s = store(counting, dtype="int64", nullable=False, capacity=n, **options)
    s.insert_many(np.array(values[:n], np.int64))
    s.query()
    counts = []
    for value in values[n:]:
        calls.reset()
        s.evict()
        s.insert(value)
        s.query()
        counts.append(calls.total)
    return counts


def long_run(n: int, shape: str) -> list[int]:
    return INPUTS[shape](n + 4 * n + 40)


every_input = pytest.mark.parametrize("shape", INPUTS)
every_size = pytest.mark.parametrize("n", SIZES)


# --------------------------------------------------------------------------- one query


@every_size
@every_input
def test_recompute_folds_the_window(n: int, shape: str) -> None:
    assert set(rounds(Recompute, agg.sum(), n, long_run(n, shape))) == {n - 1}


@every_size
@every_input
@pytest.mark.parametrize("store", [SubtractOnEvict, SlickDequeInv])
def test_subtracting_is_two_operations_always(store: type[Store], n: int, shape: str) -> None:
    counts = rounds(store, agg.sum(), n, long_run(n, shape))
    assert set(counts) == ({2} if n > 1 else {0})  # a window of one is replaced, not updated


@pytest.mark.parametrize("n", POWERS)
@every_input
def test_flatfat_repairs_one_path(n: int, shape: str) -> None:
    """n a power of two and a commutative aggregate: the root answers."""
    assert set(rounds(FlatFAT, agg.max(), n, long_run(n, shape))) == {log2(n)}


@every_size
@pytest.mark.parametrize("aggregate", [agg.sum(), agg.first()], ids=repr)
def test_flatfat_of_any_size_and_order(n: int, aggregate: Aggregate) -> None:
    """A path for the insert; beside it at most 2·log2(n) nodes for the answer."""
    counts = rounds(FlatFAT, aggregate, n, long_run(n, "random"))
    assert max(counts) <= log2(n) + 2 * log2(n)
    if n == 1 << log2(n):
        assert max(counts) <= 2 * log2(n)


@every_size
@pytest.mark.parametrize("aggregate", [agg.sum(), agg.first()], ids=repr)
def test_bint_inserts_once_and_covers_by_few_intervals(n: int, aggregate: Aggregate) -> None:
    """Insert: amortised 1, worst log2(leaves). Query: at most 2·log2(n) - 1."""
    counting, calls = counted(aggregate)
    s = BInt(counting, dtype="int64", nullable=False, capacity=n)
    values = long_run(n, "random")
    s.insert_many(np.array(values[:n], np.int64))
    inserts, queries = [], []
    for value in values[n:]:
        calls.reset()
        s.evict()
        assert calls.total == 0
        s.insert(value)
        inserts.append(calls.total)
        s.query()
        queries.append(calls.total - inserts[-1])
    assert max(inserts) <= log2(n)
    assert sum(inserts) <= len(inserts) + log2(n)
    assert max(queries) <= max(0, 2 * math.log2(n) - 1)


@every_size
@every_input
def test_flatfit_is_amortised_three(n: int, shape: str) -> None:
    counts = rounds(FlatFIT, agg.max(), n, long_run(n, shape))
    assert sum(counts) <= 3 * len(counts)
    assert max(counts) <= max(0, n - 1)


@every_size
@every_input
def test_twostacks_is_amortised_three_and_worst_n(n: int, shape: str) -> None:
    counts = rounds(TwoStacks, agg.max(), n, long_run(n, shape)[: 5 * n])
    assert sum(counts) <= 3 * len(counts)  # whole cycles from flip to flip
    assert max(counts) == (n if n > 1 else 0)  # the round that flips: n - 1 for the flip, 1 for the answer


@every_size
@every_input
def test_daba_is_never_long(n: int, shape: str) -> None:
    """Table 2: amortised 5, worst 8. The card claims 6."""
    counts = rounds(DABA, agg.max(), n, long_run(n, shape))
    assert sum(counts) <= 5 * len(counts)
    assert max(counts) <= 6


@given(st.lists(st.integers(-2, 40), max_size=150))
def test_daba_is_constant_for_any_mix_of_operations(steps: list[int]) -> None:
    """Each insert at most 3, each evict at most 2, each query at most 1, however the window grows and shrinks."""
    counting, calls = counted(agg.collect_list())
    s = DABA(counting, dtype="int64", nullable=False)
    window: list[int] = []
    for step in steps:
        calls.reset()
        if step < 0 and window:
            s.evict()
            window.pop(0)
            assert calls.total <= 2
        else:
            s.insert(step)
            window.append(step)
            assert calls.total <= 3
        calls.reset()
        assert s.query() == window
        assert calls.total <= 1


@every_size
@every_input
@pytest.mark.parametrize("aggregate", [agg.max(), agg.min(), agg.last()], ids=repr)
def test_slickdeque_noninv_is_amortised_below_two(aggregate: Aggregate, n: int, shape: str) -> None:
    """Counted from the first event: every event is compared once when it comes and loses at most once."""
    counting, calls = counted(aggregate)
    s = SlickDequeNonInv(counting, dtype="int64", nullable=False)
    values, worst = long_run(n, shape), 0
    for i, value in enumerate(values):
        before = calls.total
        if i >= n:
            s.evict()
        s.insert(value)
        s.query()
        worst = max(worst, calls.total - before)
    assert calls.combine == 0
    assert calls.total < 2 * len(values)
    assert worst <= n


@pytest.mark.parametrize("n", SIZES)
def test_slickdeque_noninv_worst_round(n: int) -> None:
    """A full window of losers, then a winner: all but the expired one are compared, n - 1."""
    counts = rounds(SlickDequeNonInv, agg.max(), n, [*range(n, 0, -1), n + 1])
    assert counts == [n - 1]


# --------------------------------------------------------------------------- all ranges 1 … n at each slide


def multi_rounds(store: type[Store], aggregate: Aggregate, n: int, ranges: list[int], **options: Any) -> list[int]:
    counting, calls = counted(aggregate)
    s = store(counting, dtype="int64", nullable=False, capacity=n, **options)
    values = long_run(n, "random")[: 3 * n + 20]
    s.insert_many(np.array(values[:n], np.int64))
    s.query_many(ranges)
    counts = []
    for value in values[n:]:
        calls.reset()
        s.evict()
        s.insert(value)
        s.query_many(ranges)
        counts.append(calls.total)
    return counts


MULTI = (1, 2, 3, 16, 33, 64)


@pytest.mark.parametrize("n", MULTI)
def test_recompute_all_ranges(n: int) -> None:
    """Table 2: n². Exactly: the ranges' lengths less one each."""
    assert set(multi_rounds(Recompute, agg.max(), n, list(range(1, n + 1)))) == {n * (n - 1) // 2}


@pytest.mark.parametrize("n", MULTI)
@pytest.mark.parametrize("store", [FlatFAT, BInt])
def test_trees_all_ranges(store: type[Store], n: int) -> None:
    """Table 2: n·log2(n), beside the insert."""
    counts = multi_rounds(store, agg.max(), n, list(range(1, n + 1)))
    assert max(counts) <= n * max(1, log2(n)) + log2(n)


@pytest.mark.parametrize("n", MULTI)
@pytest.mark.parametrize("descending", [False, True])
def test_flatfit_all_ranges(n: int, descending: bool) -> None:
    """Table 2: 3n."""
    counts = multi_rounds(FlatFIT, agg.max(), n, sorted(range(1, n + 1), reverse=descending))
    assert sum(counts) <= 3 * n * len(counts)


@pytest.mark.parametrize("n", MULTI)
def test_slickdeque_inv_all_ranges(n: int) -> None:
    """Table 2: 2n. Exactly: the range of one event is replaced for free."""
    ranges = list(range(1, n + 1))
    assert set(multi_rounds(SlickDequeInv, agg.sum(), n, ranges, windows=ranges)) == {2 * (n - 1)}


@pytest.mark.parametrize("n", MULTI)
def test_slickdeque_noninv_all_ranges(n: int) -> None:
    """Table 2: n, counting a comparison of positions a range; no ⊕ at all is needed to answer."""
    ranges = list(range(1, n + 1))
    assert multi_rounds(SlickDequeNonInv, agg.max(), n, ranges) == rounds(
        SlickDequeNonInv, agg.max(), n, long_run(n, "random")[: 3 * n + 20]
    )


# --------------------------------------------------------------------------- the bulk form is the single form


class Twin:
    """One store fed in bulk and one event by event, each with its own counter."""

    def __init__(self, form: Form, aggregate: Aggregate, capacity: int, before: list[int]) -> None:
        self.aggregates = [counted(aggregate) for _ in range(2)]
        self.bulk, self.single = (
            form.make(a, dtype="int64", nullable=False, capacity=capacity) for a, _ in self.aggregates
        )
        for store in (self.bulk, self.single):
            for value in before:
                store.insert(value)

    def assert_equal(self) -> None:
        (_, bulk), (_, single) = self.aggregates
        assert bulk == single, "⊕ calls"
        assert len(self.bulk) == len(self.single)
        assert self.bulk.snapshot() == self.single.snapshot(), "live state"
        if self.bulk.capacity == self.single.capacity:
            assert state(self.bulk) == state(self.single)
        self.bulk.check_invariants()


def state(store: Store) -> tuple[Any, ...]:
    """Header and links, and the slots of the ring that the window occupies, as they lie in memory."""
    head, size = int(store._header[0]), len(store)
    if isinstance(store, SlickDequeNonInv):
        size = int(store._header[2])
    at = (head + np.arange(size)) % store.capacity
    if isinstance(store, FlatFAT | BInt):
        at = at + store.capacity
    links = store._links[at] if len(store._links) == store.capacity else store._links
    return store._header.tolist(), links.tolist(), [column[at].tolist() for column in store._ring]


BULK_AGGREGATES = [agg.sum(), agg.max(), agg.first(), agg.collect_list()]
PAIRS = [(form, a) for a in BULK_AGGREGATES for form in FORMS if form.serves(a)]
pairs = pytest.mark.parametrize(("form", "aggregate"), PAIRS, ids=[f"{f}-{a!r}" for f, a in PAIRS])


def batches(random: Random, values: list[Any]) -> list[list[Any]]:
    cuts = sorted(random.randrange(len(values) + 1) for _ in range(random.randrange(4)))
    return [values[a:b] for a, b in pairwise([0, *cuts, len(values)])]


def few(function: Any) -> Any:
    return settings(max_examples=max(8, settings().max_examples // 8))(function)


@pairs
@few
@given(random=st.randoms(use_true_random=False), window=st.integers(1, 40), n=st.integers(0, 150))
def test_slide_over_a_window_is_its_rounds(
    form: Form, aggregate: Aggregate, random: Random, window: int, n: int
) -> None:
    window = min(window, max(form.windows)) if form.windows else window
    before = [random.randrange(9) for _ in range(random.choice([0, 0, 1, window // 2, window, window + 3]))]
    before = before[:window] if form.windows else before
    twin = Twin(form, aggregate, max(window, len(before)), before)
    values = [random.randrange(100) for _ in range(n)]
    got, expected = [], []
    for batch in batches(random, values):
        got += twin.bulk.slide(pa.array(batch, pa.int64()), window).to_pylist()
    for value in values:
        twin.single.evict(max(0, len(twin.single) - window + 1))
        twin.single.insert(value)
        expected.append(twin.single.query())
    assert got == expected
    twin.assert_equal()


@pairs
@few
@given(random=st.randoms(use_true_random=False), n=st.integers(0, 120))
def test_slide_over_windows_is_its_rounds(form: Form, aggregate: Aggregate, random: Random, n: int) -> None:
    if not form.store.answers_ranges or (form.store is SlickDequeInv and not form.windows):
        return
    windows = list(form.windows or [random.randrange(1, 30) for _ in range(random.randrange(1, 6))])
    longest = max(windows)
    before = [random.randrange(9) for _ in range(random.choice([0, 0, 1, longest // 2, longest, longest + 3]))]
    twin = Twin(form, aggregate, max(longest, len(before)), before)
    values = [random.randrange(100) for _ in range(n)]
    got, expected = [], []
    for batch in batches(random, values):
        answers = twin.bulk.slide(pa.array(batch, pa.int64()), windows=windows)
        got += zip(*(answers.column(k).to_pylist() for k in range(len(windows))), strict=True)
    for value in values:
        twin.single.evict(max(0, len(twin.single) - longest + 1))
        twin.single.insert(value)
        expected.append(tuple(twin.single.query_many(windows)))
    assert got == expected
    twin.assert_equal()


@pairs
@few
@given(random=st.randoms(use_true_random=False), n=st.integers(0, 120))
def test_slide_with_evictions_is_its_rounds(form: Form, aggregate: Aggregate, random: Random, n: int) -> None:
    most = max(form.windows) if form.windows else 1000
    before = [random.randrange(9) for _ in range(random.randrange(min(30, most)))]
    values, evictions, size = [random.randrange(100) for _ in range(n)], [], len(before)
    for _ in values:
        evictions.append(random.choice([0, 0, 1, 1, 1, 2, size // 2]))
        evictions[-1] = max(min(size, evictions[-1]), size + 1 - most)
        size += 1 - evictions[-1]
    twin = Twin(form, aggregate, 200, before)
    got, expected, at = [], [], 0
    for batch in batches(random, values):
        counts = np.array(evictions[at : at + len(batch)], np.int64)
        got += twin.bulk.slide(pa.array(batch, pa.int64()), evictions=counts).to_pylist()
        at += len(batch)
    for value, count in zip(values, evictions, strict=True):
        twin.single.evict(count)
        twin.single.insert(value)
        expected.append(twin.single.query())
    assert got == expected
    twin.assert_equal()


# --------------------------------------------------------------------------- space

SPACE = [
    # store, aggregate, words of 8 bytes a window of n takes: the card's, which Table 2 bounds
    (Recompute, agg.sum(), lambda n: n),
    (SubtractOnEvict, agg.sum(), lambda n: n),
    (FlatFAT, agg.sum(), lambda n: 2 * (1 << log2(n))),
    (BInt, agg.sum(), lambda n: 2 * (1 << log2(n))),
    (FlatFIT, agg.sum(), lambda n: 2 * n),
    (TwoStacks, agg.sum(), lambda n: n),
    (DABA, agg.sum(), lambda n: n),
    (SlickDequeInv, agg.sum(), lambda n: n),
]
TABLE_2 = {
    Recompute: lambda n: n,
    SubtractOnEvict: lambda n: n,
    FlatFAT: lambda n: 2 * n if n == 1 << log2(n) else 3 * n,
    BInt: lambda n: 2 * n if n == 1 << log2(n) else 3 * n,
    FlatFIT: lambda n: 2 * n,
    TwoStacks: lambda n: 2 * n,
    DABA: lambda n: 2 * n,
    SlickDequeInv: lambda n: n,
}
CONSTANT = 256  # bytes: header and running aggregates


@pytest.mark.parametrize("n", [1000, 1024, 4096])
@pytest.mark.parametrize(("store", "aggregate", "words"), SPACE, ids=[s[0].__name__ for s in SPACE])
def test_space(store: type[Store], aggregate: Aggregate, words: Callable[[int], int], n: int) -> None:
    s = store(interpreted(aggregate), dtype="int64", nullable=False)
    if store is Recompute:
        s = Recompute(interpreted(aggregate), dtype="int64", nullable=False, capacity=n)
        s.insert_many(np.arange(n))
    else:
        s.slide(np.arange(n + 50), n)
    assert len(s) == n
    assert 8 * words(n) <= s.nbytes <= 8 * words(n) * 1.1 + CONSTANT
    assert s.nbytes <= 8 * TABLE_2[store](n) * 1.1 + CONSTANT


@pytest.mark.parametrize("n", [1000, 1024, 4096])
def test_space_of_slickdeque_inv_with_many_ranges(n: int) -> None:
    """n partials and one a range; the block of rounds worked on at a time is a constant."""
    windows = [n, n // 2, 10]
    s = SlickDequeInv(interpreted(agg.sum()), dtype="int64", nullable=False, windows=windows)
    s.slide(np.arange(n + 50), windows=windows)
    assert s.nbytes <= 8 * n * 1.1 + CONSTANT + 8 * 256


@pytest.mark.parametrize("n", [1000, 1024, 4096])
def test_space_of_slickdeque_noninv(n: int) -> None:
    """A partial and a position an entry: two words at least, 2n at most."""

    def used(values: list[int]) -> int:
        s = SlickDequeNonInv(interpreted(agg.max()), dtype="int64", nullable=False)
        s.slide(np.array(values), n)
        return s.nbytes

    smallest = 2 * 8 * 16  # the deque begins with 16 entries
    assert used(list(range(3 * n))) <= smallest + CONSTANT
    assert used(Random(3).choices(range(10**9), k=3 * n)) <= 4 * smallest + CONSTANT
    assert used(list(range(3 * n, 0, -1))) <= 2 * 8 * n * 1.1 + CONSTANT
