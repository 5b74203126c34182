"""Dyadic intervals over a ring of leaves, as one array: what FlatFAT and B-Int have in common.

With C leaves (a power of two), node i has the children 2i and 2i + 1, leaf p is node C + p, and node 1 covers all:

    node        1
              2   3               node 2 covers leaves 0 1, node 3 covers 2 3
             4 5 6 7              leaves 0 1 2 3

`cover` combines the fewest nodes that make up an interval of leaves, oldest first. They are read off the binary
numbers of its ends: from the first leaf up, a node for every bit that is missing to the middle, then down again, a
node for every bit that is left. So there is no decision at every level for the processor to guess wrong. A node that
covers a leaf outside of the interval is never read: the tree may be incomplete.

    leaves 3 … 6 of 8      up from 3 to 4: leaf 3      then down from 4 to 7: leaves 4 5, leaf 6
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from windlass.aggregates.evaluation import kernel
from windlass.aggregates.monoid import Columns, Monoid
from windlass.kernels import accessors, highest_bit, lowest_bit
from windlass.stores.layout import Integers
from windlass.stores.store import Store

Function = Callable[..., Any]


def cover(m: Monoid) -> Function:
    """`cover(tree, first, count)`: at most 2·log2(count) nodes, one ⊕ less; leaves may wrap around the ring's end."""
    combine = m.combine
    load, _ = accessors(m.fields)

    def cover_leaves(tree: Any, first: Any, count: Any) -> Any:
        leaves = len(tree[0]) >> 1
        first &= leaves - 1
        end = first + count
        if end <= leaves:
            top = highest_bit(first ^ end)
            middle = (end >> top) << top
            up, down = middle - first, end - middle
        else:  # up to the end of the ring, and down from its beginning
            middle = 0
            up, down = leaves - first, end - leaves
        level = lowest_bit(up)
        node = leaves + first
        acc = load(tree, node >> level)
        while up & (up - 1):
            node += 1 << level
            up &= up - 1
            level = lowest_bit(up)
            acc = combine(acc, load(tree, node >> level))
        node = leaves + middle
        while down:
            level = highest_bit(down)
            acc = combine(acc, load(tree, node >> level))
            node += 1 << level
            down -= 1 << level
        return acc

    return cover_leaves


class DyadicStore(Store):
    """A ring of leaves under a tree of dyadic intervals: 2n partials where n is a power of two."""

    answers_ranges = True

    def _round_capacity(self, capacity: int) -> int:
        return 1 << max(0, capacity - 1).bit_length()

    def _allocate(self, monoid: Monoid, capacity: int) -> Columns:
        return monoid.allocate(2 * capacity)

    def live(self) -> tuple[Columns, Integers]:
        leaves = self._capacity
        order = leaves + (int(self._header[0]) + np.arange(len(self))) % leaves
        return tuple(column[order] for column in self._ring), np.zeros(0, np.int64)

    def live_header(self) -> Integers:
        header = np.zeros_like(self._header)
        header[1] = len(self)
        return header

    def lay_out(self, columns: Columns, links: Integers, capacity: int) -> None:
        leaves, size = self._round_capacity(capacity), len(self)
        self._capacity = leaves
        self._ring = self._allocate(self._bound, leaves)
        for new, alive in zip(self._ring, columns, strict=True):
            new[leaves : leaves + size] = alive
        self._header = self.live_header()
        kernel(self._bound, lambda: build_kernel(self._bound), "dyadic build")(self._ring, self._built(size))

    def _built(self, size: int) -> int:
        """How many leaves, from the first, have their nodes computed when the tree is laid out anew."""
        return size


def build_kernel(m: Monoid) -> Function:
    """`build(tree, end)`: every node that covers leaves below `end` only, from its children."""
    combine = m.combine
    load, store = accessors(m.fields)

    def build(tree: Any, end: Any) -> Any:
        leaves = len(tree[0]) >> 1
        first, width = leaves >> 1, 2
        while first > 0:
            for node in range(first, first + end // width):
                store(tree, node, combine(load(tree, 2 * node), load(tree, 2 * node + 1)))
            first >>= 1
            width <<= 1

    return build
