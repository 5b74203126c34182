"""TwoStacks on the example drawn in its card and MQO, Figure 8, and what every entry covers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from stores.matrix import interpreted

from windlass import aggregates as agg
from windlass.aggregates.counting import counted
from windlass.stores import TwoStacks


def test_the_card() -> None:
    #   insert 5 6 1 2, evict one (which flips), insert 3 1; max
    #
    #   ring    .  6  2  2 | 3  1        front = 3: suffix aggregates 6 2 2
    #                                    back: running aggregate 3 of 3 1; query = 6 ⊕ 3
    aggregate, calls = counted(agg.max())
    store = TwoStacks(aggregate, dtype="int64", nullable=False, capacity=6)
    store.insert_many([5, 6, 1, 2])
    calls.reset()
    store.evict()
    assert calls.total == 3  # the flip
    store.insert_many([3, 1])
    assert store._ring[0][1:].tolist() == [6, 2, 2, 3, 1]
    assert store._header.tolist() == [1, 5, 3]
    assert store._running[0][0] == 3
    calls.reset()
    assert store.query() == 6
    assert calls.total == 1


def test_figure_8_the_front_is_empty_and_the_back_is_flipped_onto_it() -> None:
    #   step 1   F: 6        B:           step 3   evict: F runs empty, so the next evict flips
    #   step 2   F: 6        B: 1         max(6, 1) = 6
    aggregate, calls = counted(agg.max())
    store = TwoStacks(aggregate, dtype="int64", nullable=False)
    store.insert_many([9, 6])
    store.evict()
    assert store._header[2] == 1  # F holds the 6
    store.insert(1)
    assert store.query() == 6
    store.evict()
    assert store._header[2] == 0 and store.query() == 1
    store.insert_many([4, 2])
    calls.reset()
    store.evict()  # flips 1 4 2, then pops
    assert calls.total == 2 and store._header[2] == 2
    assert store.query() == 4


@given(st.lists(st.sampled_from(["insert", "insert", "evict"]), max_size=80))
def test_every_entry_covers_what_the_card_says(steps: list[str]) -> None:
    store = TwoStacks(interpreted(agg.collect_list()), dtype="int64", nullable=False)
    window: list[int] = []
    for number, step in enumerate(steps):
        if step == "insert":
            store.insert(number)
            window.append(number)
        elif window:
            store.evict()
            window.pop(0)
        if not window:
            continue
        head, size, front = store._header.tolist()
        entries = [store._ring[0][(head + i) % store.capacity] for i in range(size)]
        assert entries[:front] == [tuple(window[i:front]) for i in range(front)]
        assert entries[front:] == [(x,) for x in window[front:]]
        if front < size:
            assert store._running[0][0] == tuple(window[front:])
