"""FlatFAT: a complete binary tree of aggregates over a ring of leaves (MQO 2.2, Figure 5; Tangwongsan et al. 2015).

Idea. Leaves are the partials of the window; every inner node combines its two children; the root covers all.
Changing a leaf repairs the nodes above it. Any range is made of few nodes.

State, max over a full ring of four whose oldest leaf is 2:

                7                      query, commutative: the root, no ⊕ at all
            7       6                  otherwise leaves 2 3 and then 0 1:
          3   7   6   2                6 2 | 3 7  →  6 ⊕ 7
                  └ head

Invariants
1. The number of leaves is a power of two; 0 <= size and size + stale <= leaves.
2. Every inner node is the combination of its children.
3. Leaves outside of the window and of the `stale` ones just before it hold the identity.

Costs in ⊕: insert log2(leaves), evict 0; the whole window is the root (0 ⊕) if the aggregate is commutative or the
window does not wrap, and if no evicted leaf is still in the tree; otherwise, and for other ranges, at most 2·log2(n)
nodes. Space: 2n partials for n a power of two, else up to 4n. Growing and shrinking rebuild: leaves - 1 ⊕.

Departures. An evicted leaf is not overwritten by the identity at once (another log2 n ⊕): it is counted as `stale`,
and the insert that reuses it repairs the path that had to be repaired anyway. A round over a full window is then
log2(n) ⊕, as MQO counts, instead of twice that.
"""

from __future__ import annotations

from typing import Any

from windlass.aggregates.monoid import Columns, Monoid
from windlass.kernels import accessors
from windlass.stores.dyadic import DyadicStore, cover
from windlass.stores.layout import cleared, same
from windlass.stores.rounds import Technique


class FlatFAT(DyadicStore):
    """Logarithmic in every round, for any aggregate and any range; the tree resizes with the window."""

    integers: tuple[str, ...] = ("head", "size", "stale")
    needs_identity = True
    costs = "log2(n) ⊕ a round; 2n partials"

    @staticmethod
    def technique(m: Monoid) -> Technique:
        combine, commutative = m.combine, m.commutative
        load, store = accessors(m.fields)
        cover_leaves = cover(m)

        def insert(tree: Any, links: Any, h: Any, x: Any) -> Any:
            head, size, stale = h
            leaves = len(tree[0]) >> 1
            node = leaves + ((head + size) & (leaves - 1))
            store(tree, node, x)
            while node > 1:
                sibling = load(tree, node ^ 1)
                x = combine(sibling, x) if node & 1 else combine(x, sibling)
                node >>= 1
                store(tree, node, x)
            return (head, size + 1, stale - 1 if size + stale == leaves else stale)

        def evict(tree: Any, links: Any, h: Any) -> Any:
            head, size, stale = h
            leaves = len(tree[0]) >> 1
            return ((head + 1) & (leaves - 1), size - 1, stale + 1)

        def suffix(tree: Any, links: Any, h: Any, q: Any, r: Any) -> Any:
            return query(tree, links, h) if r == h[1] else cover_leaves(tree, h[0] + h[1] - r, r)

        def query(tree: Any, links: Any, h: Any) -> Any:
            head, size, stale = h
            leaves = len(tree[0]) >> 1
            if stale == 0 and (commutative or head + size <= leaves):
                return load(tree, 1)
            return cover_leaves(tree, head, size)

        return Technique(insert, evict, query, suffix)

    def _allocate(self, monoid: Monoid, capacity: int) -> Columns:
        return cleared(monoid, 2 * capacity)

    def _built(self, size: int) -> int:
        return self._capacity

    def check_invariants(self) -> None:
        super().check_invariants()
        if self._monoid is None:
            return
        m, tree = self._monoid, self._ring
        load, _ = accessors(m.fields)
        leaves, (head, size, stale) = self._capacity, (int(v) for v in self._header)
        assert leaves & (leaves - 1) == 0 and size + stale <= leaves, "1: sizes"
        for i in range(1, leaves):
            assert same(load(tree, i), m.combine(load(tree, 2 * i), load(tree, 2 * i + 1))), f"2: node {i}"
        for k in range(leaves - size - stale):
            assert same(load(tree, leaves + (head + size + k) % leaves), m.identity()), f"3: leaf {k}"
