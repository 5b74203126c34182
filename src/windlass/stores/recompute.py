"""Recompute: fold the whole window for every answer (MQO 2.2, Panes, the naive technique).

Idea. Keep the partials in a ring and combine them from oldest to youngest when asked. It is what every other
technique is measured against.

State:      ring   . a b c d .        head at a, size 4; query = a ⊕ b ⊕ c ⊕ d

Invariants
1. 0 <= size <= capacity; the partials are ring[head], …, ring[head + size - 1], modulo the capacity.

Costs in ⊕: insert 0, evict 0, query n - 1; q ranges: the sum of their lengths less one each. Space: n partials.
"""

from __future__ import annotations

from typing import Any

from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors
from windlass.stores.rounds import Technique, wrap
from windlass.stores.store import Store


class Recompute(Store):
    """Every answer from scratch: n - 1 ⊕ a query, for any aggregate."""

    answers_ranges = True
    costs = "n - 1 ⊕ a query; n partials"

    @staticmethod
    def technique(m: Monoid) -> Technique:
        combine = m.combine
        load, store = accessors(m.fields)

        def insert(ring: Any, links: Any, h: Any, x: Any) -> Any:
            head, size = h
            store(ring, wrap(ring, head + size), x)
            return (head, size + 1)

        def evict(ring: Any, links: Any, h: Any) -> Any:
            head, size = h
            return (wrap(ring, head + 1), size - 1)

        def suffix(ring: Any, links: Any, h: Any, q: Any, r: Any) -> Any:
            head, size = h
            capacity = len(ring[0])
            first = wrap(ring, head + size - r)
            acc = load(ring, first)
            for p in range(first + 1, min(first + r, capacity)):
                acc = combine(acc, load(ring, p))
            for p in range(first + r - capacity):
                acc = combine(acc, load(ring, p))
            return acc

        def query(ring: Any, links: Any, h: Any) -> Any:
            return suffix(ring, links, h, 0, h[1])

        return Technique(insert, evict, query, suffix)
