"""Inserting a batch in order, level by level (FiBA 3.3; bulk insertion after Tangwongsan, Hirzel, Schneider 2023).

First every time of the batch is located. A time that is in the tree shares that entry's slot; the others become items:

    item = (time, slot, right child, node that takes it in)          a leaf's items have no child

Then each node takes in its items. One that overflows is cut into as many nodes as it needs, evenly; between two of them
an entry goes up, with the node to its right, and is an item of the level above. A batch of one is the paper's insert:
an overflowing node has arity 2μ + 1 and becomes two, of μ + 1 and μ. Every node that is changed is marked.
"""

from __future__ import annotations

from typing import Any

from windlass.stores.fiba.nodes import (
    ARITY,
    ENTRIES,
    HEIGHT,
    HEIGHTS,
    LEFT,
    LEVEL,
    NONE,
    PARENT,
    RIGHT,
    ROOT,
    SIZE,
    SPLITS,
    TIMES,
    at,
    children_of,
    mark,
    new_node,
    new_slots,
    put,
    slots_of,
)
from windlass.stores.fiba.search import down, onward, start


def locate(tree: Any, times: Any, n: Any, strictly: Any, items: Any, slots: Any) -> Any:
    """Find where each of n ascending times belongs; `strictly`: no two are the same. `slots[i]` becomes its slot, or
    ~slot if that is a new one. Returns the number of items."""
    head, nodes, free = tree
    found, count, i, k = False, 0, 0, 0
    bounded, bound = True, times[0]  # before the first, nothing is known
    leaf = NONE
    slot_column = slots_of(head)
    while k < n:
        t = at(times, k)
        if k > 0 and t == at(times, k - 1):
            slot = at(slots, k - 1)
            put(slots, k, slot if slot >= 0 else ~slot)
            k += 1
            continue
        if bounded and t >= bound:
            node = start(tree, t) if leaf == NONE else onward(tree, leaf, t)
            node, i, found, bounded, bound = down(tree, node, t)
            if not found or at(nodes, node + LEVEL) == 0:
                leaf = node
            if found and at(nodes, node + LEVEL) > 0:
                bounded, bound = True, t  # of leaves, nothing is known: search again
                leaf = node
        else:  # the same leaf as before, and not before the last place in it
            node = leaf
            while i < at(nodes, node + ENTRIES) and at(nodes, node + TIMES + i) < t:
                i += 1
            found = i < at(nodes, node + ENTRIES) and at(nodes, node + TIMES + i) == t
        if found:
            put(slots, k, at(nodes, node + slot_column + i))
            mark(tree, node)
            k += 1
        else:
            is_last = i == at(nodes, node + ENTRIES)
            limit = bound if is_last else at(nodes, node + TIMES + i)
            run = run_of(times, k, n, strictly, is_last and not bounded, limit)
            new_items(tree, times, k, run, node, items, count, slots, k)
            k += run
            count += run
    head[SIZE] += count
    return count


def is_ascending(times: Any, begin: Any, n: Any) -> Any:
    """(whether n times ascend, whether strictly). All are looked at: a loop without a way out does many at a time."""
    ascending, strictly = True, True
    for k in range(begin + 1, begin + n):
        ascending &= at(times, k - 1) <= at(times, k)
        strictly &= at(times, k - 1) < at(times, k)
    return ascending, strictly


def run_of(times: Any, k: Any, n: Any, strictly: Any, endless: Any, limit: Any) -> Any:
    """How many of the times from k up to n ascend strictly and are before the limit, if there is one. The first is."""
    if strictly and (endless or at(times, n - 1) < limit):
        return n - k
    stop = k + 1
    while stop < n and at(times, stop) > at(times, stop - 1) and (endless or at(times, stop) < limit):
        stop += 1
    return stop - k


def new_items(
    tree: Any, times: Any, begin: Any, run: Any, owner: Any, items: Any, count: Any, slots: Any, k: Any
) -> Any:
    """A run of times that belong next to each other becomes items of one leaf, in loops that do one thing each."""
    for j in range(run):
        put(items[0], count + j, at(times, begin + j))
    new_slots(tree, items[1], count, run)
    for j in range(run):
        put(items[3], count + j, owner)
    for j in range(run):
        put(slots, k + j, ~at(items[1], count + j))


def take_in(tree: Any, items: Any, count: Any, gathered: Any) -> Any:
    """Let the nodes take in their items, level by level."""
    head, nodes, free = tree
    times, slots, rights, owners = items
    most = 2 * head[ARITY] - 1
    while count > 0:
        up, k = 0, 0
        while k < count:
            node = owners[k]
            stop = k + 1
            while stop < count and owners[stop] == node:
                stop += 1
            mark(tree, node)
            if at(nodes, node + ENTRIES) + stop - k <= most:
                _merge_in(tree, node, items, k, stop)
            else:
                up = _split(tree, node, items, k, stop, gathered, up)
            k = stop
        count = up


