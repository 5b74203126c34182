"""TwoStacks: a queue made of two stacks (MQO 2.2, Figure 8; Tangwongsan, Hirzel, Schneider 2015).

Idea. The older part of the window is the front stack, where every entry holds the aggregate of itself and all
younger entries of the front. The younger part is the back; of it only one running aggregate is needed. Evicting pops
the front; when the front is empty, the back is flipped onto it.

State, after inserting 5 6 1 2 (max), evicting one (which flips) and inserting 3 1:

    ring    .  6  2  2 | 3  1        head ──┘        front = 3: suffix aggregates 6 2 2
                         back = 3    running aggregate of 3 1; query = 6 ⊕ 3

Invariants
1. 0 <= front <= size <= capacity.
2. Entry i of the front is x_i ⊕ … ⊕ x_{front-1}.
3. Entries behind the front are single events, and `back` is their combination if there are any.

Costs in ⊕: insert <= 1, query <= 1, evict size - 1 when it flips and otherwise 0: amortised 3 a round, worst n.
Space: n partials.

Departure. The paper's stacks keep value and aggregate of every entry (2n). Neither the front's values nor the back's
inner aggregates are ever read, so they are not kept ("lite"); the ⊕ calls are the same.
"""

from __future__ import annotations

from typing import Any

from windlass.aggregates.evaluation import answer, lifted
from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors
from windlass.stores.rounds import Technique, wrap
from windlass.stores.store import Store


class TwoStacks(Store):
    """A sliding window in amortised three ⊕ a round, for any aggregate; its worst round is n."""

    integers: tuple[str, ...] = ("head", "size", "front")
    running: tuple[str, ...] = ("back",)
    costs = "amortised 3 ⊕ a round, worst n; n partials"

    @staticmethod
    def technique(m: Monoid) -> Technique:
        combine = m.combine
        load, store = accessors(m.fields)
        lift_at, answer_at = lifted(m), answer(m)

        def insert(ring: Any, links: Any, h: Any, x: Any) -> Any:
            head, size, front, back = h
            store(ring, wrap(ring, head + size), x)
            return (head, size + 1, front, combine(back, x) if size > front else x)

        def flip(ring: Any, head: Any, size: Any) -> Any:
            p = wrap(ring, head + size - 1)
            acc = load(ring, p)
            for _ in range(size - 1):
                p = p - 1 if p > 0 else len(ring[0]) - 1
                acc = combine(load(ring, p), acc)
                store(ring, p, acc)

        def evict(ring: Any, links: Any, h: Any) -> Any:
            head, size, front, back = h
            if front == 0:
                flip(ring, head, size)
                front = size
            return (wrap(ring, head + 1), size - 1, front - 1, back)

        def query(ring: Any, links: Any, h: Any) -> Any:
            head, size, front, back = h
            if front == 0:
                return back
            if front == size:
                return load(ring, head)
            return combine(load(ring, head), back)

        def run(ring: Any, links: Any, h: Any, events: Any, i: Any, answers: Any) -> Any:
            # Between two flips, and while the ring does not wrap, rounds on a full window are a straight line:
            # the insert reuses the slot just evicted, and the front's next entry is the slot after it.
            head, size, front, back = h
            rounds = min(front - 1, events[2] - i, len(ring[0]) - 1 - head)
            if size < len(ring[0]) or front == size or rounds <= 0:
                return i, h
            for j in range(rounds):
                x = lift_at(events, i + j)
                back = combine(back, x)
                store(ring, head + j, x)
                answer_at(answers, i + j, combine(load(ring, head + j + 1), back))
            return i + rounds, (head + rounds, size, front - rounds, back)

        return Technique(insert, evict, query, run=run)

    def check_structure(self) -> None:
        super().check_structure()
        assert 0 <= int(self._header[2]) <= len(self), "1: front"
