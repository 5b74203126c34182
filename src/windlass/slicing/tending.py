"""The steps of a forest, over integers alone: compiled once for all aggregates.

wood = (tree of each key, heads of trees, nodes, trees that wait to be settled, directory and rows of slices)
"""

from __future__ import annotations

from functools import cache
from typing import Any

from windlass.kernels import compiled
from windlass.slicing.due import closed
from windlass.slicing.instructions import COMBINE
from windlass.slicing.slices import BASE, FIRST, HI, LAST, LO, SLOT, position
from windlass.stores.fiba import nodes as words
from windlass.stores.fiba.eviction import evict, evict_up_to
from windlass.stores.fiba.insertion import take_in
from windlass.stores.fiba.nodes import (
    ENTRIES,
    FREE_NODE,
    FREE_SLOTS,
    FRESH_NODE,
    LEVEL,
    LEVELS,
    NEXT,
    NONE,
    PARENT,
    RANGES,
    RIGHT,
    ROOT,
    SIZE,
    TIMES,
    at,
    children_of,
    mark,
    place_of,
    put,
    slots_of,
)
from windlass.stores.fiba.ranges import walk
from windlass.stores.fiba.repair import pieces_of, settle
from windlass.stores.fiba.search import down, start
from windlass.stores.fiba.times import GREATEST

MIN_ARITY = 4

# Behind the words of a tree's head: whose it is, whether it waits to be settled, and up to what time it has all slices.
# Head 0 is no tree: it has the free nodes, the free trees, and how many of both were ever used.
KEY, WAITS, COVERED = range(words.WORDS, words.WORDS + 3)
HEAD = words.WORDS + 3
FREE_TREE, TREES = ROOT, SIZE

OWNER, FROM, UPTO = 1, 2, 3  # of a window: its key, and its slices by their places in the key's run
NOTHING, ITEMS, NODES, HEADS = range(4)  # what is missing to plant more
PIECES = 1 << 15  # of a program that answers windows
MOST_PIECES = 16 * MIN_ARITY * 24  # of a range


def enter(heads: Any, t: Any, rows: Any, freed: Any) -> Any:
    """A tree of the forest, which takes its nodes from the pool."""
    put(heads[t], FREE_NODE, at(heads[0], FREE_NODE))
    put(heads[t], FRESH_NODE, at(heads[0], FRESH_NODE))
    put(heads[t], FREE_SLOTS, 0)
    return heads[t], rows, freed


def leave(heads: Any, t: Any) -> Any:
    put(heads[0], FREE_NODE, at(heads[t], FREE_NODE))
    put(heads[0], FRESH_NODE, at(heads[t], FRESH_NODE))


def wait(heads: Any, t: Any, waiting: Any, waits: Any) -> Any:
    if at(heads[t], WAITS) == 0:
        put(heads[t], WAITS, 1)
        put(waiting, waits, t)
        waits += 1
    return waits


def has_room(heads: Any, nodes: Any, more: Any) -> Any:
    """Whether so many new nodes can be had."""
    return (at(heads[0], FRESH_NODE) + more) * words.stride_of(MIN_ARITY) <= len(nodes)


def behind(tree: Any, node: Any, i: Any) -> Any:
    """(node, i): entry i of a leaf; if it has no such, the next one up the tree. NONE behind the last."""
    head, rows, freed = tree
    while i == at(rows, node + ENTRIES):
        if node == head[ROOT]:
            return NONE, 0
        i = place_of(tree, at(rows, node + PARENT), node)
        node = at(rows, node + PARENT)
    return node, i


def after(tree: Any, node: Any, i: Any) -> Any:
    """The entry after entry i of a node."""
    head, rows, freed = tree
    if at(rows, node + LEVEL) == 0:
        return behind(tree, node, i + 1)
    node = at(rows, node + children_of(head) + i + 1)
    while at(rows, node + LEVEL) > 0:
        node = at(rows, node + children_of(head))
    return node, 0


