"""FlatFAT on the examples drawn in its card and in MQO, Figure 5."""

from stores.matrix import interpreted

from windlass import aggregates as agg
from windlass.aggregates.counting import counted
from windlass.stores import FlatFAT


def test_the_card() -> None:
    #              7                      query, commutative: the root, no ⊕ at all
    #          7       6
    #        3   7   6   2
    #                └ head
    aggregate, calls = counted(agg.max())
    store = FlatFAT(aggregate, dtype="int64", nullable=False, capacity=4)
    store.insert_many([9, 8, 6, 2])
    store.evict(2)
    store.insert_many([3, 7])
    assert store._ring[0][1:].tolist() == [7, 7, 6, 3, 7, 6, 2]
    assert store._header.tolist() == [2, 4, 0]
    calls.reset()
    assert store.query() == 7
    assert calls.total == 0


def test_the_card_where_order_matters() -> None:
    #   leaves 2 3 and then 0 1:   6 2 | 3 7  →  one ⊕
    aggregate, calls = counted(agg.collect_list())
    store = FlatFAT(aggregate, dtype="int64", nullable=False, capacity=4)
    store.insert_many([9, 8, 6, 2])
    store.evict(2)
    store.insert_many([3, 7])
    calls.reset()
    assert store.query() == [6, 2, 3, 7]
    assert calls.total == 1


def test_figure_5_an_update_and_a_query_from_leaf_15() -> None:
    # Sixteen leaves. An update of leaf 15 repairs the four nodes above it. A query over the 11 partials from
    # leaf 15 on takes the fewest nodes that cover them, around the end of the ring:
    #
    #   leaf 15 | leaves 0 … 7 | leaves 8 9            three nodes, two ⊕
    aggregate, calls = counted(agg.collect_list())
    store = FlatFAT(aggregate, dtype="int64", nullable=False, capacity=16)
    store.insert_many(list(range(15)))
    store.evict(15)
    calls.reset()
    store.insert(15)
    assert calls.total == 4
    store.insert_many(list(range(16, 26)))
    assert store._header.tolist()[:2] == [15, 11]
    calls.reset()
    assert store.query() == list(range(15, 26))
    assert calls.total == 2


def test_an_evicted_leaf_is_out_of_every_answer_at_once() -> None:
    #        9                  evict 9: still in the tree, counted as stale; the answer avoids it
    #      9   5
    #     9 4 5 1
    store = FlatFAT(interpreted(agg.max()), dtype="int64", nullable=False, capacity=4)
    store.insert_many([9, 4, 5, 1])
    store.evict()
    assert store._ring[0][1] == 9 and store._header.tolist() == [1, 3, 1]
    assert store.query() == 5
    store.insert(2)  # reuses the leaf: the tree is clean again
    assert store._header.tolist() == [1, 4, 0]
    assert store._ring[0][1:].tolist() == [5, 4, 5, 2, 4, 5, 1]


def test_the_tree_doubles_and_halves() -> None:
    store = FlatFAT(interpreted(agg.collect_list()), dtype="int64", nullable=False)
    capacities = []
    for i in range(40):
        store.insert(i)
        store.check_invariants()
        capacities.append(store.capacity)
    assert sorted(set(capacities)) == [1, 16, 32, 64]
    for i in range(39):
        store.evict()
        store.check_invariants()
        assert store.query() == list(range(i + 1, 40))
    assert store.capacity == 16
