"""What a chunk of a stream will do to the window, found out before anything is changed: a plan for its answers.

The chunk's events, sorted by time, cut what stays of the window into gaps, which do not change while the chunk runs,
and runs, which grow at their end; all are leaves of a small binary tree (`answering`). In front of them is the zone:
the oldest events of the window, as many as this chunk can evict, of which every suffix will be wanted.

    window   │ z z z z z │ gap │ run │ gap │ run │          zone: each z goes as an event comes
                           leaf  leaf  leaf  leaf           a run: events next to each other in time that came in this
                           order

So a chunk in order has two leaves, as has one whose events all come at the same distance; only as disorder
grows there are more, up to two an event. None of this looks at a partial.

A chunk whose events fall into the zone (disorder as deep as the window, or a window smaller than the chunk) is *deep*:
its own events may be evicted again before it ends. Then every time in the zone is a leaf of its own, which is dropped
when it goes.
"""

from __future__ import annotations

from typing import Any

from windlass.kernels import unsigned
from windlass.stores.fiba.insertion import is_ascending, new_items
from windlass.stores.fiba.nodes import (
    ENTRIES,
    LEFT,
    LEVEL,
    NONE,
    PARENT,
    RIGHT,
    ROOT,
    SIZE,
    TIMES,
    at,
    children_of,
    mark,
    new_slot,
    place_of,
    put,
    slots_of,
)
from windlass.stores.fiba.ranges import walk
from windlass.stores.fiba.search import down, start
from windlass.stores.fiba.times import GREATEST, LEAST

ZONE, LEAVES, EVICTED, SURVIVORS = range(4)  # what a plan tells besides its arrays
DEEP = 9
DIGITS = 10  # bits


def sort(times: Any, begin: Any, n: Any, order: Any, other: Any, counts: Any) -> Any:
    """Events begin … begin + n - 1 by time, stable: their places, in `order`. Sorted by digits, least first. Returns
    whether they ascended strictly before."""
    ascending, strictly = is_ascending(times, begin, n)
    for k in range(n):
        put(order, k, begin + k)
    if ascending:
        return strictly
    least = greatest = at(times, begin)
    for k in range(begin + 1, begin + n):
        least, greatest = min(least, at(times, k)), max(greatest, at(times, k))
    span, shift = unsigned(greatest - least), 0
    flipped = False
    while shift < 64 and span >> unsigned(shift) != 0:
        _pass(times, least, shift, other if flipped else order, order if flipped else other, n, counts)
        shift += DIGITS
        flipped = not flipped
    if flipped:
        for k in range(n):
            put(order, k, at(other, k))
    return False


def _pass(times: Any, least: Any, shift: Any, given: Any, sorted_: Any, n: Any, counts: Any) -> Any:
    digits = 1 << DIGITS
    for d in range(digits):
        put(counts, d, 0)
    for k in range(n):
        d = (unsigned(at(times, at(given, k)) - least) >> unsigned(shift)) & unsigned(digits - 1)
        put(counts, d, at(counts, d) + 1)
    total = 0
    for d in range(digits):
        count = at(counts, d)
        put(counts, d, total)
        total += count
    for k in range(n):
        event = at(given, k)
        d = (unsigned(at(times, event) - least) >> unsigned(shift)) & unsigned(digits - 1)
        put(sorted_, at(counts, d), event)
        put(counts, d, at(counts, d) + 1)


def older(tree: Any, t: Any) -> Any:
    """How many times are up to t."""
    head, nodes, free = tree
    node, i, n = head[LEFT], 0, 0
    child_column = children_of(head)
    while n < head[SIZE]:
        while i < at(nodes, node + ENTRIES) and at(nodes, node + LEVEL) == 0 and at(nodes, node + TIMES + i) <= t:
            i += 1
            n += 1
        if n == head[SIZE] or (i < at(nodes, node + ENTRIES) and at(nodes, node + LEVEL) == 0):
            return n
        i = place_of(tree, at(nodes, node + PARENT), node)
        node = at(nodes, node + PARENT)
        while i == at(nodes, node + ENTRIES):
            i = place_of(tree, at(nodes, node + PARENT), node)
            node = at(nodes, node + PARENT)
        if at(nodes, node + TIMES + i) > t:
            return n
        n += 1
        node = at(nodes, node + child_column + i + 1)
        while at(nodes, node + LEVEL) > 0:
            node = at(nodes, node + child_column)
        i = 0
    return n


