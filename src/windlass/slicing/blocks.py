"""Blocks over a key's slices: any range of them in at most four ⊕, whatever the aggregate, without ⊖.

    slices      │· · · ·│· · · ·│· · · ·│· · · ·│· · · ·│· ·          in blocks (of 4 here)
    a range           └─┘└──────────────────────┘└───┘
                   suffix          spans          prefix

PREFIX[j] is the partial of a block's slices up to j, SUFFIX[j] of those from j on. Whole blocks between two others come
from a disjoint sparse table over blocks, SPANS: for x < y whose numbers first differ in bit k, SPANS[k][x] reaches from
x up to the multiple of 2^k between them, and SPANS[k][y] from there to y.

A slice that is appended costs two ⊕, and its share of what a block costs, which is log₂ of their number on average:
one more. One that changes costs as much for each slice behind it. (A binary tree: one ⊕ a slice, log₂ n an answer.)
A range within one block, of 8 slices or at most 32, is combined slice by slice.
Not for partials that grow with their events (sorted runs, lists): here a slice is part of many of them (see `tree`).

The three are thirds of one set of columns; places in them are counted as in the key's run. SPANS fits as long as the
number of blocks has no more bits than a block has slices.
"""

from __future__ import annotations

from typing import Any

from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors, highest_bit, unsigned
from windlass.slicing.slices import SLOT

NODES = 3  # a slice


def _shift(capacity: Any) -> Any:
    """The logarithm of a block's size: the least, so that SPANS fits and ranges within a block are short."""
    return 3 if capacity <= 1 << 11 else 4 if capacity <= 1 << 20 else 5


def repairing(m: Monoid) -> Any:
    """`repair(rows, pool, nodes, base, capacity, a, b, lo, hi)`: a key's slices are lo:hi, those from a on are new or
    changed (b is hi)."""
    combine = m.combine
    load, store = accessors(m.fields)

    def repair(rows: Any, pool: Any, nodes: Any, base: Any, capacity: Any, a: Any, b: Any, lo: Any, hi: Any) -> Any:
        shift = _shift(capacity)
        third, size, blocks = len(nodes[0]) // NODES, 1 << shift, capacity >> shift
        for block in range(a >> shift, ((hi - 1) >> shift) + 1):
            begin, end = block << shift, (block + 1) << shift
            if begin >= lo:  # else no range comes from before this block
                j = max(a, begin)
                acc = load(pool, rows[unsigned(base + j), SLOT])
                if j > begin:
                    acc = combine(load(nodes, base + j - 1), acc)
                store(nodes, base + j, acc)
                for i in range(j + 1, min(end, hi)):
                    acc = combine(acc, load(pool, rows[unsigned(base + i), SLOT]))
                    store(nodes, base + i, acc)
            if end > hi:
                break  # nor does one leave it
            suffix, spans = third + base, 2 * third + base
            acc = load(pool, rows[unsigned(base + end - 1), SLOT])
            store(nodes, suffix + end - 1, acc)
            for i in range(end - 2, max(begin + 1, lo) - 1, -1):
                acc = combine(load(pool, rows[unsigned(base + i), SLOT]), acc)
                store(nodes, suffix + i, acc)
            if begin < lo:
                continue
            whole = load(nodes, base + end - 1)
            store(nodes, suffix + begin, whole)
            first, half = (lo + size - 1) >> shift, 1  # the first whole block
            while half < blocks:
                middle = block & -half
                if block & half and middle == block:
                    store(nodes, spans + block, whole)
                elif block & half and middle >= first:
                    store(nodes, spans + block, combine(load(nodes, spans + block - 1), whole))
                elif block & half == 0 and block & (half - 1) == half - 1:  # the half before a middle is complete
                    acc = whole
                    store(nodes, spans + block, acc)
                    for x in range(block - 1, max(middle, first) - 1, -1):
                        acc = combine(load(nodes, base + ((x + 1) << shift) - 1), acc)
                        store(nodes, spans + x, acc)
                spans += blocks
                half *= 2

    return repair


def covering(m: Monoid) -> Any:
    """`cover(rows, pool, nodes, base, capacity, p, q)`: the partial of the slices p:q, of which the last may still
    grow: it is taken by itself."""
    combine = m.combine
    load, _ = accessors(m.fields)

    def cover(rows: Any, pool: Any, nodes: Any, base: Any, capacity: Any, p: Any, q: Any) -> Any:
        shift = _shift(capacity)
        third, stop = len(nodes[0]) // NODES, q - 1
        x, y = p >> shift, stop >> shift
        if x == y:
            acc = load(pool, rows[unsigned(base + p), SLOT])
            for j in range(p + 1, q):
                acc = combine(acc, load(pool, rows[unsigned(base + j), SLOT]))
            return acc
        acc = load(nodes, third + base + p)
        x += 1
        if x + 1 == y:
            acc = combine(acc, load(nodes, base + (y << shift) - 1))
        elif x < y:
            k = highest_bit(x ^ (y - 1))
            spans = 2 * third + base + k * (capacity >> shift)
            acc = combine(combine(acc, load(nodes, spans + x)), load(nodes, spans + y - 1))
        if stop > y << shift:
            acc = combine(acc, load(nodes, base + stop - 1))
        return combine(acc, load(pool, rows[unsigned(base + stop), SLOT]))

    return cover
