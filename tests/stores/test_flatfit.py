"""FlatFIT on the examples drawn in its card and in MQO, Figure 7, and what every partial covers."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stores.matrix import interpreted

from windlass import aggregates as agg
from windlass.aggregates.counting import counted
from windlass.stores import FlatFIT


def test_the_card() -> None:
    #   position   0   1   2   3   4   5
    #   partial    .   9   6   4   1   7        1 covers 1..4, 2 covers 2..4, …; 5 is new
    #   pointer    .   5   5   5   5   6        the next query over 1..5 visits 1 and 5
    aggregate, calls = counted(agg.sum())
    store = FlatFIT(aggregate, dtype="int64", nullable=False, capacity=8)
    store.insert_many([0, 3, 2, 3, 1])
    store.evict()
    assert store.query() == 9
    assert calls.total == 3
    store.insert(7)
    assert store._ring[0][1:6].tolist() == [9, 6, 4, 1, 7]
    assert store._links[1:6].tolist() == [5, 5, 5, 5, 6]
    calls.reset()
    assert store.query() == 16
    assert calls.total == 1


def test_figure_7_a_query_over_nine_partials_at_position_5() -> None:
    # A ring of eleven; the query spans positions 8 to 5. It follows 8 → 1 → 5, then combines what it visited.
    #
    #   position   8  9 10  0 | 1  2  3  4 | 5
    #              └──────────►└──────────►└─►
    aggregate, calls = counted(agg.collect_list())
    store = FlatFIT(aggregate, dtype="int64", nullable=False, capacity=11)
    store.insert_many(list(range(8)))
    store.evict(8)
    store.insert_many([8, 9, 10, 11])
    store.query()
    store.insert_many([12, 13, 14, 15])
    store.query(4)
    store.insert(16)
    assert store._header.tolist() == [8, 9]
    assert (store._links[8], store._links[1]) == (1, 5)
    calls.reset()
    assert store.query() == list(range(8, 17))
    assert calls.total == 2
    assert (store._links[8], store._links[1], store._links[5]) == (6, 6, 6)  # the next walk is short


@pytest.mark.parametrize("n", [2, 3, 8, 20])
def test_the_window_reset_comes_every_n_plus_1_slides(n: int) -> None:
    aggregate, calls = counted(agg.max())
    store = FlatFIT(aggregate, dtype="int64", nullable=False, capacity=n)
    store.slide(list(range(n)), n)
    counts = []
    for value in range(5 * (n + 1)):
        calls.reset()
        store.evict()
        store.insert(value)
        store.query()
        counts.append(calls.total)
    resets = [i for i, count in enumerate(counts) if count == n - 1]
    if n > 3:
        assert {b - a for a, b in pairwise(resets)} <= {n - 1, n, n + 1}
    assert sum(counts) <= 3 * len(counts)


@given(st.lists(st.tuples(st.sampled_from(["insert", "insert", "evict", "query", "suffix"]), st.integers(1, 12))))
def test_every_partial_covers_what_its_pointer_says(steps: list[tuple[str, int]]) -> None:
    store = FlatFIT(interpreted(agg.collect_list()), dtype="int64", nullable=False)
    window: list[int] = []
    for number, (step, k) in enumerate(steps):
        if step == "insert":
            store.insert(number)
            window.append(number)
        elif step == "evict" and window:
            store.evict()
            window.pop(0)
        elif step == "query":
            assert store.query() == window
        elif step == "suffix":
            assert store.query(k) == window[-k:]
        head = int(store._header[0])
        for i in range(len(window)):
            p = (head + i) % store.capacity
            reach = (int(store._links[p]) - p - 1) % store.capacity + 1
            assert store._ring[0][p] == tuple(window[i : i + reach])
            assert i + reach <= len(window)
