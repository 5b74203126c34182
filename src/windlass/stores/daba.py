"""DABA: the De-Amortised Banker's Aggregator (MQO 2.2, Figure 9; Tangwongsan, Hirzel, Schneider 2017, "lite" 2021).

Idea. TwoStacks with the flip spread over the operations: after every insert and evict, `fixup` does a constant piece
of the work, so that the front is complete when it is needed. No round is ever long.

State. The window is five stretches in one ring, oldest first; each entry holds a partial that reaches to the right
as far as the arrow says, and two running aggregates stand for stretches that need only one value:

    | F F F F | L L | R R | A A A | B B B |
    |─────────────────────────────►|         F: from the entry to the end of A
              |────►|                        L: from the entry to the end of L
                     single events           R
                           |───────►|        A: from the entry to the end of A
                     |──────────────►|       agg_ra: all of R and A
                                     |─────► agg_b: all of B, single events

Invariants
1. f + 2l + a + b = size, with |L| = |R| = l; and f >= 1 unless the window is empty.
2. The entries are as drawn above.
3. f - b = 1 unless the window is empty: what is left to do of L, R and A is done before B is as long as F.

Costs in ⊕: fixup <= 2, insert <= 3, evict <= 2, query <= 1: the worst round is 6 (the paper's table: 8), amortised
below 5. Space: n partials and 2.

Departures. The six pointers are kept as lengths: with a ring that is exactly full, equal pointers could mean empty or
all. |L| = |R| always holds, so one number serves both.
"""

from __future__ import annotations

from typing import Any

from windlass.aggregates.evaluation import answer, lifted
from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors
from windlass.stores.rounds import Technique, wrap
from windlass.stores.store import Store


class DABA(Store):
    """A sliding window with a constant worst case, for any aggregate: at most 6 ⊕ in any round."""

    integers: tuple[str, ...] = ("head", "size", "f", "l", "a")
    running: tuple[str, ...] = ("agg_ra", "agg_b")
    costs = "at most 6 ⊕ in any round; n partials"

    @staticmethod
    def technique(m: Monoid) -> Technique:
        combine = m.combine
        load, store = accessors(m.fields)
        lift_at, answer_at = lifted(m), answer(m)

        def fixup(ring: Any, h: Any) -> Any:
            head, size, f, l, a, agg_ra, agg_b = h  # the paper's names
            if f + l + a == 0:  # no front is left: whatever there is, one event at most, becomes it
                return (head, size, size, l, a, agg_ra, agg_b)
            if l + a == 0 and f + f == size:  # flip: F becomes L, B becomes R
                f, l = 0, f
                agg_ra = agg_b
            if l + a > 0:
                if l == 0:  # shift: the first of A already reaches to its end, so it is F's last
                    a -= 1
                else:  # shrink: one of L reaches on over R and A, one of R joins A
                    p = wrap(ring, head + f)
                    store(ring, p, combine(load(ring, p), agg_ra))
                    if a > 0:
                        p = wrap(ring, head + f + l + l - 1)
                        store(ring, p, combine(load(ring, p), load(ring, wrap(ring, p + 1))))
                    l -= 1
                    a += 1
                f += 1
            return (head, size, f, l, a, agg_ra, agg_b)

        def insert(ring: Any, links: Any, h: Any, x: Any) -> Any:
            head, size, f, l, a, agg_ra, agg_b = h
            store(ring, wrap(ring, head + size), x)
            agg_b = combine(agg_b, x) if size > f + l + l + a else x
            return fixup(ring, (head, size + 1, f, l, a, agg_ra, agg_b))

        def evict(ring: Any, links: Any, h: Any) -> Any:
            head, size, f, l, a, agg_ra, agg_b = h
            return fixup(ring, (wrap(ring, head + 1), size - 1, f - 1, l, a, agg_ra, agg_b))

        def query(ring: Any, links: Any, h: Any) -> Any:
            head, size, f, l, a, agg_ra, agg_b = h
            if size == f + l + l + a:
                return load(ring, head)
            return combine(load(ring, head), agg_b)

        def run(ring: Any, links: Any, h: Any, events: Any, i: Any, answers: Any) -> Any:
            # On a full window both fixups of a round do the same for a long stretch: first they shrink, then they
            # shift. While no position wraps, such a stretch is a straight line.
            head, size, f, l, a, agg_ra, agg_b = h
            rounds = min(events[2] - i, len(ring[0]) - 1 - head)
            if size < len(ring[0]) or size == f + l + l + a or a == 0:
                return i, h
            if l > 1:
                p, s = wrap(ring, head + f), wrap(ring, head + f + l + l)
                rounds = min(rounds, l >> 1, (len(ring[0]) - p) >> 1, s >> 1)
                reach = load(ring, s)
                for j in range(rounds):
                    store(ring, p, combine(load(ring, p), agg_ra))
                    reach = combine(load(ring, s - 1), reach)
                    store(ring, s - 1, reach)
                    x = lift_at(events, i + j)
                    store(ring, head + j, x)
                    agg_b = combine(agg_b, x)
                    store(ring, p + 1, combine(load(ring, p + 1), agg_ra))
                    reach = combine(load(ring, s - 2), reach)
                    store(ring, s - 2, reach)
                    p += 2
                    s -= 2
                    answer_at(answers, i + j, combine(load(ring, head + j + 1), agg_b))
                if rounds > 0:
                    return i + rounds, (
                        head + rounds,
                        size,
                        f + rounds,
                        l - 2 * rounds,
                        a + 2 * rounds,
                        agg_ra,
                        agg_b,
                    )
            elif l == 0:
                rounds = min(rounds, a >> 1)
                for j in range(rounds):
                    x = lift_at(events, i + j)
                    store(ring, head + j, x)
                    agg_b = combine(agg_b, x)
                    answer_at(answers, i + j, combine(load(ring, head + j + 1), agg_b))
                if rounds > 0:
                    return i + rounds, (head + rounds, size, f + rounds, l, a - 2 * rounds, agg_ra, agg_b)
            return i, h

        return Technique(insert, evict, query, run=run)

    def check_structure(self) -> None:
        super().check_structure()
        f, l, a = (int(v) for v in self._header[2:])
        b = len(self) - f - 2 * l - a
        assert min(f, l, a, b) >= 0 and (f > 0 or len(self) == 0), "1: lengths"
        assert f - b == 1 or len(self) == 0, "3: balance"
