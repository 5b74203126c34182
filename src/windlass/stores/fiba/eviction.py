"""Evicting: one time anywhere (FiBA 3.3, Figures 7 and 8), or everything up to a time at once.

One time. In an inner node it is replaced by its neighbour in a leaf, and that leaf loses an entry. A node that is left
with too few takes one from its neighbour, or is merged with it if that has none to spare; then its parent lost one.

Everything up to a time (in the spirit of the 2023 follow-up). The times that go are a prefix of the window: the tree is
cut along one path, and what is left of it is freed subtree by subtree. The nodes on the path are the new left spine.
Each may have too few entries, or none: from the top down, each shares with its right neighbour or is merged with it,
so that it can spare one more for the level below.

           ╱ root ╲                    the path is cut; a node on it keeps what is right of the cut,
      ✂ ╱  │      │                    and has a right neighbour under the same parent
      ✂╱ ╲ │      │
"""

from __future__ import annotations

from typing import Any

from windlass.stores.fiba.nodes import (
    ARITY,
    ENTRIES,
    FREE_SLOTS,
    HEIGHT,
    HEIGHTS,
    LEFT,
    LEVEL,
    MERGES,
    MOVES,
    NONE,
    PARENT,
    RIGHT,
    ROOT,
    SIZE,
    TIMES,
    VISITS,
    at,
    children_of,
    free_node,
    free_slot,
    mark,
    place_of,
    put,
    slots_of,
)
from windlass.stores.fiba.search import down, start


def evict(tree: Any, t: Any) -> Any:
    """Evict one time; returns whether it was there."""
    head, nodes, free = tree
    slot_column = slots_of(head)
    node, i, found, bounded, bound = down(tree, start(tree, t), t)
    if not found:
        return False
    mark(tree, node)
    free_slot(tree, at(nodes, node + slot_column + i))
    leaf = node
    if at(nodes, node + LEVEL) > 0:  # a substitute comes from a leaf
        right = at(nodes, node + children_of(head) + i + 1)
        from_right = at(nodes, right + ENTRIES) >= head[ARITY]
        leaf = _end_of(tree, right if from_right else at(nodes, node + children_of(head) + i), from_right)
        j = 0 if from_right else at(nodes, leaf + ENTRIES) - 1
        put(nodes, node + TIMES + i, at(nodes, leaf + TIMES + j))
        put(nodes, node + slot_column + i, at(nodes, leaf + slot_column + j))
        i = j
        mark(tree, leaf)
    _remove(tree, leaf, i, 1)
    head[SIZE] -= 1
    _rebalance(tree, leaf)
    return True


def _end_of(tree: Any, node: Any, oldest: Any) -> Any:
    head, nodes, free = tree
    while at(nodes, node + LEVEL) > 0:
        head[VISITS] += 1
        node = at(nodes, node + children_of(head) + (0 if oldest else at(nodes, node + ENTRIES)))
    return node


def _rebalance(tree: Any, node: Any) -> Any:
    """Upwards, as long as a node has too few."""
    head, nodes, free = tree
    least = head[ARITY] - 1
    while node != head[ROOT] and at(nodes, node + ENTRIES) < least:
        parent = at(nodes, node + PARENT)
        i = place_of(tree, parent, node)
        is_last = i == at(nodes, parent + ENTRIES)
        sibling = at(nodes, parent + children_of(head) + (i - 1 if is_last else i + 1))
        if at(nodes, sibling + ENTRIES) <= least:
            _merge(tree, parent, i - 1 if is_last else i)
        elif is_last:
            _move_right(tree, parent, i - 1)
        else:
            _move_left(tree, parent, i, 1)
        node = parent
    _lower(tree)


def evict_up_to(tree: Any, t: Any) -> Any:
    """Evict all times up to t, and t."""
    head, nodes, free = tree
    node = head[LEFT]
    while node != head[ROOT] and at(nodes, at(nodes, node + PARENT) + TIMES) <= t:
        node = at(nodes, node + PARENT)
        head[VISITS] += 1
    top = at(nodes, node + LEVEL)
    before = head[SIZE]
    if before > 0 and at(nodes, node + TIMES) <= t:
        _cut(tree, node, t)
        _mend(tree, top)
    return before - head[SIZE]