def tend_slice(tree: Any, first: Any, last: Any, slot: Any, items: Any, gathered: Any) -> Any:
    """One entry for the slice from first to last: what was merged into it goes; if there is none, it is new."""
    head, rows, freed = tree
    while True:
        leaf, i, found, bounded, bound = down(tree, start(tree, first), first)
        node, i = behind(tree, leaf, i)
        if node == NONE or at(rows, node + TIMES + i) > last:
            put(items[0], 0, first)
            put(items[1], 0, slot)
            put(items[3], 0, leaf)
            head[SIZE] += 1
            take_in(tree, items, 1, gathered)
            return
        next_, j = after(tree, node, i)
        if next_ == NONE or at(rows, next_ + TIMES + j) > last:
            put(rows, node + slots_of(head) + i, slot)
            mark(tree, node)
            return
        evict(tree, at(rows, next_ + TIMES + j))


@cache
def tend() -> Any:
    def tend_slices(wood: Any, touched: Any, done: Any, waits: Any, items: Any, gathered: Any, freed: Any) -> Any:
        tree_of, heads, nodes, waiting, directory, rows = wood
        firsts = rows[:, FIRST]
        for d in range(done, touched.shape[0]):
            if not has_room(heads, nodes, LEVELS):
                return d, waits
            k = touched[d, 0]
            t = at(tree_of, k)
            lo, hi = directory[k, BASE] + directory[k, LO], directory[k, BASE] + directory[k, HI]
            r = position(firsts, lo, hi, touched[d, 1] + 1) - 1
            if t == 0 or r < lo or rows[r, LAST] < touched[d, 1]:
                continue  # it was evicted since
            if rows[r, FIRST] > at(heads[t], COVERED):
                continue  # no window has asked for it yet
            tree = enter(heads, t, nodes, freed)
            tend_slice(tree, rows[r, FIRST], rows[r, LAST], rows[r, SLOT], items, gathered)
            leave(heads, t)
            waits = wait(heads, t, waiting, waits)
        return touched.shape[0], waits

    return compiled(tend_slices)


@cache
def trim() -> Any:
    def trim_trees(wood: Any, waits: Any, freed: Any) -> Any:
        tree_of, heads, nodes, waiting, directory, rows = wood
        for t in range(1, at(heads[0], TREES)):
            k = at(heads[t], KEY)
            if k == NONE or at(heads[t], SIZE) == 0:
                continue
            first = GREATEST
            if directory[k, HI] > directory[k, LO]:
                first = rows[directory[k, BASE] + directory[k, LO], FIRST] - 1
            if at(nodes, at(heads[t], words.LEFT) + TIMES) <= first:
                evict_up_to(enter(heads, t, nodes, freed), first)
                leave(heads, t)
                waits = wait(heads, t, waiting, waits)
        return waits

    return compiled(trim_trees)


