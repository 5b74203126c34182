"""A binary tree over a key's slices (Cutty 5.2, FlatFAT over slices), for partials that grow with their events, or
that are large.

Leaf j is the slice at position j of its key; node i of 1 … capacity - 1 is kept at base + i and covers its children 2i
and 2i + 1. A node is only ever read when all of its leaves are closed slices, so the rest may be garbage. Every slice
is part of one node a level: with lists and sorted runs, that is what memory and time are spent on. Of fixed-size
partials it keeps one a slice where `blocks` keep three, for one ⊕ a slice and log₂ n an answer: the better deal where
a partial is large (a sketch) and answers are rare.
"""

from __future__ import annotations

from typing import Any

from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors, unsigned
from windlass.slicing.slices import SLOT

NODES = 1  # a slice


def repairing(m: Monoid) -> Any:
    """`repair(rows, pool, nodes, base, capacity, a, b, lo, hi)`: a key's slices are lo:hi, a:b are new or changed."""
    combine = m.combine
    load, store = accessors(m.fields)

    def repair(rows: Any, pool: Any, nodes: Any, base: Any, capacity: Any, a: Any, b: Any, lo: Any, hi: Any) -> Any:
        left, right, size = a >> 1, (b - 1) >> 1, 2
        while size <= capacity:
            if left == right and (left * size < lo or (left + 1) * size > hi):
                break  # nor are any of its ancestors whole
            for q in range(left, right + 1):
                leaf = q * size
                if leaf >= lo and leaf + size <= hi:
                    node = capacity // size + q
                    if size == 2:
                        x = load(pool, rows[unsigned(base + leaf), SLOT])
                        y = load(pool, rows[unsigned(base + leaf + 1), SLOT])
                    else:
                        x = load(nodes, base + 2 * node)
                        y = load(nodes, base + 2 * node + 1)
                    store(nodes, base + node, combine(x, y))
            left, right, size = left >> 1, right >> 1, size * 2

    return repair


def covering(m: Monoid) -> Any:
    """`cover(rows, pool, nodes, base, capacity, p, q)`: the partial of the slices p:q, the same in one, compiled."""
    combine = m.combine
    load, _ = accessors(m.fields)

    def at(rows: Any, pool: Any, nodes: Any, base: Any, capacity: Any, node: Any) -> Any:
        if node < capacity:
            return load(nodes, base + node)
        return load(pool, rows[unsigned(base + node - capacity), SLOT])

    def cover(rows: Any, pool: Any, nodes: Any, base: Any, capacity: Any, p: Any, q: Any) -> Any:
        x, y = p + capacity, q - 1 + capacity
        right = load(pool, rows[unsigned(base + q - 1), SLOT])
        if x == y:
            return right
        left, some = right, False
        while x < y:
            if x & 1:
                part = at(rows, pool, nodes, base, capacity, x)
                left = combine(left, part) if some else part
                some = True
                x += 1
            if y & 1:
                y -= 1
                right = combine(at(rows, pool, nodes, base, capacity, y), right)
            x >>= 1
            y >>= 1
        return combine(left, right) if some else right

    return cover


def parts(m: Monoid) -> Any:
    """`parts(rows, pool, nodes, base, capacity, p, q)`: partials of the slices p:q, oldest first, of which the last may
    still grow: it is taken by itself."""
    load, _ = accessors(m.fields)

    def parts_of(rows: Any, pool: Any, nodes: Any, base: Any, capacity: Any, p: Any, q: Any) -> list[Any]:
        def at(node: int) -> Any:
            return load(nodes, base + node) if node < capacity else load(pool, rows[base + node - capacity, SLOT])

        x, y = p + capacity, q - 1 + capacity
        left, right = [], [load(pool, rows[base + q - 1, SLOT])]
        while x < y:
            if x & 1:
                left.append(at(x))
                x += 1
            if y & 1:
                y -= 1
                right.append(at(y))
            x >>= 1
            y >>= 1
        return left + right[::-1]

    return parts_of
