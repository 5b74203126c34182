"""Recompute: Panes, the naive technique, on its drawn examples."""

from stores.matrix import interpreted

from windlass import aggregates as agg
from windlass.aggregates.counting import counted
from windlass.stores import Recompute


def test_figure_2_a_partial_serves_every_window_it_is_in() -> None:
    # range = 4, slide = 1 (MQO, Figure 2)
    #
    #   P1  P2  P3  P4  P5  P6
    #   └───── F1 ────┘
    #       └───── F2 ────┘
    #           └───── F3 ────┘          P4 is part of all three
    store = Recompute(interpreted(agg.collect_list()))
    answers = store.slide(["P1", "P2", "P3", "P4", "P5", "P6"], 4)
    assert [list(a) for a in answers[3:]] == [
        ["P1", "P2", "P3", "P4"],
        ["P2", "P3", "P4", "P5"],
        ["P3", "P4", "P5", "P6"],
    ]


def test_the_card() -> None:
    #   ring   . a b c d .        head at a, size 4; query = a ⊕ b ⊕ c ⊕ d
    aggregate, calls = counted(agg.concat())
    store = Recompute(aggregate, capacity=6)
    store.insert_many(["x", "a", "b", "c", "d"])
    store.evict()
    assert store._header.tolist() == [1, 4]
    assert store.query() == "abcd"
    assert calls.combine == 3
    assert store.query_many([1, 2, 9]) == ["d", "cd", "abcd"]
    assert calls.combine == 3 + 0 + 1 + 3


def test_a_window_that_wraps_around_the_ring_is_folded_in_order() -> None:
    #   ring   e f | c d           head at c
    store = Recompute(interpreted(agg.concat()), capacity=4)
    store.insert_many(["a", "b", "c", "d"])
    store.evict(2)
    store.insert_many(["e", "f"])
    assert store._header.tolist() == [2, 4]
    assert store.query() == "cdef"
    assert store.query(3) == "def"