def _mend(tree: Any, top: Any) -> Any:
    """The left spine was cut from level `top` down. From there up as long as a node has too few, then down."""
    head, nodes, free = tree
    level, step = top, 1
    while level >= 0:
        short = False
        if level < head[HEIGHT]:
            node = at(head, LEFT + level)
            spare = level > 0 and (step < 0 or level == top)  # for a merge on the level below
            short = at(nodes, node + ENTRIES) < head[ARITY] - 1 + spare
            if short:
                _share(tree, node)
        _lower(tree)
        if step > 0 and not short:
            level, step = min(top, head[HEIGHT]) - 1, -1
        else:
            level += step


def _cut(tree: Any, node: Any, t: Any) -> Any:
    """Down the path to t, dropping what is left of it. The nodes of the path become the left spine."""
    head, nodes, free = tree
    slot_column, child_column = slots_of(head), children_of(head)
    while True:
        level = at(nodes, node + LEVEL)
        head[VISITS] += 1
        put(head, LEFT + level, node)
        i, entries = 0, at(nodes, node + ENTRIES)
        while i < entries and at(nodes, node + TIMES + i) <= t:
            free_slot(tree, at(nodes, node + slot_column + i))
            i += 1
        if level > 0:
            for j in range(i):
                _free_subtree(tree, at(nodes, node + child_column + j))
        head[SIZE] -= i
        if i > 0:
            _remove(tree, node, 0, i)
        mark(tree, node)
        if level == 0:
            break
        node = at(nodes, node + child_column)


def _free_subtree(tree: Any, top: Any) -> Any:
    """Free a subtree's nodes and slots, oldest first: what is inserted next goes over the same memory in order."""
    head, nodes, free = tree
    slot_column, child_column = slots_of(head), children_of(head)
    node, above = top, at(nodes, top + PARENT)
    while node != above:
        level = at(nodes, node + LEVEL)
        if level > 0 and at(nodes, node + ENTRIES) >= 0:  # counted down: -1 when the last child is done
            child = at(nodes, node + child_column + at(nodes, node + ENTRIES))
            entries = at(nodes, node + ENTRIES)
            if entries > 0:
                free_slot(tree, at(nodes, node + slot_column + entries - 1))
                head[SIZE] -= 1
            put(nodes, node + ENTRIES, entries - 1)
            node = child
            continue
        if level == 0:
            entries, stack = at(nodes, node + ENTRIES), head[FREE_SLOTS]
            for i in range(entries):
                put(free, stack + i, at(nodes, node + slot_column + entries - 1 - i))
            head[FREE_SLOTS] = stack + entries
            head[SIZE] -= entries
        parent = at(nodes, node + PARENT)
        free_node(tree, node)
        node = parent


