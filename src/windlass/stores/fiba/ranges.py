"""Range queries (FiBA 4, Figure 10): which slots and subtrees make up the times from one to another.

A *piece* is a slot, or ~row of a node off the spines whose subtree lies in the range as a whole. The paper recurses
from the lowest common ancestor and passes down which neighbours are in the range. Here the range is walked through in
order: from the first time on, up as long as the next entry is in the range, then down; the entry behind a subtree tells
whether all of it is. So the walk can stop anywhere and go on later, which is how a sorted batch of times is walked
through in one go.
"""

from __future__ import annotations

from typing import Any

from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors
from windlass.stores.fiba.nodes import (
    ENTRIES,
    FINGERS,
    HEIGHT,
    LEFT,
    LEVEL,
    NONE,
    PARENT,
    RIGHT,
    ROOT,
    ROW,
    TIMES,
    VISITS,
    at,
    children_of,
    place_of,
    put,
    slots_of,
)


def whole(tree: Any, pieces: Any) -> Any:
    """The pieces of all times: three at most (FiBA Figure 7, `query`)."""
    head, nodes, free = tree
    if head[FINGERS] == 0 or head[HEIGHT] == 0:
        put(pieces, 0, ~at(nodes, head[ROOT] + ROW))
        return 1
    put(pieces, 0, ~at(nodes, head[LEFT] + ROW))
    put(pieces, 1, ~at(nodes, head[ROOT] + ROW))
    put(pieces, 2, ~at(nodes, head[RIGHT] + ROW))
    return 3


def walk(tree: Any, node: Any, i: Any, t: Any, pieces: Any, n: Any, leaf: Any) -> Any:
    """(node, i, n, leaf, holder): append the pieces up to time t. The next entry is i of the node; what is left of it
    is done. The leaf is where t would be inserted (given: where the walk stood); the holder is the node that has an
    entry at t, or NONE. The last piece is then that entry: it is never a subtree."""
    head, nodes, free = tree
    slot_column, child_column = slots_of(head), children_of(head)
    holder, last = node, 1
    while True:
        head[VISITS] += 1
        entries, inner = at(nodes, node + ENTRIES), at(nodes, node + LEVEL) > 0
        lower = False
        if not inner:
            leaf = node
        while i < entries and not lower and at(nodes, node + TIMES + i) <= t:
            put(pieces, n, at(nodes, node + slot_column + i))
            holder, last = node, at(nodes, node + TIMES + i) != t
            n += 1
            i += 1
            if inner:
                child = at(nodes, node + child_column + i)
                if at(nodes, node + TIMES + i) <= t if i < entries else _goes_on(tree, node, t):
                    put(pieces, n, ~at(nodes, child + ROW))
                    n += 1
                else:
                    lower = True
                    node = child
        if lower:  # to where the range leaves the subtree, or its first leaf
            i = 0
            while at(nodes, node + LEVEL) > 0:
                head[VISITS] += 1
                child = at(nodes, node + child_column)
                if at(nodes, node + TIMES) <= t:
                    put(pieces, n, ~at(nodes, child + ROW))
                    n += 1
                    break
                node = child
        elif i < entries or node == head[ROOT]:
            break
        else:
            i = place_of(tree, at(nodes, node + PARENT), node)
            node = at(nodes, node + PARENT)
    return node, i, n, leaf, holder if last == 0 else NONE


def _goes_on(tree: Any, node: Any, t: Any) -> Any:
    """Whether the entry behind a node's subtree is up to t; behind the right spine there is none."""
    head, nodes, free = tree
    child_column = children_of(head)
    while node != at(head, RIGHT + at(nodes, node + LEVEL)):
        head[VISITS] += 1
        parent = at(nodes, node + PARENT)
        last = at(nodes, parent + ENTRIES)
        if at(nodes, parent + child_column + last) != node:
            return at(nodes, parent + TIMES + place_of(tree, parent, node)) <= t
        node = parent
    return False


def folding(m: Monoid) -> Any:
    """`fold(pieces, k, n, values, aggregates)`: combine the pieces k … n - 1, one at least."""
    combine = m.combine
    load, _ = accessors(m.fields)

    def fold(pieces: Any, k: Any, n: Any, values: Any, aggregates: Any) -> Any:
        piece = at(pieces, k)
        acc = load(values, piece) if piece >= 0 else load(aggregates, ~piece)
        for j in range(k + 1, n):
            piece = at(pieces, j)
            acc = combine(acc, load(values, piece) if piece >= 0 else load(aggregates, ~piece))
        return acc

    return fold
