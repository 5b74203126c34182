"""SlickDeque (Inv): a running aggregate for each range, over one ring (MQO 2.2; SlickDeque, EDBT 2018).

Idea. For an invertible aggregate, at each slide add what comes and subtract what leaves, once for every range.

State, sum with the ranges 2 and 5:

    ring  3 1 4 1 5      running  6 and 14;      insert 9:  6 ⊖ 1 ⊕ 9  and  14 ⊖ 3 ⊕ 9

Invariants
1. 0 <= size <= capacity; the ring holds single events.
2. Running aggregate q is the combination of the youngest min(range_q, size) events.

Costs in ⊕ and ⊖: 2 a round and range, worst too; queries 0. Space: n partials and one a range.

Departures. One range is subtract-on-evict and uses its code. Ranges must be known before the first event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.evaluation import Events
from windlass.aggregates.monoid import Columns, Monoid
from windlass.errors import InvalidArgument
from windlass.kernels import accessors
from windlass.stores.layout import Integers, cleared, same
from windlass.stores.rounds import Parts, Technique
from windlass.stores.store import Kernel, Store
from windlass.stores.subtract_on_evict import SubtractOnEvict


class SlickDequeInv(Store):
    """SlickDeque (Inv): a running aggregate for each range, for invertible aggregates."""

    running: tuple[str, ...] = SubtractOnEvict.running
    subtractable = True
    answers_ranges = True
    costs = "2 ⊕ a round and range, always; n partials and one a range"

    def __init__(self, aggregate: Aggregate, *, windows: Sequence[int] | None = None, **options: Any) -> None:
        self._windows: Integers | None = None
        super().__init__(aggregate, **options)
        if windows is not None:
            self._register(self._ranges(windows))

    def _technique(self) -> Callable[[Monoid], Technique]:
        return SubtractOnEvict.technique if self._windows is None else _many_ranges

    def _register(self, windows: Integers) -> None:
        """Ranges must be known before events come: their running aggregates start with the stream."""
        if self._windows is not None and np.array_equal(self._windows, windows):
            return
        if len(self) > 0:
            known = "one window" if self._windows is None else f"windows {self._windows.tolist()}"
            raise InvalidArgument(
                f"this SlickDeque (Inv) keeps running aggregates for {known}, not for {windows.tolist()}; "
                "construct it with windows=… before the first event"
            )
        self._windows = windows
        self.running, self.integers = (), ("head", "size", "longest")
        if self._monoid is not None:
            self._install(self._monoid, self._reserved)

    def _install(self, monoid: Monoid, capacity: int) -> None:
        super()._install(monoid, capacity)
        if self._windows is not None:
            self._header[2] = int(np.argmax(self._windows))

    def _allocate(self, monoid: Monoid, capacity: int) -> Columns:
        if self._windows is None:
            return monoid.allocate(capacity)
        ring = monoid.allocate(capacity + len(self._windows))
        for column, nothing in zip(ring, cleared(monoid, len(self._windows)), strict=True):
            column[capacity:] = nothing  # a snapshot of an empty window must not show what was in memory before
        return ring

    def _links_for(self, capacity: int) -> Integers:
        return np.zeros(0, np.int64) if self._windows is None else self._windows.copy()

    def live(self) -> tuple[Columns, Integers]:
        columns, links = super().live()
        if self._windows is None:
            return columns, links
        running = (column[self._capacity :] for column in self._ring)
        return tuple(np.concatenate(both) for both in zip(columns, running, strict=True)), links

    def lay_out(self, columns: Columns, links: Integers, capacity: int) -> None:
        size = len(self)
        super().lay_out(tuple(column[:size] for column in columns), links, capacity)
        for new, live in zip(self._ring, columns, strict=True):
            new[self._capacity :] = live[size:]

    def live_slots(self) -> int:
        return len(self) + (0 if self._windows is None else len(self._windows))

    def options(self) -> dict[str, Any]:
        return {} if self._windows is None else {"windows": self._windows.tolist()}

    def set_options(self, options: dict[str, Any]) -> None:
        if "windows" in options:
            self._register(self._ranges(options["windows"]))

    def check_structure(self) -> None:
        super().check_structure()
        if self._windows is not None:
            assert int(self._header[2]) == int(np.argmax(self._windows)), "the longest range"

    def _query(self, last: int | None) -> Any:
        if last is None:
            self._check_window(len(self))
        return super()._query(last)

    def _check_window(self, events: int) -> None:
        if self._windows is not None and events > self._windows.max():
            raise InvalidArgument(
                f"a window of {events} events, but the longest range kept is {self._windows.max()}: "
                "evict first, or construct SlickDeque with windows=… that cover it"
            )

    def _query_many(self, lasts: Sequence[int]) -> list[Any]:
        ranges = self._ranges(lasts)
        if self._windows is None:
            if any(r < len(self) for r in ranges):
                raise InvalidArgument("construct SlickDeque with windows=… to ask for parts of the window")
            return [self._query(None) for _ in ranges]
        unknown = [int(r) for r in ranges if r not in self._windows]
        if unknown:
            raise InvalidArgument(f"no running aggregate is kept for {unknown}; known are {self._windows.tolist()}")
        all_answers = super()._query_many(self._windows.tolist())
        return [all_answers[int(np.flatnonzero(self._windows == r)[0])] for r in ranges]

    def _slide_many(self, events: Events, ranges: Integers, arrow: bool) -> Any:
        self._register(ranges)
        return super()._slide_many(events, ranges, arrow)

    def _many_kernel(self) -> Kernel:
        return _slide_many_inv

    def _scratch_slots(self, ranges: int) -> int:
        return _block(ranges) * (ranges + 1)

    def check_invariants(self) -> None:
        super().check_invariants()
        if self._monoid is None or self._windows is None or len(self) == 0:
            return
        m, size = self._monoid, len(self)
        load, _ = accessors(m.fields)
        for q, r in enumerate(self._windows):
            acc = None
            for k in range(max(0, size - int(r)), size):
                x = load(self._ring, (int(self._header[0]) + k) % self._capacity)
                acc = x if acc is None else m.combine(acc, x)
            assert same(acc, load(self._ring, self._capacity + q)), f"2: range {r}"


def _many_ranges(m: Monoid) -> Technique:
    """Running aggregates for the ranges in `links`, kept behind the ring: slot capacity + q is for range q."""
    combine, inverse = m.combine, m.inverse
    assert inverse is not None
    load, store = accessors(m.fields)

    def insert(ring: Any, links: Any, h: Any, x: Any) -> Any:
        head, size, longest = h
        capacity = len(ring[0]) - len(links)
        tail = head + size
        if tail >= capacity:
            tail -= capacity
        for q in range(len(links)):
            acc = x
            if size > 0 and links[q] > 1:
                acc = load(ring, capacity + q)
                if size >= links[q]:
                    leaving = tail - links[q]
                    acc = inverse(acc, load(ring, leaving if leaving >= 0 else leaving + capacity))
                acc = combine(acc, x)
            store(ring, capacity + q, acc)
        store(ring, tail, x)
        return (head, size + 1, longest)

    def evict(ring: Any, links: Any, h: Any) -> Any:
        head, size, longest = h
        capacity = len(ring[0]) - len(links)
        for q in range(len(links)):
            if size > 1 and links[q] >= size:
                store(ring, capacity + q, inverse(load(ring, capacity + q), load(ring, head)))
        head += 1
        if head == capacity:
            head = 0
        return (head, size - 1, longest)

    def query(ring: Any, links: Any, h: Any) -> Any:
        return load(ring, len(ring[0]) - len(links) + h[2])

    def suffix(ring: Any, links: Any, h: Any, q: Any, r: Any) -> Any:
        return load(ring, len(ring[0]) - len(links) + q)

    return Technique(insert, evict, query, suffix)


def _block(ranges: int) -> int:
    """Rounds done for one range before the next: the partials of all ranges for them fit the first-level cache."""
    return min(256, max(16, 4096 // ranges))


def _slide_many_inv(p: Parts) -> Any:
    """Range by range over a block of rounds, so that one running aggregate at a time stays in registers; then the
    answers of the block are written out in one go."""
    begin, end, lift_at, answer_at, load, store = p.begin, p.end, p.lifted, p.stream_answer, p.load, p.store
    combine, inverse = p.monoid.combine, p.monoid.inverse
    assert inverse is not None

    def slide_range(ring: Any, block: Any, running: Any, w: Any, size: Any, tail: Any, rounds: Any, out: Any) -> Any:
        """The running aggregate of one range through the events block[:rounds]; each round's goes to block[out + j]."""
        capacity = len(ring[0]) - running[1]
        acc = load(ring, capacity + running[0])
        first = max(0, w - size)  # the first round of the block in which an event leaves the range
        for j in range(min(first, rounds)):
            acc = combine(acc, load(block, j)) if size + j > 0 else load(block, j)
            store(block, out + j, acc)
        leaving = tail + first - w
        if leaving < 0:
            leaving += capacity
        if leaving >= capacity:
            leaving -= capacity
        j = first
        while w > 1 and j < min(w, rounds):  # what leaves was there before the block
            stretch = min(min(w, rounds) - j, capacity - leaving)
            for d in range(stretch):
                acc = combine(inverse(acc, load(ring, leaving + d)), load(block, j + d))
                store(block, out + j + d, acc)
            j += stretch
            leaving = leaving + stretch if leaving + stretch < capacity else 0
        for j in range(max(w, first), rounds):  # what leaves came in the block
            acc = combine(inverse(acc, load(block, j - w)), load(block, j)) if w > 1 else load(block, j)
            store(block, out + j, acc)
        if w == 1 and first == 0 and rounds > 0:
            acc = load(block, 0)
            store(block, out, acc)
            if rounds > 1:
                acc = load(block, rounds - 1)
        store(ring, capacity + running[0], acc)

    def slide_many(state: Any, events: Any, i: Any, windows: Any, longest: Any, scratch: Any, answers: Any) -> Any:
        header, slots, ring, links = state
        block = scratch[1]
        n, k = events[2], len(windows)
        capacity, most = len(ring[0]) - k, len(block[0]) // (k + 1)
        h = begin(header, slots)
        head, size, _ = h
        while i < n:
            rounds = min(most, n - i)
            tail = head + size
            if tail >= capacity:
                tail -= capacity
            for j in range(rounds):
                store(block, j, lift_at(events, i + j))
            for q in range(k):
                slide_range(ring, block, (q, k), windows[q], size, tail, rounds, most * (q + 1))
            for j in range(rounds):
                for q in range(k):
                    answer_at(answers, (i + j) * k + q, load(block, most * (q + 1) + j))
                store(ring, tail, load(block, j))
                tail = tail + 1 if tail + 1 < capacity else 0
            grown = min(longest, size + rounds)
            head += size + rounds - grown
            while head >= capacity:
                head -= capacity
            size = grown
            i += rounds
        end(header, slots, (head, size, h[2]))
        return i

    return slide_many
