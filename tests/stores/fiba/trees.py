"""Trees of a given shape, and what is in their nodes: for the worked examples.

A shape is a list of times for a leaf, or (times, children) for an inner node. The value at a time is a letter, as in
the paper: 1 is a, 2 is b. Aggregates are read as words.
"""

from __future__ import annotations

from typing import Any

from windlass import aggregates as agg
from windlass.stores.fiba import nodes
from windlass.stores.fiba.store import BTree

Shape = Any


def letter(t: int) -> str:
    return chr(ord("a") + t - 1)


def built(store: type[BTree], shape: Shape, min_arity: int = 2) -> BTree:
    """A tree of just that shape."""
    tree = store(agg.collect_list(), min_arity=min_arity, dtype="string", capacity=64)
    head, rows = tree._head, tree._nodes
    level, node = 0, shape
    while isinstance(node, tuple):
        node, level = node[1][0], level + 1
    nodes.clear(tree._tree)
    root = _grow(tree, shape, level)
    first = int(head[nodes.LEFT])  # the empty leaf that `clear` made is given back
    nodes.free_node(tree._tree, first)
    head[nodes.ROOT], head[nodes.HEIGHT] = root, level
    left = right = root
    for at in range(level, -1, -1):
        head[nodes.LEFT + at], head[nodes.RIGHT + at] = left, right
        if at:
            children = nodes.children_of(head)
            left, right = rows[left + children], rows[right + children + rows[right + nodes.ENTRIES]]
    tree._is_settled = False  # all nodes are marked
    tree.check_invariants()
    return tree


def _grow(tree: BTree, shape: Shape, level: int) -> int:
    head, rows = tree._head, tree._nodes
    times, children = shape if isinstance(shape, tuple) else (shape, [])
    node = int(nodes.new_node(tree._tree, level))
    rows[node + nodes.ENTRIES] = len(times)
    for i, t in enumerate(times):
        slot = int(nodes.new_slot(tree._tree))
        rows[node + nodes.TIMES + i] = t
        rows[node + nodes.slots_of(head) + i] = slot
        tree._ring[0][slot] = (letter(t),)
        if len(tree._ring) > 1:  # with an identity adjoined: there was a value
            tree._ring[1][slot] = True
        head[nodes.SIZE] += 1
    for i, child in enumerate(children):
        below = _grow(tree, child, level - 1)
        rows[node + nodes.children_of(head) + i] = below
        rows[below + nodes.PARENT] = node
    nodes.mark(tree._tree, node)
    return node


def shape_of(tree: BTree, node: int | None = None) -> Shape:
    """The shape a tree has now."""
    head, rows = tree._head, tree._nodes
    at = int(head[nodes.ROOT]) if node is None else node
    entries = int(rows[at + nodes.ENTRIES])
    times = [int(t) for t in rows[at + nodes.TIMES : at + nodes.TIMES + entries]]
    if int(rows[at + nodes.LEVEL]) == 0:
        return times
    children = at + nodes.children_of(head)
    return times, [shape_of(tree, int(child)) for child in rows[children : children + entries + 1]]


def words_of(tree: BTree) -> dict[tuple[int, ...], str]:
    """Each node's aggregate as a word, by the node's times."""
    words, head, rows = {}, tree._head, tree._nodes
    waiting = [int(head[nodes.ROOT])]
    while waiting:
        node = waiting.pop()
        entries = int(rows[node + nodes.ENTRIES])
        times = tuple(int(t) for t in rows[node + nodes.TIMES : node + nodes.TIMES + entries])
        words[times] = "".join(tree._aggregates[0][int(rows[node + nodes.ROW])])
        if int(rows[node + nodes.LEVEL]) > 0:
            children = node + nodes.children_of(head)
            waiting += [int(child) for child in rows[children : children + entries + 1]]
    return words


def coins(tree: BTree) -> int:
    """The reserve of Lemma 9, over all nodes."""
    return _coins(shape_of(tree), tree.min_arity, is_root=True)


def _coins(shape: Shape, least: int, is_root: bool) -> int:
    times, children = shape if isinstance(shape, tuple) else (shape, [])
    arity = len(times) + 1
    own = 2 if arity == 2 * least else 1 if arity == least and not is_root else 0
    return own + sum(_coins(child, least, is_root=False) for child in children)


def spent(tree: BTree) -> int:
    """Splits, merges and moves so far."""
    return sum(tree.counts[what] for what in ("splits", "merges", "moves"))
