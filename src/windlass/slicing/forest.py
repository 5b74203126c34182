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

from typing import Any

import numpy as np

from windlass.slicing import tending
from windlass.slicing.instructions import WIDTH
from windlass.slicing.slices import Slices
from windlass.slicing.tending import FREE_TREE, HEAD, ITEMS, MIN_ARITY, MOST_PIECES, NODES, PIECES, TREES
from windlass.stateful import Stateful
from windlass.stores.fiba import nodes as words
from windlass.stores.fiba.nodes import ARITY, FREE_NODE, LEVELS, NONE

Integers = np.ndarray[Any, np.dtype[np.int64]]

FEW = 16  # slices that are combined one by one


class Forest(Stateful):
    """The trees of all keys, without partials: what it returns is to be run on those of each aggregate."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all trees; they are planted again from the slices as windows ask for them."""
        self.tree_of: Integers = np.zeros(0, np.int64)
        self.heads: Integers = np.zeros((2, HEAD), np.int64)
        self.heads[0, TREES], self.heads[0, ARITY] = 1, MIN_ARITY
        self.heads[0, FREE_TREE] = self.heads[0, FREE_NODE] = NONE
        self.nodes: Integers = np.empty(64 * words.stride_of(MIN_ARITY), np.int64)
        self.waiting: Integers = np.empty(2, np.int64)  # trees that are not settled
        self.waits = 0
        self.repairs: Integers = np.empty(0, np.int64)
        self.freed: Integers = np.empty(0, np.int64)  # slots that a tree gives up: they are the slices' own
        self.touched: list[Integers] = []  # (key, time) of slices that came or changed
        self.count = 0

    @property
    def rows(self) -> int:
        """For how many nodes there is room."""
        return int(len(self.nodes) // words.stride_of(MIN_ARITY))

    def touch(self, keys: Integers, times: Integers, slices: Slices) -> None:
        """Slices of these keys that hold these times came or changed late."""
        if self.heads[0, TREES] == 1:
            return
        self.touched.append(np.column_stack([keys, times]))
        self.count += len(keys)
        if self.count > 4096 + 2 * len(slices):
            self._tend(slices)

    def _wood(self, slices: Slices) -> tuple[Integers, ...]:
        keys, trees = len(slices.directory), len(self.heads)
        if len(self.tree_of) < keys:
            self.tree_of = _longer(self.tree_of, keys)
        if self.heads[0, TREES] == trees:
            heads = np.zeros((2 * trees, self.heads.shape[1]), np.int64)
            heads[:trees] = self.heads
            self.heads, self.waiting = heads, _longer(self.waiting, 2 * trees)
        return self.tree_of, self.heads, self.nodes, self.waiting, slices.directory, slices.rows

    def _room(self, n: int, slices: Slices) -> tuple[Any, ...]:
        """Arrays to let n slices into a tree, and for what it gives up."""
        if len(self.freed) <= slices.slots:
            self.freed = np.empty(2 * slices.slots + 1, np.int64)
        items = tuple(np.empty(n + LEVELS, np.int64) for _ in range(4))
        return items, tuple(np.empty(n + 4 * MIN_ARITY, np.int64) for _ in range(3)), self.freed

    def _grow(self) -> None:
        self.nodes = _longer(self.nodes, 2 * len(self.nodes))

    def _tend(self, slices: Slices) -> None:
        """Let the trees have the slices that were touched."""
        touched, self.touched, self.count = self.touched, [], 0
        items, gathered, freed = self._room(1, slices)
        for part in touched:
            done = 0
            while True:
                wood = self._wood(slices)
                done, self.waits = tending.tend()(wood, part, done, self.waits, items, gathered, freed)
                if done == len(part):
                    break
                self._grow()

    def trim(self, slices: Slices) -> None:
        """Slices were evicted: so are their entries, before others come in their place."""
        if self.heads[0, TREES] > 1:
            self.waits = tending.trim()(self._wood(slices), self.waits, self._room(1, slices)[2])

    def prepare(self, windows: Integers, upto: int, slices: Slices) -> tuple[Integers, Integers]:
        """All trees that these windows need, which end up to that time. Returns the program that combines nodes, and
        its pieces."""
        self._tend(slices)
        done, room = 0, self._room(1, slices)
        while done < len(windows):
            done, self.waits, missing, n = tending.extend()(
                windows, done, upto, self._wood(slices), self.waits, FEW, *room
            )
            if missing == ITEMS:
                room = self._room(2 * n, slices)
            elif missing == NODES:
                self._grow()
        if len(self.repairs) < 2 * self.rows:
            self.repairs = np.empty(2 * self.rows, np.int64)
        wood = self._wood(slices)
        n = int(tending.settle_all()(wood, self.waits, self.repairs))
        self.waits = 0
        program, pieces = np.empty((n, WIDTH), np.int64), np.empty((n * 4 * MIN_ARITY, 1), np.int64)
        tending.write()(wood, self.repairs, n, program, pieces)
        return program, pieces

    def ask(self, windows: Integers, done: int, slices: Slices) -> tuple[int, Integers, Integers]:
        """The program that answers windows from one on, as many as fit; the first that is left."""
        room = len(windows) - done
        program = np.empty((min(room, PIECES // 16), WIDTH), np.int64)
        pieces = np.empty((PIECES + MOST_PIECES, 1), np.int64)
        done, n = tending.ask()(windows, done, self._wood(slices), FEW, program, pieces)
        return done, program[:n], pieces


def _longer(array: Integers, length: int) -> Integers:
    longer = np.zeros(length, np.int64)
    longer[: len(array)] = array
    return longer