def enter_zone(tree: Any, zone: Any, slots: Any, count: Any) -> Any:
    """(leaf, i): the place behind the oldest `count`, whose times and slots are written down."""
    head, nodes, free = tree
    slot_column, child_column = slots_of(head), children_of(head)
    node, i, n = head[LEFT], 0, 0
    while n < count:
        taken = min(at(nodes, node + ENTRIES), count - n)
        for j in range(taken):
            put(zone, n + j, at(nodes, node + TIMES + j))
        for j in range(taken):
            put(slots, n + j, at(nodes, node + slot_column + j))
        n += taken
        i = taken
        if n < count:  # the entry behind the leaf, and on to the next one
            i = at(nodes, node + ENTRIES)
            while i == at(nodes, node + ENTRIES):
                i = place_of(tree, at(nodes, node + PARENT), node)
                node = at(nodes, node + PARENT)
            put(zone, n, at(nodes, node + TIMES + i))
            put(slots, n, at(nodes, node + slot_column + i))
            n += 1
            node = at(nodes, node + child_column + i + 1)
            while at(nodes, node + LEVEL) > 0:
                node = at(nodes, node + child_column)
            i = 0
    return node, i


def plan(
    tree: Any,
    times: Any,
    begin: Any,
    n: Any,
    strictly: Any,
    window: Any,
    span: Any,
    newest: Any,
    out: Any,
    node: Any,
    i: Any,
    items: Any,
    new: Any,
    changes: Any,
) -> Any:
    """Plan events begin … begin + n - 1, sorted in `order`; `told[ZONE]` is how many the zone has, and entry i of the
    node is behind it. The walk through the window finds where each event belongs, too: if the plan `changes` the tree,
    `items` are what it takes in, `new` the slots. Returns how many items there are, or -1 if the chunk is deep: nothing
    is planned then."""
    head, nodes, free = tree
    order, ops, fronts, starts, pieces, zone, slots, told = out
    count = told[ZONE]
    if at(times, at(order, 0)) <= edge_of(times, order, n, window, span, newest, zone, count):
        return -1
    finger = head[RIGHT]
    youngest = at(nodes, finger + TIMES + at(nodes, finger + ENTRIES) - 1)
    at_end = head[SIZE] == 0 or (count > 0 and at(zone, count - 1) == youngest)
    owner = finger if at_end else node
    leaf, m, last, before, taken, k = -1, 0, -1, LEAST, 0, 0  # `last`: the event whose run may go on
    while k <= n:
        holder, event, t = NONE, 0, GREATEST  # behind the last event, the rest of the window
        if k < n:
            event = at(order, k)
            t = at(times, event)
        if not at_end:
            gap, at_end = m, k == n or t > youngest
            node, i, m, owner, holder = walk(tree, node, i, GREATEST if at_end else t, pieces, m, owner)
            if at_end:
                owner, holder = finger, NONE
            if m > gap:
                leaf, last = new_leaf(starts, leaf, gap), -1
        if k == n:
            break
        if event < last or last < 0:
            leaf = new_leaf(starts, leaf, m)
        last = event
        put(ops, event - begin, leaf)
        fresh = 0
        if not changes:
            pass
        elif k > 0 and before == t:
            slot = at(new, k - 1)
            put(new, k, slot if slot >= 0 else ~slot)
        elif holder != NONE:
            put(new, k, at(pieces, m - 1))
            mark(tree, holder)
        else:
            fresh = 1
            slot = new_slot(tree)
            put(new, k, ~slot)
            put(items[0], taken, t)
            put(items[1], taken, slot)
            put(items[3], taken, owner)
            taken += 1
        put(fronts, event - begin, fresh)  # whether it brings a new time
        before = t
        k += 1
        if fresh == 1 and k < n:  # up to the next entry, all that follow belong to the same leaf
            limit = GREATEST if at_end else at(nodes, node + TIMES + i)
            if strictly and (at_end or at(times, begin + n - 1) < limit):
                run = n - k
            else:
                run = _followers(times, order, k, n, at_end, limit)
            for j in range(run):
                put(ops, event - begin + 1 + j, leaf)
            for j in range(run):
                put(fronts, event - begin + 1 + j, 1)
            new_items(tree, times, event + 1, run, owner, items, taken, new, k)
            k += run
            taken += run
            last, before = event + run, at(times, event + run)
    told[LEAVES] = new_leaf(starts, leaf, m)
    size, front = head[SIZE], 0
    if span == 0 and taken == n:  # every event brings a time: a loop that needs no state
        for k in range(n):
            put(fronts, k, max(0, size + k + 1 - window))
        front = max(0, size + n - window)
    for k in range(0 if span > 0 or taken < n else n, n):
        if span > 0:
            newest = max(newest, at(times, begin + k))
            while front < count and is_gone(at(zone, front), newest, span):
                front += 1
        else:
            front += size + at(fronts, k) > window
            size += size + at(fronts, k) <= window and at(fronts, k) == 1
        put(fronts, k, front)
    told[EVICTED] = front
    told[SURVIVORS] = n
    head[SIZE] += taken
    return taken


