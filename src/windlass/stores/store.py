"""The protocol of the stores for events in order: a window of events as partials, kept by one technique.

    insert(v)  evict()  query()                       one event at a time, at Python's speed
    insert_many(values)  slide(values, window=…)      the same in bulk, compiled: the unit of work

The oldest event leaves first. Where events come and go in any order, see `fiba`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from windlass.aggregates import evaluation
from windlass.aggregates.evaluation import Events
from windlass.errors import EmptyWindow, InvalidArgument, UnsupportedAggregate
from windlass.exclusive import exclusive
from windlass.stores import rounds
from windlass.stores.bound import SMALLEST, Bound, count_of
from windlass.stores.layout import Integers
from windlass.stores.rounds import Function, Parts

Kernel = Callable[[Parts], Function]


class Store(Bound):
    """A window over a stream, answering `query()` incrementally. Subclasses are the techniques.

    `dtype` (one, or one a column) and `nullable` bind the store to value types before the first value; `capacity`
    reserves room.
    """

    answers_ranges: ClassVar[bool] = False  # can answer for the youngest r events, for many r
    query_writes: ClassVar[bool] = False  # a query changes the state, though not the window

    # ------------------------------------------------------------------ one event at a time

    @exclusive
    def insert(self, *values: Any) -> None:
        """Append the youngest event: one value a column of the aggregate."""
        with self._all_or_nothing():
            self._insert(self._event(values))

    @exclusive
    def insert_many(self, values: Any) -> None:
        """Append many events, oldest first."""
        with self._all_or_nothing(bulk=True):
            events, _ = self._read(values)
            self._insert(events)

    def _insert(self, events: Events) -> None:
        needed = len(self) + events[2]
        if needed > self.capacity:
            self._reserve(max(needed, 2 * self.capacity, SMALLEST))
        self._advance(rounds.insert_kernel, events)

    @exclusive
    def evict(self, count: int = 1) -> None:
        """Remove the oldest event, or the `count` oldest."""
        count = count_of(count, "the number of events to evict", least=0)
        if count > len(self):
            raise EmptyWindow(f"cannot evict {count} event(s) from a {type(self).__name__} of {len(self)}")
        if count == 0:
            return
        with self._all_or_nothing(bulk=count > 1):
            self._evict(count)

    def _evict(self, count: int) -> None:
        self._call(rounds.evict_kernel, count, bulk=count > 1)
        capacity = self._shrunk(len(self))
        if capacity < self.capacity:
            self._reserve(capacity)

    def _shrunk(self, events: int) -> int:
        """The capacity to keep for so many events: at least a quarter of a ring is in use, unless it is small."""
        capacity = self.capacity
        while events <= capacity // 4 and capacity // 2 >= max(SMALLEST, self._reserved):
            capacity //= 2
        return capacity

    @exclusive
    def query(self, last: int | None = None) -> Any:
        """The answer over the window, lowered; with `last`, over its youngest events only. None if there is none."""
        if self.query_writes and not self._is_compiled():
            with self._all_or_nothing():
                return self._query(last)
        try:
            return self._query(last)
        except BaseException as error:
            self._answered_not(error)
            raise

    @exclusive
    def query_many(self, lasts: Sequence[int]) -> list[Any]:
        """Answers over the youngest `r` events for each `r`: many queries from one structure."""
        if self.query_writes and not self._is_compiled():
            with self._all_or_nothing():
                return self._query_many(lasts)
        try:
            return self._query_many(lasts)
        except BaseException as error:
            self._answered_not(error)
            raise

    def _answered_not(self, error: BaseException) -> None:
        """Settle a query that raised: the store is unchanged, unless compiled code wrote to it."""
        if not (self.query_writes and self._is_compiled()):
            self.undone(error)

    def _query(self, last: int | None) -> Any:
        if last is not None:
            return self._query_many([last])[0]
        if len(self) == 0:
            return self._empty_answer()
        answers = self._answers(1)
        self._call(rounds.query_kernel, answers, writes=self.query_writes)
        return self._finish(answers)[0].as_py()

    def _query_many(self, lasts: Sequence[int]) -> list[Any]:
        ranges = self._ranges(lasts)
        if len(self) == 0:
            return [self._empty_answer() for _ in ranges]
        answers = self._answers(len(ranges))
        self._call(rounds.suffix_kernel, ranges, answers, writes=self.query_writes)
        return list(self._finish(answers).to_pylist())

    # ------------------------------------------------------------------ bulk

    @exclusive
    def slide(
        self,
        values: Any,
        window: int | None = None,
        *,
        windows: Sequence[int] | None = None,
        evictions: Any = None,
    ) -> Any:
        """Run all values through the window and return every answer, one an event.

        `window`: the window holds at most that many events. `windows`: several at once, one column of answers each.
        `evictions`: a window of varying size; round i first evicts `evictions[i]` events.
        NumPy values (and lists) give NumPy answers, Arrow values give Arrow.
        """
        if sum(option is not None for option in (window, windows, evictions)) != 1:
            raise InvalidArgument("slide needs exactly one of window=, windows= and evictions=")
        with self._all_or_nothing(bulk=True):
            if windows is not None:
                ranges = self._ranges(windows)
                events, arrow = self._read(values, int(ranges.max()))
                return self._slide_many(events, ranges, arrow)
            if window is not None:
                size = count_of(window, "window")
                self._check_window(size)
                events, arrow = self._read(values, size)
                self._trim(size, events)
                self._reserve_exactly(min(size, len(self) + events[2]))
                answers = self._answers(events[2])
                self._keep_if_answers_may_not_fit()
                self._advance(rounds.slide_kernel, events, size, answers)
            else:
                events, arrow = self._read(values)
                counts = self._evictions(evictions, events[2])
                answers = self._answers(events[2])
                self._keep_if_answers_may_not_fit()
                self._advance(rounds.roll_kernel, events, counts, answers)
            return self._present(answers, arrow)

    def _slide_many(self, events: Events, ranges: Integers, arrow: bool) -> Any:
        n, k, longest = events[2], len(ranges), int(ranges.max())
        self._trim(longest, events)
        self._reserve_exactly(min(longest, len(self) + n))
        answers = self._answers(n * k)
        self._keep_if_answers_may_not_fit()
        scratch = np.zeros(2 * k, np.int64), self._bound.allocate(self._scratch_slots(k))
        self._advance(self._many_kernel(), events, ranges, longest, scratch, answers)
        if not arrow:
            return self._present(answers, arrow).reshape(n, k)
        columns, defined = answers
        each = [(tuple(_every(c, q, k) for c in columns), _every(defined, q, k)) for q in range(k)]
        return pa.RecordBatch.from_arrays([self._finish(a) for a in each], [str(r) for r in ranges])

    def _trim(self, window: int, events: Events) -> None:
        """Evict what a window of this size no longer holds, before events slide through it."""
        if len(self) > window and events[2] > 0:
            self._call(rounds.evict_kernel, len(self) - window, bulk=True)

    def _many_kernel(self) -> Kernel:
        return rounds.slide_many_kernel

    def _scratch_slots(self, ranges: int) -> int:
        """Partials that the kernel for many ranges needs besides the state."""
        return 1

    def _evictions(self, evictions: Any, n: int) -> Integers:
        counts = np.ascontiguousarray(evictions)
        if counts.shape != (n,) or (n > 0 and counts.dtype.kind not in "iu"):
            raise InvalidArgument(
                f"evictions must be {n} integers, one a value; got {counts.dtype} of shape {counts.shape}"
            )
        counts = counts.astype(np.int64)
        before = len(self) + np.arange(n) - np.cumsum(counts)  # the size after each round's evictions
        bad = np.flatnonzero((before < 0) | (counts < 0))
        if len(bad):
            raise EmptyWindow(f"evictions[{bad[0]}] = {counts[bad[0]]} evicts more events than there are")
        self._check_window(int(before.max(initial=-1)) + 1)
        self._reserve_exactly(int(before.max(initial=-1)) + 1)
        return counts

    def _ranges(self, lasts: Iterable[int]) -> Integers:
        if not isinstance(lasts, Iterable):
            raise InvalidArgument(f"give several windows as a sequence of integers, got {lasts!r}")
        ranges = [count_of(r, "window") for r in lasts]
        if not ranges:
            raise InvalidArgument("give at least one window")
        if not self.answers_ranges:
            raise UnsupportedAggregate(
                f"{type(self).__name__} answers its whole window only; for many ranges from one structure use "
                "SlickDeque, FlatFIT, FlatFAT, BInt or Recompute"
            )
        return np.array(ranges, np.int64)

    def _check_window(self, events: int) -> None:
        """Refuse a window of a size that this store cannot answer for."""

    def _reserve_exactly(self, events: int) -> None:
        """A window of known size gets just that much room; a window that grows event by event doubles it."""
        if events > self.capacity:
            self._reserve(events)

    # ------------------------------------------------------------------ kernels

    def _call(self, kernel: Kernel, *arguments: Any, bulk: bool = False, writes: bool = True) -> Any:
        m, technique = self._bound, self._technique()

        def make() -> Function:
            return kernel(rounds.parts(m, technique(m), len(self.integers), len(self.running)))

        return self._run(evaluation.kernel(m, make, technique, kernel), self._state(), arguments, bulk, writes)

    def _state(self) -> tuple[Any, ...]:
        return self._header, self._running, self._ring, self._links

    def _copies(self) -> dict[str, Any]:
        running, ring = (tuple(c.copy() for c in columns) for columns in (self._running, self._ring))
        return {"_header": self._header.copy(), "_running": running, "_ring": ring, "_links": self._links.copy()}

    def _advance(self, kernel: Kernel, events: Events, *arguments: Any) -> None:
        """Run a bulk kernel to the end, making room where it stopped for lack of it."""
        done = 0
        while done < events[2]:
            done = int(self._call(kernel, events, done, *arguments, bulk=events[2] > 1))
            if done < events[2]:
                self._make_room()

    def _make_room(self) -> None:
        raise AssertionError("a ring of the window's size always has room")


def _every(column: np.ndarray[Any, Any], q: int, k: int) -> np.ndarray[Any, Any]:
    """Query q's rows of answers that stand k a round."""
    return np.ascontiguousarray(column[q::k])
