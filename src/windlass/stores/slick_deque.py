"""SlickDeque: two techniques, chosen by what the aggregate can do (MQO 2.2, Figure 10; Shein, Chrysanthis, Labrinidis 2018).

Idea, Inv. For an invertible aggregate keep one running aggregate for each range, all over one ring of partials: at each slide
add what comes and subtract what leaves that range.

    ring  3 1 4 1 5      ranges 2 and 5: 6 and 14;  insert 9:  6 ⊖ 1 ⊕ 9  and  14 ⊖ 3 ⊕ 9

Idea, Non-Inv. If a ⊕ b is always a or b, an event that loses against a younger one can never be an answer again. Drop it.
What remains is a deque whose head answers for the whole window, and whose first entry within a range answers for that.

    max, events 5 2 3 4 (positions 3 to 6):     deque  (3: 5) (6: 4)        2 and 3 lost against 4

Invariants, Inv
1. 0 <= size <= capacity; the ring holds single events.
2. Running aggregate q is the combination of the youngest min(range_q, size) events.
Invariants, Non-Inv
1. Positions in the deque rise and lie within the window; the last is the youngest event's.
2. No entry but the last selects: entry_i ⊕ entry_{i+1} is entry_i.

Costs in ⊕ and ⊖. Inv: 2 a round and range, worst too; queries 0. Non-Inv: below 2 a round amortised (each event is compared
once when it comes and once when it loses), worst n; queries 0 ⊕ for any number of ranges. Space: Inv n partials and one a
range. Non-Inv: between 1 and n entries of partial and position; the deque grows and shrinks with what is in it.

Departures. One range, Inv, is subtract-on-evict and uses its code. Non-Inv ranges are looked up by binary search when
asked one by one; in bulk every range keeps its entry from round to round (the paper walks the whole deque each time).
Expected length of the deque over a random stream: the harmonic number of n, not the paper's Σ 1/i!.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.evaluation import answer, lifted
from windlass.aggregates.monoid import Columns, Monoid
from windlass.errors import InvalidArgument, UnsupportedAggregate
from windlass.kernels import accessors, chooser, unsigned
from windlass.stores import rounds
from windlass.stores.dyadic import same
from windlass.stores.rounds import Parts, Technique
from windlass.stores.store import Store
from windlass.stores.subtract_on_evict import SubtractOnEvict


class SlickDeque(Store):
    """Two ⊕ a round for many ranges at once, for aggregates that are invertible or selective.

    `SlickDeque(aggregate)` gives the technique that fits: `SlickDequeInv` (with `windows=` known beforehand, or one
    window) or `SlickDequeNonInv`.
    """

    def __new__(
        cls, aggregate: Aggregate, *arguments: Any, windows: Sequence[int] | None = None, **options: Any
    ) -> Any:
        if cls is SlickDeque and isinstance(aggregate, Aggregate):
            if aggregate.invertible:
                return super().__new__(SlickDequeInv)
            if aggregate.selective:
                return super().__new__(SlickDequeNonInv)
            raise UnsupportedAggregate(
                f"SlickDeque needs an aggregate that is invertible or selective (a ⊕ b is a or b), and {aggregate!r} is "
                "neither; use FlatFIT, FlatFAT or TwoStacks"
            )
        return super().__new__(cls)


class SlickDequeNonInv(SlickDeque):
    """SlickDeque (Non-Inv): the events that can still be an answer, for selective aggregates."""

    integers = ("head", "size", "entries", "youngest")
    answers_ranges = True
    costs = "amortised < 2 ⊕ a round for all ranges, worst n; 1 to n partials and positions"

    def __init__(self, aggregate: Aggregate, *, windows: Sequence[int] | None = None, **options: Any) -> None:
        super().__init__(aggregate, **options)

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

        def run(ring: Any, links: Any, h: Any, values: Any, valid: Any, i: Any, n: Any, answers: Any) -> Any:
            # How many entries an event beats is what no processor can predict, and a wrong guess costs more than the rest of
            # the round. So each turn of this loop makes one comparison and steps, by choosing values and not by a branch,
            # either back (the last entry is beaten) or on to the next event. What a step back has written is written over.
            # Both choices, the entry below and the next event, are loaded before it is known which one is needed.
            head, size, entries, youngest = h
            mask = len(links) - 1
            if i >= n or entries == 0 or entries == len(links):
                return i, h
            oldest, best = links[unsigned(head)], load(ring, head)
            last, below = load(ring, (head + entries - 1) & mask), load(ring, (head + entries - 2) & mask)
            x = lift_at(values, valid, i)
            while True:
                if oldest == youngest - size + 1:  # evict: rare, so a branch
                    head = (head + 1) & mask
                    entries -= 1
                    oldest, best = links[unsigned(head)], load(ring, head)
                following = lift_at(values, valid, min(i + 1, n - 1))
                deeper = load(ring, (head + entries - 3) & mask)
                beaten = False
                if entries > 0:
                    beaten = selects(last, x)
                else:
                    oldest, best = youngest + 1, x
                tail = (head + entries) & mask
                store(ring, tail, x)
                links[unsigned(tail)] = youngest + 1
                answer_at(answers, i, best)
                step = int(beaten)
                entries += 1 - 2 * step
                youngest += 1 - step
                i += 1 - step
                last, below = choose(beaten, below, x), choose(beaten, deeper, last)
                x = choose(beaten, x, following)
                if i == n or entries == len(links):
                    break
            return i, (head, size, entries, youngest)

        return Technique(insert, evict, query, suffix, room, run)

    def _many_kernel(self) -> Callable[[Parts], Any]:
        return _slide_many_non_inv

    def _slide_many(self, columns: Columns, valid: Any, n: int, ranges: np.ndarray[Any, Any], arrow: bool) -> Any:
        self._running = self._bound.allocate(len(ranges))  # what the ranges hold during the run
        order = np.argsort(ranges, kind="stable")
        answers = super()._slide_many(columns, valid, n, ranges[order], arrow)
        back = np.argsort(order, kind="stable")
        if np.array_equal(back, np.arange(len(back))):
            return answers
        return answers.select(back.tolist()) if arrow else answers[:, back]

    # The ring holds entries, of which there are fewer than events: it is as large as the deque needs.

    def _round_capacity(self, capacity: int) -> int:
        return 1 << max(4, (capacity - 1).bit_length())

    def _links_for(self, capacity: int) -> np.ndarray[Any, Any]:
        return np.zeros(capacity, np.int64)

    def _insert(self, columns: Columns, valid: np.ndarray[Any, Any], n: int) -> None:
        self._advance(rounds.insert_kernel, n, lambda i: (columns, valid, i, n))

    def _reserve_exactly(self, events: int) -> None:
        pass

    def _make_room(self) -> None:
        self._lay_out(*self._live(), 2 * self._capacity)

    def evict(self, count: int = 1) -> None:
        super().evict(count)
        if self._entries <= self._capacity // 4 and self._capacity > 16:
            self._lay_out(*self._live(), max(16, self._capacity // 2))

    def _reserve(self, capacity: int) -> None:
        pass

    def _live(self) -> tuple[Columns, np.ndarray[Any, Any]]:
        order = (int(self._header[0]) + np.arange(self._entries)) & (self._capacity - 1)
        return tuple(column[order] for column in self._ring), self._links[order]

    def _lay_out(self, columns: Columns, links: np.ndarray[Any, Any], capacity: int) -> None:
        super()._lay_out(columns, links, capacity)
        self._links[: len(links)] = links

    def _live_slots(self) -> int:
        return self._entries

    @property
    def _entries(self) -> int:
        return int(self._header[2])

    def check_structure(self) -> None:
        head, size, entries, youngest = (int(v) for v in self._header)
        assert 0 <= head < self._capacity and 0 <= entries <= min(size, self._capacity), "1: sizes"
        assert (entries > 0) == (size > 0), "1: sizes"
        _, positions = self._live()
        assert (np.diff(positions) > 0).all(), "1: positions rise"
        if entries:
            assert youngest - size < positions[0] and positions[-1] == youngest, "1: positions lie in the window"

    def check_invariants(self) -> None:
        super().check_invariants()
        if self._monoid is None or self._monoid.selects is None:
            return
        columns, _ = self._live()
        load, _ = accessors(self._monoid.fields)
        for i in range(self._entries - 1):
            assert not self._monoid.selects(load(columns, i), load(columns, i + 1)), "2: a losing entry"


def _slide_many_non_inv(p: Parts) -> Any:
    """Every range keeps the entry that answers it, its value in `held`. Little happens in a round: the entries that lost
    against the new event, those of the shortest ranges, give way to it; and an entry that leaves its range, which is
    known beforehand, gives way to the next. `windows` must rise."""
    insert, evict, _, _, room, _ = p.technique
    begin, end, lift_at, answer_at, load, store = p.begin, p.end, p.lifted, p.answer, p.load, p.store

    def slide_many(
        header: Any,
        held: Any,
        ring: Any,
        links: Any,
        values: Any,
        valid: Any,
        i: Any,
        n: Any,
        windows: Any,
        longest: Any,
        scratch: Any,
        answers: Any,
    ) -> Any:
        h = begin(header, held)
        k, mask = len(windows), len(links) - 1
        at, until = scratch[:k], scratch[k:]  # the entry's number, counted from the first head, and when it leaves
        while h[1] > longest:
            h = evict(ring, links, h)
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
        while i < n and room(ring, links, h):
            if h[1] == longest:
                head = h[0]
                h = evict(ring, links, h)
                first += (h[0] - head) & mask
            x = lift_at(values, valid, i)
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
        end(header, held, h)
        return i

    return slide_many


class SlickDequeInv(SlickDeque):
    """SlickDeque (Inv): a running aggregate for each range, for invertible aggregates."""

    subtractable = True
    answers_ranges = True
    costs = "2 ⊕ a round and range, always; n partials and one a range"

    def __init__(self, aggregate: Aggregate, *, windows: Sequence[int] | None = None, **options: Any) -> None:
        self._windows: np.ndarray[Any, Any] | None = None
        self.integers, self.running = SubtractOnEvict.integers, SubtractOnEvict.running  # type: ignore[misc]
        super().__init__(aggregate, **options)
        if windows is not None:
            self._register(super()._ranges(windows))

    def _technique_of(self) -> Callable[[Monoid], Technique]:
        return SubtractOnEvict.technique if self._windows is None else _many_ranges

    def _register(self, windows: np.ndarray[Any, Any]) -> None:
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
        self.running = ("block",) * _BLOCK  # type: ignore[misc]
        self.integers = ("head", "size", "longest")  # type: ignore[misc]
        if self._monoid is not None:
            self._install(self._monoid)

    def _install(self, monoid: Monoid, capacity: int | None = None) -> None:
        super()._install(monoid, capacity)
        if self._windows is not None:
            self._header[2] = int(np.argmax(self._windows))

    def _kernel_running(self) -> int:
        return 1 if self._windows is None else 0

    def _slots(self, capacity: int) -> int:
        return capacity + (0 if self._windows is None else len(self._windows))

    def _links_for(self, capacity: int) -> np.ndarray[Any, Any]:
        return np.zeros(0, np.int64) if self._windows is None else self._windows.copy()

    def _live(self) -> tuple[Columns, np.ndarray[Any, Any]]:
        columns, links = super()._live()
        if self._windows is None:
            return columns, links
        running = (column[self._capacity :] for column in self._ring)
        return tuple(np.concatenate(both) for both in zip(columns, running, strict=True)), links

    def _lay_out(self, columns: Columns, links: np.ndarray[Any, Any], capacity: int) -> None:
        size = len(self)
        super()._lay_out(tuple(column[:size] for column in columns), links, capacity)
        for new, live in zip(self._ring, columns, strict=True):
            new[capacity:] = live[size:]

    def _live_slots(self) -> int:
        return len(self) + (0 if self._windows is None else len(self._windows))

    def _options(self) -> dict[str, Any]:
        return {} if self._windows is None else {"windows": self._windows.tolist()}

    def _set_options(self, options: dict[str, Any]) -> None:
        if "windows" in options:
            self._register(self._ranges(options["windows"]))

    def check_structure(self) -> None:
        super().check_structure()
        if self._windows is not None:
            assert int(self._header[2]) == int(np.argmax(self._windows)), "the longest range"

    def query(self, last: int | None = None) -> Any:
        if last is None:
            self._check_window(len(self))
        return super().query(last)

    def _check_window(self, events: int) -> None:
        if self._windows is not None and events > self._windows.max():
            raise InvalidArgument(
                f"a window of {events} events, but the longest range kept is {self._windows.max()}: "
                "evict first, or construct SlickDeque with windows=… that cover it"
            )

    def query_many(self, lasts: Sequence[int]) -> list[Any]:
        ranges = super()._ranges(lasts)
        if self._windows is None:
            if any(r < len(self) for r in ranges):
                raise InvalidArgument("construct SlickDeque with windows=… to ask for parts of the window")
            return [self.query() for _ in ranges]
        unknown = [int(r) for r in ranges if r not in self._windows]
        if unknown:
            raise InvalidArgument(
                f"no running aggregate is kept for {unknown}; known are {self._windows.tolist()}"
            )
        all_answers = super().query_many(self._windows.tolist())
        return [all_answers[int(np.flatnonzero(self._windows == r)[0])] for r in ranges]

    def _slide_many(
        self, columns: Columns, valid: Any, n: int, ranges: np.ndarray[Any, Any], arrow: bool
    ) -> Any:
        self._register(ranges)
        return super()._slide_many(columns, valid, n, ranges, arrow)

    def _many_kernel(self) -> Callable[[Parts], Any]:
        return _slide_many_inv

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


_BLOCK = (
    256  # rounds done for one range before the next: their answers, side by side, fit the first-level cache
)


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


def _slide_many_inv(p: Parts) -> Any:
    """Range by range over a block of rounds, so that one running aggregate at a time stays in registers."""
    evict = p.technique.evict
    begin, end, lift_at, answer_at, load, store = p.begin, p.end, p.lifted, p.answer, p.load, p.store
    combine, inverse = p.monoid.combine, p.monoid.inverse

    def slide_many(
        header: Any,
        block: Any,
        ring: Any,
        links: Any,
        values: Any,
        valid: Any,
        i: Any,
        n: Any,
        windows: Any,
        longest: Any,
        at: Any,
        answers: Any,
    ) -> Any:
        h = begin(header, block)
        k = len(windows)
        capacity = len(ring[0]) - k
        while h[1] > longest:
            h = evict(ring, links, h)
        head, size, _ = h
        while i < n:
            rounds = min(len(block[0]), n - i)
            tail = head + size
            if tail >= capacity:
                tail -= capacity
            for j in range(rounds):
                store(block, j, lift_at(values, valid, i + j))
            for q in range(k):
                w = windows[q]
                acc = load(ring, capacity + q)
                first = max(0, w - size)  # the first round of the block in which an event leaves the range
                for j in range(min(first, rounds)):
                    acc = combine(acc, load(block, j)) if size + j > 0 else load(block, j)
                    answer_at(answers, (i + j) * k + q, acc)
                leaving = tail + first - w
                if leaving < 0:
                    leaving += capacity
                if leaving >= capacity:
                    leaving -= capacity
                if w > 1:
                    j = first
                    while j < min(w, rounds):  # what leaves was there before the block
                        stretch = min(min(w, rounds) - j, capacity - leaving)
                        for d in range(stretch):
                            acc = combine(inverse(acc, load(ring, leaving + d)), load(block, j + d))
                            answer_at(answers, (i + j + d) * k + q, acc)
                        j += stretch
                        leaving = leaving + stretch if leaving + stretch < capacity else 0
                    for j in range(max(w, first), rounds):
                        acc = combine(inverse(acc, load(block, j - w)), load(block, j))
                        answer_at(answers, (i + j) * k + q, acc)
                else:
                    for j in range(first, rounds):
                        acc = load(block, j)
                        answer_at(answers, (i + j) * k + q, acc)
                store(ring, capacity + q, acc)
            for j in range(rounds):
                store(ring, tail, load(block, j))
                tail = tail + 1 if tail + 1 < capacity else 0
            grown = min(longest, size + rounds)
            head += size + rounds - grown
            while head >= capacity:
                head -= capacity
            size = grown
            i += rounds
        end(header, block, (head, size, h[2]))
        return i

    return slide_many