@cache
def extend() -> Any:
    """Trees for the keys of windows, up to the slices that these are made of; returns how far it came, and if that is
    not the end, what is missing for how many slices."""

    def extend_trees(
        windows: Any, done: Any, upto: Any, wood: Any, waits: Any, few: Any, items: Any, gathered: Any, freed: Any
    ) -> Any:
        tree_of, heads, nodes, waiting, directory, rows = wood
        firsts = rows[:, FIRST]
        for w in range(done, windows.shape[0]):
            k, q = windows[w, OWNER], windows[w, UPTO]
            base, t = directory[k, BASE], at(tree_of, k)
            if q - windows[w, FROM] <= few or (t != 0 and rows[base + q - 1, FIRST] <= at(heads[t], COVERED)):
                continue
            first, stop = base + directory[k, LO], base + closed(firsts, directory, k, q, upto)
            if t != 0:
                first = position(firsts, first, stop, at(heads[t], COVERED) + 1)
            n = stop - first
            if n + LEVELS > len(items[0]):
                return w, waits, ITEMS, n
            if not has_room(heads, nodes, n // (MIN_ARITY - 1) + LEVELS):
                return w, waits, NODES, n
            if t == 0:
                t = at(heads[0], FREE_TREE)
                if t != NONE:
                    put(heads[0], FREE_TREE, at(heads[t], ROOT))
                elif at(heads[0], TREES) == heads.shape[0]:
                    return w, waits, HEADS, n
                else:
                    t = at(heads[0], TREES)
                    put(heads[0], TREES, t + 1)
                    put(heads[t], WAITS, 0)
                put(tree_of, k, t)
                words.prepare(heads[t], MIN_ARITY, RANGES)
                put(heads[t], KEY, k)
                words.plant(enter(heads, t, nodes, freed))
                leave(heads, t)
            for j in range(n):
                put(items[0], j, rows[first + j, FIRST])
                put(items[1], j, rows[first + j, SLOT])
                put(items[3], j, at(heads[t], RIGHT))
            put(heads[t], SIZE, at(heads[t], SIZE) + n)
            put(heads[t], COVERED, rows[stop - 1, LAST])
            take_in(enter(heads, t, nodes, freed), items, n, gathered)
            leave(heads, t)
            waits = wait(heads, t, waiting, waits)
        return windows.shape[0], waits, NOTHING, 0

    return compiled(extend_trees)


@cache
def settle_all() -> Any:
    """Nodes to repair, of all trees that wait. A tree without slices ends."""

    def settle_trees(wood: Any, waits: Any, repairs: Any) -> Any:
        tree_of, heads, nodes, waiting, directory, rows = wood
        n = 0
        for w in range(waits):
            t = at(waiting, w)
            put(heads[t], WAITS, 0)
            tree = enter(heads, t, nodes, waiting)
            n += settle(tree, repairs[2 * n :])
            leave(heads, t)
            if at(heads[t], SIZE) == 0 and at(heads[t], KEY) != NONE:
                root = at(heads[t], ROOT)
                put(nodes, root + NEXT, at(heads[0], FREE_NODE))
                put(heads[0], FREE_NODE, root)
                put(tree_of, at(heads[t], KEY), 0)
                put(heads[t], KEY, NONE)
                put(heads[t], ROOT, at(heads[0], FREE_TREE))
                put(heads[0], FREE_TREE, t)
        return n

    return compiled(settle_trees)


@cache
def write() -> Any:
    def write_repairs(wood: Any, repairs: Any, n: Any, program: Any, pieces: Any) -> Any:
        tree_of, heads, nodes, waiting, directory, rows = wood
        m = 0
        for k in range(n):
            node, before = at(repairs, 2 * k), m
            m = pieces_of(heads[0], nodes, node, at(repairs, 2 * k + 1), pieces[:, 0], m)
            put(program[k], 0, COMBINE)
            put(program[k], 1, ~at(nodes, node + words.ROW))
            put(program[k], 2, before)
            put(program[k], 3, m)

    return compiled(write_repairs)


@cache
def ask() -> Any:
    def ask_windows(windows: Any, done: Any, wood: Any, few: Any, program: Any, pieces: Any) -> Any:
        tree_of, heads, nodes, waiting, directory, rows = wood
        m = n = 0
        while done < windows.shape[0] and n < program.shape[0] and m < PIECES:
            k, base = windows[done, OWNER], directory[windows[done, OWNER], BASE]
            p, q, before = base + windows[done, FROM], base + windows[done, UPTO], m
            t = at(tree_of, k)
            if q - p <= few:
                for r in range(p, q):
                    pieces[m, 0] = rows[r, SLOT]
                    m += 1
            else:
                tree = heads[t], nodes, waiting
                first, last = rows[p, FIRST], rows[q - 1, LAST]
                node, i, found, bounded, bound = down(tree, start(tree, first), first)
                node, i, m, leaf, holder = walk(tree, node, i, last, pieces[:, 0], m, node)
            put(program[n], 0, COMBINE)
            put(program[n], 1, done)
            put(program[n], 2, before)
            put(program[n], 3, m)
            n += 1
            done += 1
        return done, n

    return compiled(ask_windows)
