"""A window for every event, of many keys: a finger B-tree a key (FiBA 3), whose changes are a program.

An event is put into its key's tree, what leaves the window is evicted, and the window's answer is three pieces: the
left finger, the root, the right finger. All that is integers. What it means for partials comes out as instructions, in
the order of the events, which each aggregate then runs:

    FOLD     the event into its slot        COMBINE  every node that has to be repaired        COMBINE  the answer

Nodes and slots of all trees come from one pool, so a key costs its own times and one head.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from windlass.kernels import compiled
from windlass.slicing.instructions import COMBINE, FOLD, WIDTH
from windlass.stateful import Stateful
from windlass.stores.fiba import nodes as words
from windlass.stores.fiba.changing import live_step
from windlass.stores.fiba.eviction import evict, evict_up_to
from windlass.stores.fiba.insertion import take_in
from windlass.stores.fiba.nodes import (
    ENTRIES,
    FREE_NODE,
    FREE_SLOTS,
    FRESH_NODE,
    FRESH_SLOT,
    LEFT,
    LEVELS,
    NONE,
    RIGHT,
    ROW,
    SIZE,
    SPINES,
    TIMES,
    at,
    mark,
    new_slot,
    put,
    slots_of,
)
from windlass.stores.fiba.ranges import whole
from windlass.stores.fiba.repair import pieces_of, settle
from windlass.stores.fiba.search import down, start
from windlass.stores.fiba.times import LEAST

Integers = np.ndarray[Any, np.dtype[np.int64]]

MIN_ARITY = 4
_POOL = (FREE_NODE, FRESH_NODE, FREE_SLOTS, FRESH_SLOT)
_MOST = 4 * LEVELS  # nodes that one event makes be repaired
_INSTRUCTIONS = 1 << 13


class Trees(Stateful):
    """The windows of all keys, without partials. Key k has head k + 1; head 0 has the pool."""

    def __init__(self) -> None:
        self.heads: Integers = np.zeros((1, words.WORDS), np.int64)
        self.heads[0, words.ARITY], self.heads[0, FREE_NODE] = MIN_ARITY, NONE
        self.nodes: Integers = np.empty(0, np.int64)
        self.free: Integers = np.empty(0, np.int64)
        self.keys = 0

    @property
    def slots(self) -> int:
        return len(self.free)

    @property
    def rows(self) -> int:
        return int(len(self.nodes) // words.stride_of(MIN_ARITY))

    def __len__(self) -> int:
        """Times that are held."""
        return int(self.heads[1 : self.keys + 1, SIZE].sum())

    def add_keys(self, keys: int) -> None:
        if keys + 1 > len(self.heads):
            heads = np.zeros((max(keys + 1, 2 * len(self.heads)), words.WORDS), np.int64)
            heads[: len(self.heads)] = self.heads
            self.heads = heads
        if keys > self.keys:
            self._reserve(0, keys - self.keys)
            _plant()(self.heads, self.nodes, self.free, self.keys, keys)
            self.keys = keys

    def _reserve(self, events: int, keys: int = 0) -> None:
        """Room for so many more events, wherever they fall."""
        used = int(self.heads[0, FRESH_SLOT])
        if used + events > len(self.free):
            self.free = _longer(self.free, max(used + events, 2 * used))
        # A node but the root has three entries at least; a few wait to be freed.
        rows = len(self.free) // (MIN_ARITY - 1) + len(self.heads) + 4 * LEVELS + keys
        if rows > self.rows:
            self.nodes = _longer(self.nodes, max(rows, 2 * self.rows) * words.stride_of(MIN_ARITY))

    def take(self, key: Integers, times: Integers, order: Integers, done: int, window: int, span: int) -> Any:
        """Events in this order, from one on: how far they fit, the program, and its pieces. The window of each has so
        many times, or reaches back so far; without either, nothing leaves it and nothing is answered."""
        self._reserve(min(len(order) - done, _INSTRUCTIONS))
        program = np.empty((_INSTRUCTIONS + _MOST, WIDTH), np.int64)
        pieces = np.empty(((_INSTRUCTIONS + _MOST) * 4 * MIN_ARITY, 1), np.int64)
        done, n = _take()(
            self.heads, self.nodes, self.free, key, times, order, done, window, span, _room(), program, pieces
        )
        return done, program[:n], pieces

    def live(self) -> tuple[Integers, Integers, Integers]:
        """How many times each key has, these times, and their slots."""
        sizes = self.heads[1 : self.keys + 1, SIZE].copy()
        times, slots = np.empty(int(sizes.sum()), np.int64), np.empty(int(sizes.sum()), np.int64)
        _live()(self.heads, self.nodes, self.free, self.keys, times, slots)
        return sizes, times, slots


def _longer(array: Integers, length: int) -> Integers:
    longer = np.empty(length, np.int64)
    longer[: len(array)] = array
    return longer


def _room() -> Any:
    items = tuple(np.empty(LEVELS, np.int64) for _ in range(4))
    gathered = tuple(np.empty(4 * MIN_ARITY, np.int64) for _ in range(3))
    return items, gathered, np.empty(2 * _MOST, np.int64)


def enter(heads: Any, t: Any, nodes: Any, free: Any) -> Any:
    for word in _POOL:
        put(heads[t], word, at(heads[0], word))
    return heads[t], nodes, free


def leave(heads: Any, t: Any) -> Any:
    for word in _POOL:
        put(heads[0], word, at(heads[t], word))


def write(program: Any, n: Any, op: Any, target: Any, begin: Any, stop: Any, fresh: Any) -> Any:
    put(program[n], 0, op)
    put(program[n], 1, target)
    put(program[n], 2, begin)
    put(program[n], 3, stop)
    put(program[n], 4, fresh)
    return n + 1


def insert(tree: Any, t: Any, items: Any, gathered: Any) -> Any:
    """(slot, whether it is new) of a time."""
    head, nodes, free = tree
    node, i, found, bounded, bound = down(tree, start(tree, t), t)
    if found:
        mark(tree, node)
        return at(nodes, node + slots_of(head) + i), 0
    slot = new_slot(tree)
    put(items[0], 0, t)
    put(items[1], 0, slot)
    put(items[3], 0, node)
    head[SIZE] += 1
    take_in(tree, items, 1, gathered)
    return slot, 1


def has(tree: Any, t: Any) -> Any:
    node, i, found, bounded, bound = down(tree, start(tree, t), t)
    return found


@cache
def _plant() -> Any:
    def plant(heads: Any, nodes: Any, free: Any, begin: Any, end: Any) -> Any:
        for k in range(begin, end):
            words.prepare(heads[k + 1], MIN_ARITY, SPINES)
            words.plant(enter(heads, k + 1, nodes, free))
            leave(heads, k + 1)

    return compiled(plant)


@cache
def _take() -> Any:
    def take(
        heads: Any,
        nodes: Any,
        free: Any,
        key: Any,
        times: Any,
        order: Any,
        done: Any,
        window: Any,
        span: Any,
        room: Any,
        program: Any,
        pieces: Any,
    ) -> Any:
        items, gathered, repairs = room
        n = m = 0
        while done < len(order) and n < _INSTRUCTIONS:
            e = at(order, done)
            k, t = at(key, e) + 1, at(times, e)
            tree = enter(heads, k, nodes, free)
            size, late = at(heads[k], SIZE), False
            if span > 0 and size > 0:
                finger = at(heads[k], RIGHT)
                newest = at(nodes, finger + TIMES + at(nodes, finger + ENTRIES) - 1)
                late = newest >= LEAST + span and t <= newest - span
            if 0 < window <= size and not has(tree, t):
                evict(tree, at(nodes, at(heads[k], LEFT) + TIMES))
            if not late:
                slot, fresh = insert(tree, t, items, gathered)
                n = write(program, n, FOLD, slot, e, e + 1, fresh)
                if span > 0 and t >= LEAST + span:
                    evict_up_to(tree, t - span)
                for r in range(settle(tree, repairs)):
                    node, before = at(repairs, 2 * r), m
                    m = pieces_of(heads[k], nodes, node, at(repairs, 2 * r + 1), pieces[:, 0], m)
                    n = write(program, n, COMBINE, ~at(nodes, node + ROW), before, m, 0)
            if window > 0 or span > 0:
                before = m
                m += whole(tree, pieces[m:, 0])
                n = write(program, n, COMBINE, e, before, m, 0)
            leave(heads, k)
            done += 1
        return done, n

    return compiled(take)


@cache
def _live() -> Any:
    def live(heads: Any, nodes: Any, free: Any, keys: Any, times: Any, slots: Any) -> Any:
        n = 0
        for k in range(1, keys + 1):
            live_step((heads[k], nodes, free), times[n:], slots[n:])
            n += at(heads[k], SIZE)

    return compiled(live)
