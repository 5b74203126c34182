"""Subtract-on-evict: one running aggregate, from which the oldest is taken off again (MQO 2.2, Panes (Inv), R-Int).

Idea. If ⊕ has an inverse ⊖, the aggregate of the window follows it: add what comes, subtract what goes.

State:      ring   . 3 1 4 .       total = 8        evict: total ⊖ 3, insert 2: total ⊕ 2

Invariants
1. 0 <= size <= capacity; the ring holds single events.
2. If size > 0, total is the combination of all of them.

Costs in ⊕ and ⊖: insert 1, evict 1, query 0; the worst round is 2. Space: n partials and the total.

Departures. The first insert into an empty window sets the total and the last evict drops it, so whatever rounding has
left behind ends there; between, float aggregates use their invertible form (see windlass.aggregates.double), which
does not drift and lets NaN and infinities leave again.
"""

from __future__ import annotations

from typing import Any

from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors
from windlass.stores.rounds import Technique, wrap
from windlass.stores.store import Store


class SubtractOnEvict(Store):
    """Two operations a round, always; for invertible aggregates."""

    running: tuple[str, ...] = ("total",)
    subtractable = True
    costs = "2 ⊕ a round, always; n partials; needs an inverse"

    @staticmethod
    def technique(m: Monoid) -> Technique:
        combine, inverse = m.combine, m.inverse
        assert inverse is not None
        load, store = accessors(m.fields)

        def insert(ring: Any, links: Any, h: Any, x: Any) -> Any:
            head, size, total = h
            store(ring, wrap(ring, head + size), x)
            return (head, size + 1, combine(total, x) if size > 0 else x)

        def evict(ring: Any, links: Any, h: Any) -> Any:
            head, size, total = h
            if size > 1:
                total = inverse(total, load(ring, head))
            return (wrap(ring, head + 1), size - 1, total)

        def query(ring: Any, links: Any, h: Any) -> Any:
            return h[2]

        return Technique(insert, evict, query)
