"""SlickDeque (Non-Inv): keep only the events that can still be an answer (MQO 2.2, Figure 10).

Idea. If a ⊕ b is always a or b, an event that loses against a younger one can never be an answer again: drop it. What
remains is a deque whose head answers for the whole window, and whose first entry within a range answers for that range.

State, max over the events 5 2 3 4 at positions 3 to 6:

    deque   (3: 5) (6: 4)            2 and 3 lost against 4; the last two events' maximum is 4

Invariants
1. Positions in the deque rise and lie within the window; the last one is the youngest event's.
2. No entry selects the next one: entry_i ⊕ entry_{i+1} is entry_i.

Costs in ⊕ (comparisons by `selects`): amortised below 2 a round, since an event is compared once as the last entry that
stays and once when it loses; worst n. Queries: 0 ⊕ for any number of ranges. Space: 1 to n entries of a partial and a
position; the deque grows and shrinks with what is in it.

Departures. Ranges asked one by one are found by binary search; in bulk every range keeps its entry from round to round
(the paper walks the deque each time). A random stream's deque has the harmonic number of n entries on average, not the
paper's Σ 1/i!.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.evaluation import Events, answer, lifted
from windlass.aggregates.monoid import Columns, Monoid
from windlass.errors import UnsupportedAggregate
from windlass.kernels import accessors, chooser, unsigned
from windlass.stores import rounds
from windlass.stores.layout import Integers
from windlass.stores.rounds import Parts, Technique
from windlass.stores.store import Kernel, Store

_SMALLEST = 16


class SlickDequeNonInv(Store):
    """SlickDeque (Non-Inv): the events that can still be an answer, for selective aggregates."""

    integers: tuple[str, ...] = ("head", "size", "entries", "youngest")
    answers_ranges = True
    costs = "amortised < 2 ⊕ a round for all ranges, worst n; 1 to n partials and positions"

    def __init__(self, aggregate: Aggregate, *, windows: Sequence[int] | None = None, **options: Any) -> None:
        super().__init__(aggregate, **options)
        if windows is not None:
            self._ranges(windows)  # any range can be asked for at any time: they need only make sense

    def _check_aggregate(self) -> None:
        if not self.aggregate.selective:
            raise UnsupportedAggregate(
                f"SlickDeque (Non-Inv) needs a selective aggregate (a ⊕ b is a or b), and {self.aggregate!r} is not; "
                "use FlatFIT, FlatFAT or TwoStacks"
            )

    @staticmethod
    def technique(m: Monoid) -> Technique:
        selects = m.selects
        assert selects is not None
        load, store = accessors(m.fields)
        lift_at, answer_at, choose = lifted(m), answer(m), chooser(m.fields)

        def insert(ring: Any, links: Any, h: Any, x: Any) -> Any:
            head, size, entries, youngest = h
            mask = len(links) - 1
            while entries > 0 and selects(load(ring, (head + entries - 1) & mask), x):
                entries -= 1
            tail = (head + entries) & mask
            store(ring, tail, x)
            links[unsigned(tail)] = youngest + 1
            return (head, size + 1, entries + 1, youngest + 1)

        def evict(ring: Any, links: Any, h: Any) -> Any:
            head, size, entries, youngest = h
            if links[unsigned(head)] == youngest - size + 1:
                head = (head + 1) & (len(links) - 1)
                entries -= 1
            return (head, size - 1, entries, youngest)

        def query(ring: Any, links: Any, h: Any) -> Any:
            return load(ring, h[0])

        def suffix(ring: Any, links: Any, h: Any, q: Any, r: Any) -> Any:
            head, size, entries, youngest = h
            mask = len(links) - 1
            low, high = 0, entries - 1  # the first entry of the youngest r is at low … high
            while low < high:
                middle = (low + high) >> 1
                if links[unsigned((head + middle) & mask)] > youngest - r:
                    high = middle
                else:
                    low = middle + 1
            return load(ring, (head + low) & mask)

        def room(ring: Any, links: Any, h: Any) -> Any:
            return h[2] < len(links)

        def run(ring: Any, links: Any, h: Any, events: Any, i: Any, answers: Any) -> Any:
            # How many entries an event beats is what no processor can predict, and a wrong guess costs more than the
            # rest of the round. So each turn of this loop makes one comparison and steps, by choosing values and not by
            # a branch, either back (the last entry is beaten) or on to the next event. What a step back has written is
            # written over. Both choices, the entry below and the next event, are loaded before it is known which one
            # is needed. The stretch ends before the head leaves the window, the deque is full or the events end.
            head, size, entries, youngest = h
            mask = len(links) - 1
            until = i + min(events[2] - 1 - i, len(links) - entries, links[unsigned(head)] - (youngest - size + 1))
            if until <= i:
                return i, h
            top, position = head + entries, youngest + 1 - i
            last, below = load(ring, (top - 1) & mask), load(ring, (top - 2) & mask)
            x = lift_at(events, i)
            while i < until:
                following, deeper = lift_at(events, i + 1), load(ring, (top - 3) & mask)
                beaten = top > head and selects(last, x)
                slot = top & mask
                store(ring, slot, x)
                links[unsigned(slot)] = position + i
                answer_at(answers, i, load(ring, head))
                step = int(beaten)
                top += 1 - 2 * step
                i += 1 - step
                last, below = choose(beaten, below, x), choose(beaten, deeper, last)
                x = choose(beaten, x, following)
            return i, (head, size, top - head, position + i - 1)

        return Technique(insert, evict, query, suffix, room, run)

    def _many_kernel(self) -> Kernel:
        return _slide_many_non_inv

    def _scratch_slots(self, ranges: int) -> int:
        return ranges

    def _slide_many(self, events: Events, ranges: Integers, arrow: bool) -> Any:
        order = np.argsort(ranges, kind="stable")
        answers = super()._slide_many(events, ranges[order], arrow)
        back = np.argsort(order, kind="stable")
        if np.array_equal(back, np.arange(len(back))):
            return answers
        return answers.select(back.tolist()) if arrow else answers[:, back]

    # The ring holds entries, of which there are fewer than events: it is as large as the deque needs.

    def _round_capacity(self, capacity: int) -> int:
        return max(_SMALLEST, 1 << max(0, capacity - 1).bit_length())

    def _links_for(self, capacity: int) -> Integers:
        return np.zeros(capacity, np.int64)

    def _insert(self, events: Events) -> None:
        self._advance(rounds.insert_kernel, events)

    def _reserve_exactly(self, events: int) -> None:
        pass

    def _make_room(self) -> None:
        self.lay_out(*self.live(), 2 * self._capacity)

    def _evict(self, count: int) -> None:
        super()._evict(count)
        if self._entries <= self._capacity // 4 and self._capacity > _SMALLEST:
            self.lay_out(*self.live(), self._capacity // 2)

    def _reserve(self, capacity: int) -> None:
        pass

    def live(self) -> tuple[Columns, Integers]:
        order = (int(self._header[0]) + np.arange(self._entries)) & (self._capacity - 1)
        return tuple(column[order] for column in self._ring), self._links[order]

    def lay_out(self, columns: Columns, links: Integers, capacity: int) -> None:
        super().lay_out(columns, links, capacity)
        self._links[: len(links)] = links

    def live_slots(self) -> int:
        return self._entries

    @property
    def _entries(self) -> int:
        return int(self._header[2])

    def check_structure(self) -> None:
        head, size, entries, youngest = (int(v) for v in self._header)
        assert 0 <= head < self._capacity and 0 <= entries <= min(size, self._capacity), "1: sizes"
        assert (entries > 0) == (size > 0), "1: sizes"
        _, positions = self.live()
        assert (np.diff(positions) > 0).all(), "1: positions rise"
        if entries:
            assert youngest - size < positions[0] and positions[-1] == youngest, "1: positions lie in the window"

    def check_invariants(self) -> None:
        super().check_invariants()
        if self._monoid is None or self._monoid.selects is None:
            return
        columns, _ = self.live()
        load, _ = accessors(self._monoid.fields)
        for i in range(self._entries - 1):
            assert not self._monoid.selects(load(columns, i), load(columns, i + 1)), "2: a losing entry"


def _slide_many_non_inv(p: Parts) -> Any:
    """Every range keeps the entry that answers it, its value in `held`. Little happens in a round: the entries that
    lost against the new event, those of the shortest ranges, give way to it; and an entry that leaves its range,
    which is known beforehand, gives way to the next. `windows` must rise."""
    insert, evict, _, _, room, _ = p.technique
    begin, end, lift_at, answer_at, load, store = p.begin, p.end, p.lifted, p.stream_answer, p.load, p.store

    def slide_many(state: Any, events: Any, i: Any, windows: Any, longest: Any, scratch: Any, answers: Any) -> Any:
        header, slots, ring, links = state
        numbers, held = scratch
        h = begin(header, slots)
        k, mask = len(windows), len(links) - 1
        at, until = numbers[:k], numbers[k:]  # the entry's number, counted from the first head, and when it leaves
        first = 0
        soonest = h[3]
        if h[1] > 0:
            for q in range(k):
                at[q] = 0
                while links[unsigned((h[0] + at[q]) & mask)] <= h[3] - windows[q]:
                    at[q] += 1
                slot = (h[0] + at[q]) & mask
                store(held, q, load(ring, slot))
                until[q] = links[unsigned(slot)] + windows[q]
        else:
            for q in range(k):
                at[q] = 0
        while i < events[2]:
            if h[1] == longest:
                head = h[0]
                h = evict(ring, links, h)
                first += (h[0] - head) & mask
            if not room(ring, links, h):
                break
            x = lift_at(events, i)
            h = insert(ring, links, h, x)
            last, now = first + h[2] - 1, h[3]
            q = 0
            while q < k and at[q] >= last:
                at[q] = last
                store(held, q, x)
                until[q] = now + windows[q]
                q += 1
            if now >= soonest:
                soonest = now + longest
                for q in range(k):
                    if until[q] <= now:
                        at[q] += 1
                        slot = (h[0] + at[q] - first) & mask
                        store(held, q, load(ring, slot))
                        until[q] = links[unsigned(slot)] + windows[q]
                    soonest = min(soonest, until[q])
            row = i * k
            for q in range(k):
                answer_at(answers, row + q, load(held, q))
            i += 1
        end(header, slots, h)
        return i

    return slide_many
