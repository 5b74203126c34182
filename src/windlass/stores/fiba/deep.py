"""The plan of a deep chunk, whose own events may be evicted again before it ends.

Every time of the zone, and every time of the chunk that may go, is a leaf of its own. A rehearsal goes through the
events as they come and notes which leaf is dropped before which event, and which events come too late to count.
"""

from __future__ import annotations

from typing import Any

from windlass.kernels import lowest_bit
from windlass.stores.fiba.nodes import NONE, SIZE, at, put
from windlass.stores.fiba.ranges import walk
from windlass.stores.fiba.survey import EVICTED, LEAVES, SURVIVORS, ZONE, edge_of, is_gone, new_leaf
from windlass.stores.fiba.times import GREATEST

LATE = -1


def plan_deep(
    tree: Any,
    times: Any,
    begin: Any,
    n: Any,
    window: Any,
    span: Any,
    newest: Any,
    out: Any,
    more: Any,
    node: Any,
    i: Any,
) -> Any:
    """The plan of a deep chunk: every time of the zone is a leaf, and is dropped when it goes. What is left of the
    chunk in the end stays in `order`."""
    head, nodes, free = tree
    order, ops, fronts, starts, pieces, zone, slots, told = out
    drop_starts, drops, leaf_times, born, olds, bits = more
    count = told[ZONE]
    edge = edge_of(times, order, n, window, span, newest, zone, count)
    leaf, m, k, z = -1, 0, 0, 0
    while z < count or (k < n and at(times, at(order, k)) <= edge):
        t = at(times, at(order, k)) if k < n else at(zone, z)
        t = min(t, at(zone, z)) if z < count else t
        leaf = new_leaf(starts, leaf, m)
        if leaf & 31 == 0:
            put(bits, leaf >> 5, 0)
        put(leaf_times, leaf, t)
        put(born, leaf, -1)
        is_old = z < count and at(zone, z) == t
        put(olds, leaf, is_old)
        if is_old:
            put(pieces, m, at(slots, z))
            _flip(bits, leaf)
            m += 1
            z += 1
        while k < n and at(times, at(order, k)) == t:
            put(ops, at(order, k) - begin, leaf)
            k += 1
    zone_leaves, behind = leaf + 1, k
    last, before = -1, edge
    for k in range(behind, n + 1):
        event = at(order, min(k, n - 1))
        t = at(times, event) if k < n else GREATEST
        gap = m
        node, i, m, owner, holder = walk(tree, node, i, t, pieces, m, node)
        if m > gap:
            leaf, last = new_leaf(starts, leaf, gap), -1
        if k < n:
            if event < last or last < 0:
                leaf = new_leaf(starts, leaf, m)
            last = event
            put(ops, event - begin, leaf)
            put(fronts, event - begin, 0 if holder != NONE or (k > behind and before == t) else 1)
            before = t
    told[LEAVES] = new_leaf(starts, leaf, m)
    _rehearse(times, begin, n, window, span, newest, zone_leaves, head[SIZE], out, more)
    kept = 0
    for k in range(n):  # what was dropped again does not reach the tree
        event = at(order, k)
        leaf = at(ops, event - begin)
        if leaf >= zone_leaves or (leaf >= 0 and _is_set(bits, leaf) and event - begin >= at(born, leaf)):
            put(order, kept, event)
            kept += 1
    told[SURVIVORS] = kept
    told[ZONE] = 0  # its leaves stand for it


def _rehearse(
    times: Any,
    begin: Any,
    n: Any,
    window: Any,
    span: Any,
    newest: Any,
    zone_leaves: Any,
    size: Any,
    out: Any,
    more: Any,
) -> Any:
    """Go through a deep chunk as its events come: which of them is late, and which leaf goes before which event."""
    order, ops, fronts, starts, pieces, zone, slots, told = out
    drop_starts, drops, leaf_times, born, olds, bits = more
    d, lowest, evicted = 0, 0, 0
    for k in range(n):
        put(drop_starts, k, d)
        leaf, t = at(ops, k), at(times, begin + k)
        in_zone = leaf < zone_leaves
        comes = not _is_set(bits, leaf) if in_zone else at(fronts, k) == 1
        put(fronts, k, 0)
        if span > 0 and is_gone(t, newest, span):
            put(ops, k, LATE)
            continue
        newest = max(newest, t)
        full = span == 0 and comes and size == window
        while full or span > 0:
            lowest = _next_set(bits, lowest, zone_leaves)
            if lowest == zone_leaves or (span > 0 and not is_gone(at(leaf_times, lowest), newest, span)):
                break
            _flip(bits, lowest)
            put(drops, d, lowest)
            d += 1
            evicted += at(olds, lowest)
            put(olds, lowest, 0)
            size -= 1
            full = False
        if comes:
            size += 1
            if in_zone:
                _flip(bits, leaf)
                put(born, leaf, k)
                lowest = min(lowest, leaf)
    put(drop_starts, n, d)
    told[EVICTED] = evicted


def _is_set(bits: Any, i: Any) -> Any:
    return (at(bits, i >> 5) >> (i & 31)) & 1 == 1


def _flip(bits: Any, i: Any) -> Any:
    put(bits, i >> 5, at(bits, i >> 5) ^ (1 << (i & 31)))


def _next_set(bits: Any, i: Any, n: Any) -> Any:
    """The first bit that is set from i on; n if there is none."""
    while i < n:
        rest = at(bits, i >> 5) >> (i & 31)
        if rest != 0:
            return min(n, i + lowest_bit(rest))
        i = (i | 31) + 1
    return n
