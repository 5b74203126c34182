"""B-Int on the example drawn in its card (and MQO, Figure 6)."""

from windlass import aggregates as agg
from windlass.aggregates.counting import counted
from windlass.stores import BInt


def test_the_card() -> None:
    #   level 3   .
    #   level 2   abcd            .
    #   level 1   ab      cd      ef      .
    #   level 0   a   b   c   d   e   f   .   .         b..f = b ⊕ cd ⊕ ef
    aggregate, calls = counted(agg.concat())
    store = BInt(aggregate, dtype="string", nullable=False, capacity=8)
    inserts = []
    for letter in "abcdef":
        calls.reset()
        store.insert(letter)
        inserts.append(calls.total)
    assert inserts == [0, 1, 0, 2, 0, 1]  # an event completes the intervals that end with it
    tree = store._ring[0]
    assert (tree[2], tree[4:7].tolist()) == ("abcd", ["ab", "cd", "ef"])
    calls.reset()
    assert store.query(5) == "bcdef"
    assert calls.total == 2
    calls.reset()
    assert store.query() == "abcdef"  # abcd ⊕ ef
    assert calls.total == 1


def test_intervals_follow_each_other_around_the_ring() -> None:
    #   ring of 8, window of 6 from leaf 5:   f | gh | ij | k
    aggregate, calls = counted(agg.concat())
    store = BInt(aggregate, dtype="string", nullable=False, capacity=8)
    store.insert_many(list("abcdefgh"))
    store.evict(5)
    store.insert_many(list("ijk"))
    calls.reset()
    assert store.query() == "fghijk"
    assert calls.total == 3
    assert store.query_many([1, 2, 3, 4, 5]) == ["k", "jk", "ijk", "hijk", "ghijk"]
