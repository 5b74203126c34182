"""The paper's Figures 1, 3 to 6 and 9, step by step: shapes, aggregates, and the coins of their captions.

The figures are drawings; the shapes are those that the captions, the text and the coins leave possible. A caption says
what a step spent (splits, merges, moves) and what it billed (negative: refunded): billed = spent + coins after -
before.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from stores.fiba.trees import Shape, built, coins, letter, shape_of, spent, words_of

from windlass import aggregates as agg
from windlass.stores import ClassicBTree, FiBA
from windlass.stores.fiba.store import BTree

CENTRE: Shape = ([10, 12], [[8, 9], [11], [13, 14]])
A: Shape = ([7, 15], [([3, 5], [[1, 2], [4], [6]]), CENTRE, ([20], [[17, 19], [21]])])


def step(tree: BTree, act: Callable[[BTree], object]) -> tuple[int, int]:
    """Spent and billed of one step."""
    coins_before, spent_before = coins(tree), spent(tree)
    act(tree)
    tree.check_invariants()
    cost = spent(tree) - spent_before
    return cost, cost + coins(tree) - coins_before


def insert(t: int) -> Callable[[BTree], object]:
    return lambda tree: tree.insert(t, letter(t))


def evict(t: int) -> Callable[[BTree], object]:
    return lambda tree: tree.evict(t)


def word(tree: BTree) -> str:
    return "".join(tree.query())


def test_figure_1_classic() -> None:
    words = words_of(built(ClassicBTree, A))
    assert words[7, 15] == "abcdefghijklmnoqstu"
    assert words[3, 5] == "abcdef" and words[10, 12] == "hijklmn" and words[20,] == "qstu"


def test_figure_3() -> None:
    tree = built(FiBA, A)
    words = words_of(tree)
    assert words[7, 15] == "ghijklmno"  # the root: inner
    assert words[3, 5] == "cdef"  # left spine: all but the first child
    assert words[1, 2] == "abcdef"  # left finger
    assert words[10, 12] == "hijklmn"  # up
    assert words[20,] == "qst" and words[21,] == "qstu"  # right spine
    assert word(tree) == "abcdefghijklmnoqstu"

    repairs = tree.counts["repairs"]
    assert step(tree, insert(22)) == (0, -1)  # A → B, in order
    assert tree.counts["repairs"] == repairs + 1  # a single node, the right finger
    assert words_of(tree)[21, 22] == "qstuv"

    assert step(tree, insert(18)) == (0, 2)  # B → C, out of order: on a walk to the right finger
    words = words_of(tree)
    assert words[17, 18, 19] == "qrs" and words[20,] == "qrst" and words[21, 22] == "qrstuv"

    repairs = tree.counts["repairs"]
    assert step(tree, evict(1)) == (0, 1)  # C → D: the left finger alone
    assert tree.counts["repairs"] == repairs + 1
    assert words_of(tree)[2,] == "bcdef"

    assert step(tree, insert(16)) == (1, -1)  # D → E: a split
    assert shape_of(tree)[1][2] == ([18, 20], [[16, 17], [19], [21, 22]])
    assert words_of(tree)[18, 20] == "pqrst"

    assert step(tree, evict(2)) == (1, 0)  # E → F: a merge
    assert shape_of(tree)[1][0] == ([5], [[3, 4], [6]])
    words = words_of(tree)
    assert words[5,] == "ef" and words[3, 4] == "cdef"
    assert word(tree) == "cdefghijklmnopqrstuv"


def test_figure_4_height_increase_and_split() -> None:
    tree = built(FiBA, ([5, 7, 9], [[1, 2, 4], [6], [8], [10, 11]]))
    assert step(tree, insert(3)) == (2, 0)  # G → H
    assert shape_of(tree) == ([7], [([3, 5], [[1, 2], [4], [6]]), ([9], [[8], [10, 11]])])
    words = words_of(tree)
    assert words[7,] == "g" and words[3, 5] == "cdef" and words[9,] == "hi"
    assert word(tree) == "abcdefghijk"


def test_figure_5_move() -> None:
    left, neighbour = ([5], [[4], [6]]), ([9, 11], [[8], [10], [12, 13]])
    tree = built(FiBA, ([7, 15], [left, neighbour, ([17], [[16], [18, 19]])]))
    assert step(tree, evict(4)) == (2, 1)  # I → J: a merge, then a move
    assert shape_of(tree)[0] == [9, 15]
    assert shape_of(tree)[1][:2] == [([7], [[5, 6], [8]]), ([11], [[10], [12, 13]])]
    words = words_of(tree)
    assert words[5, 6] == "efgh" and words[7,] == "gh" and words[9, 15] == "ijklmo"


def test_figure_6_merge_and_height_decrease() -> None:
    tree = built(FiBA, ([12], [([10], [[9], [11]]), ([14], [[13], [15]])]))
    assert step(tree, evict(15)) == (2, -2)  # K → L: two merges, the second is the new root
    assert tree.height == 1 and shape_of(tree) == ([10, 12], [[9], [11], [13, 14]])
    assert words_of(tree)[10, 12] == "jkl" and word(tree) == "ijklmn"


def test_figure_9_evict_inner() -> None:
    tree = built(FiBA, A)
    tree.evict(15)  # of the root: the right child has no entry to spare, so the youngest on the left takes its place
    tree.check_invariants()
    assert shape_of(tree)[0] == [7, 14] and word(tree) == "abcdefghijklmnqstu"
    tree.evict(7)  # the right child has: the oldest on the right takes its place
    tree.check_invariants()
    assert shape_of(tree)[0] == [8, 14] and words_of(tree)[8, 14] == "hijklmn"
    assert tree.evict(3) and tree.evict(5)  # of the left spine, until it underflows
    tree.check_invariants()
    assert word(tree) == "abdfhijklmnqstu"
    assert not tree.evict(3)


@pytest.mark.parametrize("store", [FiBA, ClassicBTree])
@pytest.mark.parametrize("t", [*range(1, 16), 17, 19, 20, 21])
def test_every_time_of_the_figure_can_go(store: type[BTree], t: int) -> None:
    tree = built(store, A)
    assert tree.evict(t)
    tree.check_invariants()
    assert letter(t) not in word(tree) and len(word(tree)) == 18


def test_section_2_example() -> None:
    """max and maxcount over a window of 5 s, in tenths of a second."""
    f = FiBA(agg.max_count(), min_arity=2)
    for t, v in ((20, 4), (30, 3), (40, 0), (60, 4)):
        f.insert(t, v)
    assert f.query() == {"value": 4, "count": 2}
    f.insert(65, 4)
    assert f.query() == {"value": 4, "count": 3}
    f.insert(23, 5)
    assert f.query() == {"value": 5, "count": 1}
    assert f.bulk_evict(up_to=72 - 50 + 1) == 1 and f.query() == {"value": 5, "count": 1}
    assert f.bulk_evict(up_to=77 - 50 + 1) == 1 and f.query() == {"value": 4, "count": 2}
