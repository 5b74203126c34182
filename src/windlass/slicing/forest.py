"""A finger B-tree a key over its slices (FiBA): where slices are many and late ones fall deep among them.

    key 7      rows   s0 s1 s2 s3 s4 s5 …        one row a slice, as for the other stores
    its tree            s1      s4               by time, slots of the same partials;
                     s0    s2 s3    s5 …         nodes off the spines keep the partial of all below them

A slice that comes, or changes, deep in the past is repaired in its leaf and the O(log d) nodes between that and the
nearer end, where [blocks](blocks.py) combine everything behind it again. A window is a range query: O(log n) pieces,
which are slots and nodes (FiBA 4). Nothing asks for all slices at once, so the spines keep no aggregates here.

All trees have their nodes from one pool. A tree is planted when a window of many slices is asked for, and has the
slices that such windows are made of: slices behind the watermark, which only late events can change. It is told which
ones these touched, and looks again when it is asked: of the entries of the tree that lie between a slice's first and
last event there must be one, with its slot. Entries never move in time, though slices grow: a slice grows into times
where no other one is.

What a tree does is a program, like everything that happens to slices: COMBINE, for a node or for a window.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from windlass.kernels import compiled
from windlass.slicing.general import closed
from windlass.slicing.instructions import COMBINE, WIDTH
from windlass.slicing.slices import BASE, FIRST, HI, LAST, LO, SLOT, Slices, position
from windlass.stores.fiba import nodes as words
from windlass.stores.fiba.eviction import evict, evict_up_to
from windlass.stores.fiba.insertion import take_in
from windlass.stores.fiba.nodes import (
    ARITY,
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

Array = np.ndarray[Any, Any]
Integers = np.ndarray[Any, np.dtype[np.int64]]

MIN_ARITY = 4
FEW = 16  # slices that are combined one by one
OWNER, FROM, UPTO = 1, 2, 3  # of a window: its key, and its slices by their places in the key's run

# Behind the words of a tree's head: whose it is, whether it waits to be settled, and up to what time it has all slices.
# Head 0 is no tree: it has the free nodes, the free trees, and how many of both were ever used.
_KEY, _WAITS, _LAST = range(words.WORDS, words.WORDS + 3)
_FREE_TREE, _TREES = ROOT, SIZE
_NOTHING, _ITEMS, _NODES, _HEADS = range(4)  # what is missing to plant more
_PIECES = 1 << 15
_MOST = 16 * MIN_ARITY * 24  # pieces of a range


class Forest:
    """The trees of all keys, without partials: what it returns is to be run on those of each aggregate."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all trees; they are planted again from the slices as windows ask for them."""
        self.tree_of: Integers = np.zeros(0, np.int64)
        self.heads: Integers = np.zeros((2, words.WORDS + 3), np.int64)
        self.heads[0, _TREES], self.heads[0, ARITY] = 1, MIN_ARITY
        self.heads[0, _FREE_TREE] = self.heads[0, FREE_NODE] = NONE
        self.nodes: Integers = np.empty(64 * words.stride_of(MIN_ARITY), np.int64)
        self.waiting: Integers = np.empty(2, np.int64)  # trees that are not settled
        self.waits = 0
        self.repairs: Integers = np.empty(0, np.int64)
        self.touched: list[Integers] = []  # (key, time) of slices that came or changed
        self.count = 0

    @property
    def rows(self) -> int:
        """For how many nodes there is room."""
        return int(len(self.nodes) // words.stride_of(MIN_ARITY))

    def touch(self, keys: Integers, times: Integers, slices: Slices) -> None:
        """Slices of these keys that hold these times came or changed late."""
        if self.heads[0, _TREES] == 1:
            return
        self.touched.append(np.column_stack([keys, times]))
        self.count += len(keys)
        if self.count > 4096 + 2 * len(slices):
            self._tend(slices)

    def _wood(self, slices: Slices) -> tuple[Integers, ...]:
        keys, trees = len(slices.directory), len(self.heads)
        if len(self.tree_of) < keys:
            self.tree_of = _longer(self.tree_of, keys)
        if self.heads[0, _TREES] == trees:
            heads = np.zeros((2 * trees, self.heads.shape[1]), np.int64)
            heads[:trees] = self.heads
            self.heads, self.waiting = heads, _longer(self.waiting, 2 * trees)
        return self.tree_of, self.heads, self.nodes, self.waiting, slices.directory, slices.rows

    def _grow(self) -> None:
        self.nodes = _longer(self.nodes, 2 * len(self.nodes))

    def _tend(self, slices: Slices) -> None:
        """Let the trees have the slices that were touched."""
        touched, self.touched, self.count = self.touched, [], 0
        items, gathered, freed = _room(1, slices)
        for part in touched:
            done = 0
            while True:
                wood = self._wood(slices)
                done, self.waits = _tend()(wood, part, done, self.waits, items, gathered, freed)
                if done == len(part):
                    break
                self._grow()

    def trim(self, slices: Slices) -> None:
        """Slices were evicted: so are their entries, before others come in their place."""
        if self.heads[0, _TREES] > 1:
            self.waits = _trim()(self._wood(slices), self.waits, np.empty(slices.slots + 1, np.int64))

    def prepare(self, windows: Integers, upto: int, slices: Slices) -> tuple[Integers, Integers]:
        """All trees that these windows need, which end up to that time. Returns the program that combines nodes, and
        its pieces."""
        self._tend(slices)
        done, room = 0, _room(1, slices)
        while done < len(windows):
            done, self.waits, missing, n = _extend()(windows, done, upto, self._wood(slices), self.waits, FEW, *room)
            if missing == _ITEMS:
                room = _room(2 * n, slices)
            elif missing == _NODES:
                self._grow()
        if len(self.repairs) < 2 * self.rows:
            self.repairs = np.empty(2 * self.rows, np.int64)
        wood = self._wood(slices)
        n = int(_settle()(wood, self.waits, self.repairs))
        self.waits = 0
        program, pieces = np.empty((n, WIDTH), np.int64), np.empty((n * 4 * MIN_ARITY, 1), np.int64)
        _write()(wood, self.repairs, n, program, pieces)
        return program, pieces

    def ask(self, windows: Integers, done: int, slices: Slices) -> tuple[int, Integers, Integers]:
        """The program that answers windows from one on, as many as fit; the first that is left."""
        room = len(windows) - done
        program = np.empty((min(room, _PIECES // 16), WIDTH), np.int64)
        pieces = np.empty((_PIECES + _MOST, 1), np.int64)
        done, n = _ask()(windows, done, self._wood(slices), FEW, program, pieces)
        return done, program[:n], pieces


def _longer(array: Integers, length: int) -> Integers:
    longer = np.zeros(length, np.int64)
    longer[: len(array)] = array
    return longer


def _room(n: int, slices: Slices) -> tuple[Any, ...]:
    """Arrays to let n slices into a tree, and for slots that it gives up: they are the slices' own."""
    items = tuple(np.empty(n + LEVELS, np.int64) for _ in range(4))
    gathered = tuple(np.empty(n + 4 * MIN_ARITY, np.int64) for _ in range(3))
    return items, gathered, np.empty(max(n, slices.slots) + 1, np.int64)


# ---------------------------------------------------------------------- steps, compiled once for all aggregates


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
    if at(heads[t], _WAITS) == 0:
        put(heads[t], _WAITS, 1)
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
def _tend() -> Any:
    def tend(wood: Any, touched: Any, done: Any, waits: Any, items: Any, gathered: Any, freed: Any) -> Any:
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
            if rows[r, FIRST] > at(heads[t], _LAST):
                continue  # no window has asked for it yet
            tree = enter(heads, t, nodes, freed)
            tend_slice(tree, rows[r, FIRST], rows[r, LAST], rows[r, SLOT], items, gathered)
            leave(heads, t)
            waits = wait(heads, t, waiting, waits)
        return touched.shape[0], waits

    return compiled(tend)


@cache
def _trim() -> Any:
    def trim(wood: Any, waits: Any, freed: Any) -> Any:
        tree_of, heads, nodes, waiting, directory, rows = wood
        for t in range(1, at(heads[0], _TREES)):
            k = at(heads[t], _KEY)
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

    return compiled(trim)


@cache
def _extend() -> Any:
    """Trees for the keys of windows, up to the slices that these are made of; returns how far it came, and if that is
    not the end, what is missing for how many slices."""

    def extend(
        windows: Any, done: Any, upto: Any, wood: Any, waits: Any, few: Any, items: Any, gathered: Any, freed: Any
    ) -> Any:
        tree_of, heads, nodes, waiting, directory, rows = wood
        firsts = rows[:, FIRST]
        for w in range(done, windows.shape[0]):
            k, q = windows[w, OWNER], windows[w, UPTO]
            base, t = directory[k, BASE], at(tree_of, k)
            if q - windows[w, FROM] <= few or (t != 0 and rows[base + q - 1, FIRST] <= at(heads[t], _LAST)):
                continue
            first, stop = base + directory[k, LO], base + closed(firsts, directory, k, q, upto)
            if t != 0:
                first = position(firsts, first, stop, at(heads[t], _LAST) + 1)
            n = stop - first
            if n + LEVELS > len(items[0]):
                return w, waits, _ITEMS, n
            if not has_room(heads, nodes, n // (MIN_ARITY - 1) + LEVELS):
                return w, waits, _NODES, n
            if t == 0:
                t = at(heads[0], _FREE_TREE)
                if t != NONE:
                    put(heads[0], _FREE_TREE, at(heads[t], ROOT))
                elif at(heads[0], _TREES) == heads.shape[0]:
                    return w, waits, _HEADS, n
                else:
                    t = at(heads[0], _TREES)
                    put(heads[0], _TREES, t + 1)
                    put(heads[t], _WAITS, 0)
                put(tree_of, k, t)
                words.prepare(heads[t], MIN_ARITY, RANGES)
                put(heads[t], _KEY, k)
                words.plant(enter(heads, t, nodes, freed))
                leave(heads, t)
            for j in range(n):
                put(items[0], j, rows[first + j, FIRST])
                put(items[1], j, rows[first + j, SLOT])
                put(items[3], j, at(heads[t], RIGHT))
            put(heads[t], SIZE, at(heads[t], SIZE) + n)
            put(heads[t], _LAST, rows[stop - 1, LAST])
            take_in(enter(heads, t, nodes, freed), items, n, gathered)
            leave(heads, t)
            waits = wait(heads, t, waiting, waits)
        return windows.shape[0], waits, _NOTHING, 0

    return compiled(extend)


@cache
def _settle() -> Any:
    """Nodes to repair, of all trees that wait. A tree without slices ends."""

    def settle_trees(wood: Any, waits: Any, repairs: Any) -> Any:
        tree_of, heads, nodes, waiting, directory, rows = wood
        n = 0
        for w in range(waits):
            t = at(waiting, w)
            put(heads[t], _WAITS, 0)
            tree = enter(heads, t, nodes, waiting)
            n += settle(tree, repairs[2 * n :])
            leave(heads, t)
            if at(heads[t], SIZE) == 0 and at(heads[t], _KEY) != NONE:
                root = at(heads[t], ROOT)
                put(nodes, root + NEXT, at(heads[0], FREE_NODE))
                put(heads[0], FREE_NODE, root)
                put(tree_of, at(heads[t], _KEY), 0)
                put(heads[t], _KEY, NONE)
                put(heads[t], ROOT, at(heads[0], _FREE_TREE))
                put(heads[0], _FREE_TREE, t)
        return n

    return compiled(settle_trees)


@cache
def _write() -> Any:
    def write(wood: Any, repairs: Any, n: Any, program: Any, pieces: Any) -> Any:
        tree_of, heads, nodes, waiting, directory, rows = wood
        m = 0
        for k in range(n):
            node, before = at(repairs, 2 * k), m
            m = pieces_of(heads[0], nodes, node, at(repairs, 2 * k + 1), pieces[:, 0], m)
            put(program[k], 0, COMBINE)
            put(program[k], 1, ~at(nodes, node + words.ROW))
            put(program[k], 2, before)
            put(program[k], 3, m)

    return compiled(write)


@cache
def _ask() -> Any:
    def ask(windows: Any, done: Any, wood: Any, few: Any, program: Any, pieces: Any) -> Any:
        tree_of, heads, nodes, waiting, directory, rows = wood
        m = n = 0
        while done < windows.shape[0] and n < program.shape[0] and m < _PIECES:
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

    return compiled(ask)