def enter_part(tree: Any, first: Any, last: Any, zone: Any, slots: Any) -> Any:
    """(node, i, count): the same for a part of the window: the zone is its times from `first` to `last`. The count is
    -1 if they are more than there is room for."""
    head, nodes, free = tree
    slot_column, child_column = slots_of(head), children_of(head)
    node, i, found, bounded, bound = down(tree, start(tree, first), first)
    n = 0
    while True:
        if i == at(nodes, node + ENTRIES):
            if node == head[ROOT]:
                break
            i = place_of(tree, at(nodes, node + PARENT), node)
            node = at(nodes, node + PARENT)
            continue
        if at(nodes, node + TIMES + i) > last:
            break
        if n == len(zone):
            return node, i, -1
        put(zone, n, at(nodes, node + TIMES + i))
        put(slots, n, at(nodes, node + slot_column + i))
        n += 1
        i += 1
        while at(nodes, node + LEVEL) > 0:
            node = at(nodes, node + child_column + i)
            i = 0
    return node, i, n


def _followers(times: Any, order: Any, k: Any, n: Any, endless: Any, limit: Any) -> Any:
    """How many of the sorted events from k on came right after the one before, are later, and before the limit, if
    there is one."""
    stop, event = k, at(order, k - 1) + 1
    while stop < n and at(order, stop) == event and at(times, event) > at(times, event - 1):
        if not endless and at(times, event) >= limit:
            break
        stop += 1
        event += 1
    return stop - k


def new_leaf(starts: Any, leaf: Any, m: Any) -> Any:
    put(starts, leaf + 1, m)
    return leaf + 1


def is_gone(t: Any, newest: Any, span: Any) -> Any:
    """Whether a window of this span has left a time behind."""
    return newest >= LEAST + span and t <= newest - span


def edge_of(times: Any, order: Any, n: Any, window: Any, span: Any, newest: Any, zone: Any, count: Any) -> Any:
    """Up to which time an event of this chunk may be evicted before the chunk ends."""
    if 0 < window < n:
        return GREATEST
    edge = at(zone, count - 1) if count > 0 else LEAST
    newest = max(newest, at(times, at(order, n - 1)))
    return max(edge, newest - span) if span > 0 and newest >= LEAST + span else edge
