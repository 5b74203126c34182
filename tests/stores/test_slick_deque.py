"""SlickDeque on the examples drawn in its cards and in MQO, Figure 10."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from stores.matrix import interpreted

from windlass import aggregates as agg
from windlass.aggregates.counting import counted
from windlass.stores import SlickDeque, SlickDequeInv, SlickDequeNonInv


def deque(store: SlickDequeNonInv) -> list[tuple[int, int]]:
    """(position, value) of the entries, head first; positions counted from 1 with the first event."""
    head, _, entries, youngest = store._header.tolist()
    at = [(head + i) % store.capacity for i in range(entries)]
    return [(int(store._links[p]) - youngest, store._ring[0][p]) for p in at]


def test_inv_the_card() -> None:
    #   ring  3 1 4 1 5      ranges 2 and 5: 6 and 14;  insert 9:  6 ⊖ 1 ⊕ 9  and  14 ⊖ 3 ⊕ 9
    aggregate, calls = counted(agg.sum())
    store = SlickDequeInv(aggregate, dtype="int64", nullable=False, windows=[2, 5])
    store.insert_many([3, 1, 4, 1, 5])
    assert store.query_many([2, 5]) == [6, 14]
    calls.reset()
    store.evict()
    store.insert(9)
    assert store.query_many([5, 2]) == [20, 14]
    assert (calls.combine, calls.inverse) == (2, 2)


def test_non_inv_the_card() -> None:
    #   max, events 5 2 3 4:     deque  (3: 5) (6: 4)        2 and 3 lost against 4
    aggregate, calls = counted(agg.max())
    store = SlickDequeNonInv(aggregate, dtype="int64", nullable=False)
    store.insert_many([5, 2, 3, 4])
    assert deque(store) == [(-3, 5), (0, 4)]
    assert calls.selects == 1 + 2 + 2  # 5 beats 2; 3 beats 2, not 5; 4 beats 3, not 5
    assert calls.combine == 0


def test_figure_10_partial_4_comes_at_position_1() -> None:
    # Ranges 1 to 6 over max. Positions go around: the partial at position 1 expires when the next one comes there.
    #
    #   position     1  2  3  4  5  6            deque before   (1: 6) (3: 5) (5: 3) (6: 2)
    #   value        6  1  5  0  3  2
    #   insert    4 at position 1                deque after    (3: 5) (1: 4)
    store = SlickDequeNonInv(interpreted(agg.max()), dtype="int64", nullable=False)
    store.insert_many([6, 1, 5, 0, 3, 2])
    assert deque(store) == [(-5, 6), (-3, 5), (-1, 3), (0, 2)]
    store.evict()
    store.insert(4)
    assert deque(store) == [(-4, 5), (0, 4)]
    assert store.query() == 5
    assert store.query_many([6, 5, 4, 3, 2, 1]) == [5, 5, 4, 4, 4, 4]


def test_where_values_tie_the_younger_one_stays() -> None:
    store = SlickDequeNonInv(interpreted(agg.max()), dtype="int64", nullable=False)
    store.insert_many([7] * 50)
    assert deque(store) == [(0, 7)]
    first = SlickDequeNonInv(interpreted(agg.first()), dtype="int64", nullable=False)
    first.insert_many(list(range(20)))
    assert len(deque(first)) == 20  # any of them may come to be the oldest


@pytest.mark.parametrize("n", [64, 512])
def test_a_random_stream_leaves_a_harmonic_number_of_entries(n: int) -> None:
    """The expected length of the deque is 1 + 1/2 + … + 1/n, not the Σ 1/i! of MQO's equation 7 (at most 1.72)."""
    store = SlickDequeNonInv(interpreted(agg.max()), dtype="float64", nullable=False)
    random = Random(2)
    store.slide([random.random() for _ in range(n)], n)
    lengths = []
    for _ in range(20 * 64):
        store.slide([random.random()], n)
        lengths.append(len(deque(store)))
    harmonic = sum(1 / i for i in range(1, n + 1))
    assert abs(np.mean(lengths) - harmonic) < 0.25 * harmonic


def test_many_ranges_in_any_order_with_repetitions() -> None:
    values = Random(4).choices(range(9), k=60)
    windows = [5, 1, 20, 5, 3]
    for aggregate, fold in ((agg.max(), max), (agg.min(), min), (agg.sum(), sum)):
        answers = SlickDeque(interpreted(aggregate)).slide(np.array(values), windows=windows)
        assert answers.shape == (60, 5)
        for i in range(60):
            assert answers[i].tolist() == [fold(values[max(0, i + 1 - w) : i + 1]) for w in windows]
