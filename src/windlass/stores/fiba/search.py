"""Finger search (FiBA 3.2): up a spine from the nearer end of the window, then down.

A subtree that reaches i levels up a spine holds some min_arity^i times, so a time at distance d from the window's
nearer end is found in O(log d) steps. Between the two outer children of the root, the root itself is as near. The
classic B-tree searches from its root. In a batch in order, the search goes on from where the time before it fell.
"""

from __future__ import annotations

from typing import Any

from windlass.stores.fiba.nodes import (
    ENTRIES,
    FINGERS,
    HEIGHT,
    LEFT,
    LEVEL,
    PARENT,
    RIGHT,
    ROOT,
    TIMES,
    VISITS,
    at,
    children_of,
    is_found,
    rank,
)


def start(tree: Any, t: Any) -> Any:
    """A node near the fingers whose subtree has the place of t."""
    head, nodes, free = tree
    root = head[ROOT]
    if head[HEIGHT] == 0 or head[FINGERS] == 0:
        return root
    node = root
    if t < at(nodes, root + TIMES):
        node = head[LEFT]
        while node != root and at(nodes, node + TIMES + at(nodes, node + ENTRIES) - 1) < t:
            node = at(nodes, node + PARENT)
            head[VISITS] += 1
    elif t > at(nodes, root + TIMES + at(nodes, root + ENTRIES) - 1):
        node = head[RIGHT]
        while node != root and at(nodes, node + TIMES) > t:
            node = at(nodes, node + PARENT)
            head[VISITS] += 1
    return node


def onward(tree: Any, node: Any, t: Any) -> Any:
    """The same from a node that has a time before t: up until the place of t is below."""
    head, nodes, free = tree
    while node != at(head, RIGHT + at(nodes, node + LEVEL)):
        if at(nodes, node + TIMES + at(nodes, node + ENTRIES) - 1) >= t:
            break
        node = at(nodes, node + PARENT)
        head[VISITS] += 1
    return node


def down(tree: Any, node: Any, t: Any) -> Any:
    """(node, i, found, bounded, bound): t is entry i of the node, or would be of this leaf. If there is no bound, or
    from t to the bound, all times belong to this leaf."""
    head, nodes, free = tree
    children, bounded, bound, i = children_of(head), False, t, 0
    while True:
        head[VISITS] += 1
        i = rank(nodes, node, t)
        found = is_found(nodes, node, i, t)
        if at(nodes, node + LEVEL) == 0 and not bounded and node != head[RIGHT]:
            bounded = True  # the search began here, so more is not known
            bound = at(nodes, node + TIMES + at(nodes, node + ENTRIES) - 1)
        if found or at(nodes, node + LEVEL) == 0:
            return node, i, found, bounded, bound
        if i < at(nodes, node + ENTRIES):
            bounded = True
            bound = at(nodes, node + TIMES + i)
        node = at(nodes, node + children + i)
