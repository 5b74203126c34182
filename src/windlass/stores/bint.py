"""B-Int: every dyadic interval computed once, when its last event arrives (MQO 2.2, Figure 6; Arasu, Widom 2004).

Idea. Level 0 has an interval for every event, level 1 for every second one, covering two, and so on, around a ring. An
event completes the intervals that end with it; a range is made of the fewest complete intervals.

State, six events in a ring of eight (letters stand for their combination):

    level 3   .
    level 2   abcd            .
    level 1   ab      cd      ef      .
    level 0   a   b   c   d   e   f   .   .         b..f = b ⊕ cd ⊕ ef

Invariants
1. The number of leaves is a power of two, 0 <= size <= leaves.
2. A dyadic interval that lies within the window, as it stands in the ring, is the combination of its two halves.

Costs in ⊕: insert amortised 1, worst log2(leaves); evict 0; query at most 2·log2(n) - 1. Space: 2n partials for n a
power of two, else up to 4n.

Difference to FlatFAT: inner nodes over the window's edges are left incomplete, so an insert repairs no path, but no
single node ever answers for the whole window.
"""

from __future__ import annotations

from typing import Any

from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors
from windlass.stores.dyadic import DyadicStore, cover
from windlass.stores.layout import same
from windlass.stores.rounds import Technique


class BInt(DyadicStore):
    """Logarithmic queries over any range with amortised one ⊕ an insert, for any aggregate."""

    costs = "amortised 1 ⊕ an insert, at most 2·log2(n) a query; 2n partials"

    @staticmethod
    def technique(m: Monoid) -> Technique:
        combine = m.combine
        load, store = accessors(m.fields)
        cover_leaves = cover(m)

        def insert(tree: Any, links: Any, h: Any, x: Any) -> Any:
            head, size = h
            leaves = len(tree[0]) >> 1
            node = leaves + ((head + size) & (leaves - 1))
            store(tree, node, x)
            while node & 1 and node > 1:  # a right child completes its parent
                x = combine(load(tree, node - 1), x)
                node >>= 1
                store(tree, node, x)
            return (head, size + 1)

        def evict(tree: Any, links: Any, h: Any) -> Any:
            head, size = h
            return ((head + 1) & ((len(tree[0]) >> 1) - 1), size - 1)

        def suffix(tree: Any, links: Any, h: Any, q: Any, r: Any) -> Any:
            return cover_leaves(tree, h[0] + h[1] - r, r)

        def query(tree: Any, links: Any, h: Any) -> Any:
            return cover_leaves(tree, h[0], h[1])

        return Technique(insert, evict, query, suffix)

    def check_invariants(self) -> None:
        super().check_invariants()
        if self._monoid is None:
            return
        m, tree = self._monoid, self._ring
        load, _ = accessors(m.fields)
        leaves, (head, size) = self._capacity, (int(v) for v in self._header)
        assert leaves & (leaves - 1) == 0 and 0 <= size <= leaves, "1: sizes"
        live = {(head + k) % leaves for k in range(size)}
        width, first = 2, leaves >> 1
        while first > 0:
            for node in range(first, 2 * first):
                # Within the window as it stands in the ring: the interval must not hold both its ends.
                covered = range((node - first) * width, (node - first + 1) * width)
                whole = all(p in live for p in covered) and not (head in covered[1:] and size == leaves)
                if whole:
                    assert same(load(tree, node), m.combine(load(tree, 2 * node), load(tree, 2 * node + 1))), (
                        f"2: {node}"
                    )
            width, first = 2 * width, first >> 1