def _share(tree: Any, node: Any) -> Any:
    """A node of the left spine with too few gets half of its right neighbour's, or all."""
    head, nodes, free = tree
    parent = at(nodes, node + PARENT)
    sibling = at(nodes, parent + children_of(head) + 1)
    arities = at(nodes, node + ENTRIES) + at(nodes, sibling + ENTRIES) + 2
    if arities <= 2 * head[ARITY]:
        _merge(tree, parent, 0)
    else:
        _move_left(tree, parent, 0, (arities + 1) // 2 - at(nodes, node + ENTRIES) - 1)


def _lower(tree: Any) -> Any:
    """A root with a single child gives way to it."""
    head, nodes, free = tree
    while head[HEIGHT] > 0 and at(nodes, head[ROOT] + ENTRIES) == 0:
        root = head[ROOT]
        child = at(nodes, root + children_of(head))
        put(head, LEFT + head[HEIGHT], NONE)
        put(head, RIGHT + head[HEIGHT], NONE)
        head[HEIGHT] -= 1
        put(head, LEFT + head[HEIGHT], child)
        put(head, RIGHT + head[HEIGHT], child)
        put(nodes, child + PARENT, NONE)
        head[ROOT] = child
        free_node(tree, root)
        head[HEIGHTS] += 1
        mark(tree, child)
        if head[HEIGHT] > 0:  # what the outer children went on with is now the root
            mark(tree, at(head, LEFT + head[HEIGHT] - 1))
            mark(tree, at(head, RIGHT + head[HEIGHT] - 1))


def _remove(tree: Any, node: Any, i: Any, count: Any) -> Any:
    """Take out entries i … i + count - 1, each with the child to its left; of a leaf there are none."""
    head, nodes, free = tree
    node_slots, children = node + slots_of(head), node + children_of(head)
    entries = at(nodes, node + ENTRIES) - count
    put(nodes, node + ENTRIES, entries)
    for j in range(i, entries):
        put(nodes, node + TIMES + j, at(nodes, node + TIMES + j + count))
        put(nodes, node_slots + j, at(nodes, node_slots + j + count))
    if at(nodes, node + LEVEL) > 0:
        for j in range(i, entries + 1):
            put(nodes, children + j, at(nodes, children + j + count))


def _append(tree: Any, node: Any, t: Any, slot: Any, right: Any) -> Any:
    """An entry behind the others, with the child to its right."""
    head, nodes, free = tree
    entries = at(nodes, node + ENTRIES)
    put(nodes, node + TIMES + entries, t)
    put(nodes, node + slots_of(head) + entries, slot)
    put(nodes, node + ENTRIES, entries + 1)
    if at(nodes, node + LEVEL) > 0:
        put(nodes, node + children_of(head) + entries + 1, right)
        put(nodes, right + PARENT, node)


def _merge(tree: Any, parent: Any, i: Any) -> Any:
    """Child i of a node takes over the entry to its right and child i + 1."""
    head, nodes, free = tree
    slot_column, child_column = slots_of(head), children_of(head)
    node, right = at(nodes, parent + child_column + i), at(nodes, parent + child_column + i + 1)
    level = at(nodes, node + LEVEL)
    t, slot = at(nodes, parent + TIMES + i), at(nodes, parent + slot_column + i)
    for j in range(at(nodes, right + ENTRIES) + 1):
        _append(tree, node, t, slot, at(nodes, right + child_column + j))
        t, slot = at(nodes, right + TIMES + j), at(nodes, right + slot_column + j)  # behind the last: not used
    put(nodes, parent + child_column + i + 1, node)  # the left child of the entry that goes is taken with it
    _remove(tree, parent, i, 1)
    if right == at(head, RIGHT + level):
        put(head, RIGHT + level, node)
    free_node(tree, right)
    mark(tree, node)
    mark(tree, parent)
    head[MERGES] += 1


def _move_left(tree: Any, parent: Any, i: Any, count: Any) -> Any:
    """Child i gets the first `count` entries of child i + 1, through their parent."""
    head, nodes, free = tree
    slot_column, child_column = slots_of(head), children_of(head)
    node, right = at(nodes, parent + child_column + i), at(nodes, parent + child_column + i + 1)
    t, slot = at(nodes, parent + TIMES + i), at(nodes, parent + slot_column + i)
    for j in range(count):
        _append(tree, node, t, slot, at(nodes, right + child_column + j))
        t, slot = at(nodes, right + TIMES + j), at(nodes, right + slot_column + j)
    put(nodes, parent + TIMES + i, t)
    put(nodes, parent + slot_column + i, slot)
    _remove(tree, right, 0, count)
    mark(tree, node)
    mark(tree, right)
    mark(tree, parent)
    head[MOVES] += 1


def _move_right(tree: Any, parent: Any, i: Any) -> Any:
    """Child i + 1 gets the last entry of child i, through their parent."""
    head, nodes, free = tree
    slot_column, child_column = slots_of(head), children_of(head)
    left, node = at(nodes, parent + child_column + i), at(nodes, parent + child_column + i + 1)
    last, entries = at(nodes, left + ENTRIES) - 1, at(nodes, node + ENTRIES)
    inner = at(nodes, node + LEVEL) > 0
    for j in range(entries - 1, -1, -1):
        put(nodes, node + TIMES + j + 1, at(nodes, node + TIMES + j))
        put(nodes, node + slot_column + j + 1, at(nodes, node + slot_column + j))
    put(nodes, node + TIMES, at(nodes, parent + TIMES + i))
    put(nodes, node + slot_column, at(nodes, parent + slot_column + i))
    put(nodes, parent + TIMES + i, at(nodes, left + TIMES + last))
    put(nodes, parent + slot_column + i, at(nodes, left + slot_column + last))
    if inner:
        for j in range(entries, -1, -1):
            put(nodes, node + child_column + j + 1, at(nodes, node + child_column + j))
        child = at(nodes, left + child_column + last + 1)
        put(nodes, node + child_column, child)
        put(nodes, child + PARENT, node)
    put(nodes, left + ENTRIES, last)
    put(nodes, node + ENTRIES, entries + 1)
    mark(tree, node)
    mark(tree, left)
    mark(tree, parent)
    head[MOVES] += 1
