"""Prefixes over a key's slices: any range of them in one ⊖ and one ⊕, where ⊖ is exact.

    slices      │s0│s1│s2│s3│s4│s5│s6
    PREFIX[j]   s0 ⊕ … ⊕ s(j-1), from some slice on
    a range           └─────────┘└─┘        PREFIX[5] ⊖ PREFIX[2], and the last slice, which may still grow

Only for sums modulo 2^64 and the like (`Monoid.wraps`): what has been added and taken off again leaves no trace there,
however much it was. Floats would leave some, and what a user's own ⊖ does to sums of a whole stream nobody knows.
"""

from __future__ import annotations

from typing import Any

from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors, unsigned
from windlass.slicing.slices import SLOT

NODES = 1  # a slice


def repairing(m: Monoid) -> Any:
    """`repair(rows, pool, nodes, base, capacity, a, b, lo, hi)`: a key's slices are lo:hi, those from a on are new or
    changed (b is hi)."""
    combine, identity = m.combine, m.identity
    load, store = accessors(m.fields)

    def repair(rows: Any, pool: Any, nodes: Any, base: Any, capacity: Any, a: Any, b: Any, lo: Any, hi: Any) -> Any:
        acc = load(nodes, base + a) if a > lo else identity()  # no range begins before lo
        for j in range(a, min(hi + 1, capacity)):
            store(nodes, base + j, acc)
            if j < hi:
                acc = combine(acc, load(pool, rows[unsigned(base + j), SLOT]))

    return repair


def covering(m: Monoid) -> Any:
    """`cover(rows, pool, nodes, base, capacity, p, q)`: the partial of the slices p:q, of which the last may still
    grow: it is taken by itself."""
    combine, inverse = m.combine, m.inverse
    load, _ = accessors(m.fields)

    def cover(rows: Any, pool: Any, nodes: Any, base: Any, capacity: Any, p: Any, q: Any) -> Any:
        before = inverse(load(nodes, base + q - 1), load(nodes, base + p))  # type: ignore[misc]
        return combine(before, load(pool, rows[unsigned(base + q - 1), SLOT]))

    return cover
