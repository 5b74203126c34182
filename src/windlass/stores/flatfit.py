"""FlatFIT: follow pointers that skip what was already combined (MQO 2.2, Figure 7; Shein et al. 2017).

Idea. Every position holds a partial that covers the events from itself up to its pointer. A query walks the pointers
from its first position to the end of the window, then combines what it visited from right to left, leaving at each
visited position the result up to the end and a pointer to the end: the next walk is short.

State (sum), after a query over the last four and one more insert:

    position   0   1   2   3   4   5
    partial    .   9   6   4   1   7        1 covers 1..4, 2 covers 2..4, …; 5 is new
    pointer    .   5   5   5   5   6        the next query over 1..5 visits 1 and 5

Invariants
1. 0 <= size <= capacity; a pointer leads to a younger position of the window, or to its end.
2. The partial at p is the combination of the events from p up to its pointer.

Costs in ⊕: insert 0, evict 0; query amortised 3 a round over a sliding window, worst n - 1 (the window reset, every
n + 1 slides). Many ranges share the pointers: amortised 3 a range. Space: n partials and n pointers.

Departure. The paper pushes visited positions on a stack. The pointers of the visited positions are about to be
overwritten, so they hold the way back instead, and the stack (n more) is not needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windlass.aggregates.monoid import Columns, Monoid
from windlass.kernels import accessors, unsigned
from windlass.stores.layout import Integers
from windlass.stores.rounds import Technique, wrap
from windlass.stores.store import Store


class FlatFIT(Store):
    """Amortised three ⊕ a query for any aggregate and any number of ranges; its worst round is n."""

    answers_ranges = True
    query_writes = True
    costs = "amortised 3 ⊕ a round, worst n; n partials and n pointers"

    @staticmethod
    def technique(m: Monoid) -> Technique:
        combine = m.combine
        load, store = accessors(m.fields)

        def insert(ring: Any, links: Any, h: Any, x: Any) -> Any:
            head, size = h
            tail = wrap(ring, head + size)
            store(ring, tail, x)
            links[unsigned(tail)] = wrap(ring, tail + 1)
            return (head, size + 1)

        def evict(ring: Any, links: Any, h: Any) -> Any:
            head, size = h
            return (wrap(ring, head + 1), size - 1)

        def walk(ring: Any, links: Any, first: Any, end: Any) -> Any:
            # Forwards: turn every pointer on the way around.
            behind = -1
            p = first
            while True:
                ahead = links[unsigned(p)]
                links[unsigned(p)] = behind
                behind = p
                p = ahead
                if p == end:
                    break
            # Backwards: combine, and let everything visited point to the end.
            p = behind
            behind = links[unsigned(p)]
            links[unsigned(p)] = end
            acc = load(ring, p)
            while behind >= 0:
                p = behind
                behind = links[unsigned(p)]
                links[unsigned(p)] = end
                acc = combine(load(ring, p), acc)
                store(ring, p, acc)
            return acc

        def suffix(ring: Any, links: Any, h: Any, q: Any, r: Any) -> Any:
            head, size = h
            end = wrap(ring, head + size)
            first = end - r
            return walk(ring, links, first if first >= 0 else first + len(links), end)

        def query(ring: Any, links: Any, h: Any) -> Any:
            head, size = h
            return walk(ring, links, head, wrap(ring, head + size))

        return Technique(insert, evict, query, suffix)

    def _links_for(self, capacity: int) -> Integers:
        return np.zeros(capacity, np.int64)

    def live(self) -> tuple[Columns, Integers]:
        """Pointers as distances from the oldest event."""
        columns, _ = super().live()
        head = int(self._header[0])
        order = (head + np.arange(len(self))) % self._capacity
        distance = (self._links[order] - head) % self._capacity
        distance[distance == 0] = self._capacity  # the end of a full ring
        return columns, distance

    def lay_out(self, columns: Columns, links: Integers, capacity: int) -> None:
        assert (links > np.arange(len(links))).all() and (links <= len(self)).all(), "1: pointers"
        super().lay_out(columns, links, capacity)
        self._links[: len(links)] = links % self._capacity

    def check_structure(self) -> None:
        super().check_structure()
        _, distance = self.live()
        assert (distance > np.arange(len(self))).all() and (distance <= len(self)).all(), "1: pointers"