def _merge_in(tree: Any, node: Any, items: Any, k: Any, stop: Any) -> Any:
    """From the back, so that every entry moves once."""
    head, nodes, free = tree
    times, slots, rights, owners = items
    node_slots, children = node + slots_of(head), node + children_of(head)
    i = at(nodes, node + ENTRIES) - 1
    w = i + stop - k
    put(nodes, node + ENTRIES, w + 1)
    j = stop - 1
    inner = at(nodes, node + LEVEL) > 0
    while j >= k:
        if i >= 0 and at(nodes, node + TIMES + i) > at(times, j):
            put(nodes, node + TIMES + w, at(nodes, node + TIMES + i))
            put(nodes, node_slots + w, at(nodes, node_slots + i))
            if inner:
                put(nodes, children + w + 1, at(nodes, children + i + 1))
            i -= 1
        else:
            put(nodes, node + TIMES + w, at(times, j))
            put(nodes, node_slots + w, at(slots, j))
            if inner:
                right = at(rights, j)
                put(nodes, children + w + 1, right)
                put(nodes, right + PARENT, node)
            j -= 1
        w -= 1


def _split(tree: Any, node: Any, items: Any, k: Any, stop: Any, gathered: Any, up: Any) -> Any:
    """Cut a node and its items into several; returns the number of items that go up."""
    head, nodes, free = tree
    times, slots, rights, owners = items
    g_times, g_slots, g_rights = gathered
    slot_column, child_column = slots_of(head), children_of(head)
    level, entries = at(nodes, node + LEVEL), at(nodes, node + ENTRIES)
    inner = level > 0
    i, n = 0, 0
    while i < entries:
        if k < stop and at(times, k) < at(nodes, node + TIMES + i):
            n = _gather(gathered, n, at(times, k), at(slots, k), at(rights, k) if inner else NONE)
            k += 1
        else:
            right = at(nodes, node + child_column + i + 1) if inner else NONE
            n = _gather(gathered, n, at(nodes, node + TIMES + i), at(nodes, node + slot_column + i), right)
            i += 1
    _copy(g_times, n, times, k, stop - k)
    _copy(g_slots, n, slots, k, stop - k)
    if inner:
        _copy(g_rights, n, rights, k, stop - k)
    n += stop - k
    if node == head[ROOT]:
        _higher(tree, node)
    fill = head[ARITY] + (3 * head[ARITY] >> 2)  # room for what comes late; of a single insert, two nodes
    parts = max(2, (n + fill) // fill)
    owner = at(nodes, node + PARENT)
    arity, more = (n + 1) // parts, (n + 1) % parts
    k = 0
    for part in range(parts):
        size = arity - (part >= more)  # entries: one less than the arity
        if part > 0:
            right = new_node(tree, level)
            mark(tree, right)
            put(times, up, at(g_times, k))
            put(slots, up, at(g_slots, k))
            put(rights, up, right)
            put(owners, up, owner)
            up += 1
            if node == at(head, RIGHT + level):
                put(head, RIGHT + level, right)
            node = right
            if inner:
                _adopt(tree, node, 0, at(g_rights, k))
            k += 1
        put(nodes, node + ENTRIES, size)
        _copy(nodes, node + TIMES, g_times, k, size)
        _copy(nodes, node + slot_column, g_slots, k, size)
        if inner:
            for i in range(size):
                _adopt(tree, node, i + 1, at(g_rights, k + i))
        k += size
    head[SPLITS] += parts - 1
    return up


def _gather(gathered: Any, n: Any, t: Any, slot: Any, right: Any) -> Any:
    put(gathered[0], n, t)
    put(gathered[1], n, slot)
    put(gathered[2], n, right)
    return n + 1


def _copy(words: Any, i: Any, source: Any, k: Any, count: Any) -> Any:
    for j in range(count):
        put(words, i + j, at(source, k + j))


def _adopt(tree: Any, node: Any, i: Any, child: Any) -> Any:
    head, nodes, free = tree
    put(nodes, node + children_of(head) + i, child)
    put(nodes, child + PARENT, node)


def _higher(tree: Any, node: Any) -> Any:
    """Put a root above the root."""
    head, nodes, free = tree
    level = at(nodes, node + LEVEL) + 1
    root = new_node(tree, level)
    put(nodes, root + children_of(head), node)
    put(nodes, node + PARENT, root)
    put(head, LEFT + level, root)
    put(head, RIGHT + level, root)
    head[ROOT] = root
    head[HEIGHT] = level
    head[HEIGHTS] += 1
