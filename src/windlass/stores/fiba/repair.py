"""Repairing partial aggregates (FiBA 3.2, Figure 2), each of the kind that the node's place asks for.

    up      z₀ v₀ z₁ … v z            any node off the spines: the whole subtree
    inner      v₀ z₁ … v              the root: all but its outer children; all of a root that is a leaf
    left       v₀ z₁ … v z  parent    left spine: all but the first child, and on with the parent's, below the root
    right   parent  z₀ v₀ z₁ … v      right spine: its mirror image

`settle` finds what must be repaired, and in which order, from the nodes that were marked; it never sees a partial. Up
and inner depend on what is below, so their repair climbs from level to level, each node once however many of its
children changed, and stops at a spine; left and right depend on the node above, so theirs runs down to the finger.
The classic B-tree has up-aggregates only, and climbs to the root.
"""

from __future__ import annotations

from typing import Any

from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors
from windlass.stores.fiba.nodes import (
    CHANGED,
    CLASSIC,
    CLEAN,
    DIRTY,
    ENTRIES,
    FINGERS,
    FREE_NODE,
    HEIGHT,
    LEFT,
    LEVEL,
    LEVELS,
    MARK,
    NEXT,
    NONE,
    PARENT,
    RANGES,
    REPAIRS,
    RIGHT,
    ROW,
    SPINES,
    at,
    children_of,
    mark,
    put,
    slots_of,
)

UP, INNER, LEFTWARD, RIGHTWARD = range(4)
_OUTERMOST = 4  # a spine node whose parent is the root, which it does not go on with


def settle(tree: Any, repairs: Any) -> Any:
    """Write (node, kind) of every node to repair, in order; returns how many."""
    head, nodes, free = tree
    n, height = 0, head[HEIGHT]
    left = right = NONE
    for level in range(LEVELS):  # a level above the root has freed nodes at most
        node = at(head, DIRTY + level)
        put(head, DIRTY + level, NONE)
        while node != NONE:
            following = at(nodes, node + NEXT)
            if at(nodes, node + MARK) != CHANGED:
                put(nodes, node + NEXT, head[FREE_NODE])
                head[FREE_NODE] = node
            else:
                put(nodes, node + MARK, CLEAN)
                on_left = head[FINGERS] != CLASSIC and level < height and at(head, LEFT + level) == node
                on_right = head[FINGERS] != CLASSIC and level < height and at(head, RIGHT + level) == node
                if on_left:
                    left = level
                elif on_right:
                    right = level
                elif head[FINGERS] == CLASSIC or level < height:
                    n = _note(repairs, n, node, UP)
                    if level < height:
                        mark(tree, at(nodes, node + PARENT))
                elif head[FINGERS] == SPINES:
                    n = _note(repairs, n, node, INNER)
            node = following
    if head[FINGERS] == RANGES:
        left = right = NONE
    for level in range(left, -1, -1):
        n = _note(repairs, n, at(head, LEFT + level), LEFTWARD + (_OUTERMOST if level == height - 1 else 0))
    for level in range(right, -1, -1):
        n = _note(repairs, n, at(head, RIGHT + level), RIGHTWARD + (_OUTERMOST if level == height - 1 else 0))
    head[REPAIRS] += n
    return n


def _note(repairs: Any, n: Any, node: Any, kind: Any) -> Any:
    put(repairs, 2 * n, node)
    put(repairs, 2 * n + 1, kind)
    return n + 1


def pieces_of(head: Any, nodes: Any, node: Any, kind: Any, pieces: Any, n: Any) -> Any:
    """Append the slots, and ~rows of other nodes, that a node's aggregate is combined of; returns how many there are
    then. What `repairing` does at once, for those who combine elsewhere."""
    side, entries, inner = kind & 3, at(nodes, node + ENTRIES), at(nodes, node + LEVEL) > 0
    slots, children = node + slots_of(head), node + children_of(head)
    if kind == RIGHTWARD:
        n = _piece(pieces, n, ~at(nodes, at(nodes, node + PARENT) + ROW))
    for i in range(entries):
        if inner and (i > 0 or side in (UP, RIGHTWARD)):
            n = _piece(pieces, n, ~at(nodes, at(nodes, children + i) + ROW))
        n = _piece(pieces, n, at(nodes, slots + i))
    if inner and side in (UP, LEFTWARD):
        n = _piece(pieces, n, ~at(nodes, at(nodes, children + entries) + ROW))
    if kind == LEFTWARD:
        n = _piece(pieces, n, ~at(nodes, at(nodes, node + PARENT) + ROW))
    return n


def _piece(pieces: Any, n: Any, piece: Any) -> Any:
    put(pieces, n, piece)
    return n + 1


def repairing(m: Monoid) -> Any:
    """`repair(head, nodes, repairs, n, values, aggregates)`: compute the partial aggregates that `settle` noted."""
    combine = m.combine
    load, store = accessors(m.fields)

    def repair(head: Any, nodes: Any, repairs: Any, n: Any, values: Any, aggregates: Any) -> Any:
        slot_column, child_column = slots_of(head), children_of(head)
        for k in range(n):
            node, kind = at(repairs, 2 * k), at(repairs, 2 * k + 1)
            side = kind & 3
            entries, slots, children = at(nodes, node + ENTRIES), node + slot_column, node + child_column
            if entries == 0:
                continue  # the root of an empty tree
            acc = load(values, at(nodes, slots))
            if at(nodes, node + LEVEL) == 0:
                for i in range(1, entries):
                    acc = combine(acc, load(values, at(nodes, slots + i)))
            else:
                if side in (UP, RIGHTWARD):
                    acc = combine(load(aggregates, at(nodes, at(nodes, children) + ROW)), acc)
                for i in range(1, entries):
                    acc = combine(acc, load(aggregates, at(nodes, at(nodes, children + i) + ROW)))
                    acc = combine(acc, load(values, at(nodes, slots + i)))
                if side in (UP, LEFTWARD):
                    acc = combine(acc, load(aggregates, at(nodes, at(nodes, children + entries) + ROW)))
            if kind == LEFTWARD:
                acc = combine(acc, load(aggregates, at(nodes, at(nodes, node + PARENT) + ROW)))
            elif kind == RIGHTWARD:
                acc = combine(load(aggregates, at(nodes, at(nodes, node + PARENT) + ROW)), acc)
            store(aggregates, at(nodes, node + ROW), acc)

    return repair
