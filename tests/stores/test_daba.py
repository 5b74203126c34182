"""DABA: the five stretches of its card hold what is drawn there, after any mix of operations."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from stores.matrix import interpreted

from windlass import aggregates as agg
from windlass.stores import DABA


def assert_stretches(store: DABA, window: list[int]) -> None:
    #   | F F F F | L L | R R | A A A | B B B |
    #   |─────────────────────────────►|         F: from the entry to the end of A
    #             |────►|                        L: from the entry to the end of L
    #                    single events           R
    #                          |───────►|        A: from the entry to the end of A
    #                    |──────────────►|       agg_ra: all of R and A
    #                                    |─────► agg_b: all of B, single events
    head, size, f, l, a = store._header.tolist()
    b = size - f - 2 * l - a
    assert size == len(window) and min(f, l, a, b) >= 0
    assert f > 0 or size == 0
    entries = [store._ring[0][(head + i) % store.capacity] for i in range(size)]
    end_l, end_r, end_a = f + l, f + 2 * l, f + 2 * l + a
    assert entries[:f] == [tuple(window[i:end_a]) for i in range(f)]
    assert entries[f:end_l] == [tuple(window[i:end_l]) for i in range(f, end_l)]
    assert entries[end_l:end_r] == [(x,) for x in window[end_l:end_r]]
    assert entries[end_r:end_a] == [tuple(window[i:end_a]) for i in range(end_r, end_a)]
    assert entries[end_a:] == [(x,) for x in window[end_a:]]
    agg_ra, agg_b = store._running[0]
    if l > 0:
        assert agg_ra == tuple(window[end_l:end_a])
    if b > 0:
        assert agg_b == tuple(window[end_a:])
    if size > 0:
        assert f - b == 1  # what is left to do of L, R and A is done before B is as long as F


@given(st.lists(st.sampled_from(["insert", "insert", "evict"]), max_size=120))
def test_the_stretches_of_the_card(steps: list[str]) -> None:
    store = DABA(interpreted(agg.collect_list()), dtype="int64", nullable=False)
    window: list[int] = []
    for number, step in enumerate(steps):
        if step == "insert":
            store.insert(number)
            window.append(number)
        elif window:
            store.evict()
            window.pop(0)
        assert_stretches(store, window)
        assert store.query() == window


@given(st.integers(1, 40), st.integers(0, 120), st.integers(0, 40))
def test_the_stretches_after_a_slide(size: int, n: int, before: int) -> None:
    store = DABA(interpreted(agg.collect_list()), dtype="int64", nullable=False)
    store.insert_many(list(range(before)))
    window = list(range(before))
    values = list(range(before, before + n))
    store.slide(values, size)
    assert_stretches(store, (window + values)[-size:] if n else window)


def test_figure_9_the_flip_is_spread_over_the_insertions() -> None:
    # Seven events in, everything in F reaches to 3 and B holds 4 5 6. The eighth makes B as long as F: they flip.
    # From then on every insertion finishes a piece: one of L reaches on over R and A, one of R joins A.
    #
    #   0123 123 23 3                     | 4 5 6      F = 4            B = 3
    #   01234567 | 123 23 3 | 4 5 6 | 7   |            F = 1  L = R = 3  A = 1
    #   0…7 1…7  | 23 3     | 4 5   | 67 7 | 8         F = 2  L = R = 2  A = 2  B = 1
    #   0…7 1…7 2…7  | 3    | 4     | 567 67 7 | 8 9   F = 3  L = R = 1  A = 3  B = 2
    store = DABA(interpreted(agg.collect_list()), dtype="int64", nullable=False)
    lengths = []
    for i in range(10):
        store.insert(i)
        assert_stretches(store, list(range(i + 1)))
        lengths.append(store._header.tolist()[2:])
    assert lengths[6:] == [[4, 0, 0], [1, 3, 1], [2, 2, 2], [3, 1, 3]]
