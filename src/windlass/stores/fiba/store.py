"""The stores over a B-tree: FiBA, and the classic augmented B-tree as its baseline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from windlass import durations
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.evaluation import Answers, Events
from windlass.errors import InvalidArgument
from windlass.exclusive import exclusive, reading
from windlass.stores.bound import SMALLEST, count_of
from windlass.stores.fiba import nodes
from windlass.stores.fiba.changing import (
    Function,
    change_kernel,
    contains_step,
    cut_step,
    evict_step,
    evict_up_to_step,
    insert_step,
    machine_code,
    query_kernel,
    quick,
    range_step,
    repair_kernel,
    whole_step,
)
from windlass.stores.fiba.memory import Memory, arity_of
from windlass.stores.fiba.nodes import SIZE
from windlass.stores.fiba.streaming import stream_through
from windlass.stores.fiba.times import GREATEST, LEAST, Times, are_timestamps, time_of, times_of
from windlass.stores.layout import Integers

DEFAULT_ARITY = 16
_NOTHING: Events = ((), np.zeros(0, np.bool_), 0)
_AS_THEY_ARE = np.zeros(0, np.int64)


# ---------------------------------------------------------------------- the stores


class BTree(Memory):
    """Events by time in a B-tree, with partial aggregates in its nodes."""

    needs_identity = True  # of a stream's answers, where a time has not come yet

    def __init__(
        self,
        aggregate: Aggregate,
        *,
        min_arity: int = DEFAULT_ARITY,
        unit: str = "us",
        dtype: Any = None,
        nullable: bool | None = None,
        capacity: int | None = None,
    ) -> None:
        self.min_arity = arity_of(min_arity)
        durations.parse(1, unit=unit)
        self.unit = unit
        super().__init__(aggregate, dtype=dtype, nullable=nullable, capacity=capacity)

    # ------------------------------------------------------------------ one event at a time

    @exclusive
    def insert(self, time: Any, *values: Any) -> None:
        """Insert an event. If there is one of that time, the two are combined, the older arrival first."""
        t = time_of(time)
        with self._all_or_nothing():
            self._insert(np.array([t]), self._event(values), _AS_THEY_ARE)

    @exclusive
    def evict(self, time: Any) -> bool:
        """Remove the event of a time, wherever it is; False if there is none."""
        t = time_of(time)
        if len(self) == 0:
            return False
        with self._all_or_nothing():
            return bool(self._change(evict_step, t, 0))

    @exclusive
    def query(self, start: Any = None, end: Any = None) -> Any:
        """The answer over the window; or over the times from `start` on and before `end`. None if there is none."""
        try:
            return self._query(start, end)
        except BaseException as error:
            if self._is_settled:  # otherwise the interrupted call was repairing nodes
                self.undone(error)
            raise

    def _query(self, start: Any, end: Any) -> Any:
        first = LEAST if start is None else time_of(start)
        last = GREATEST if end is None else time_of(end) - 1
        if len(self) == 0 or first > last or (end is not None and last < LEAST):
            return self._empty_answer()
        answers = self._answers(1)
        if not self._answer_between(first, last, answers, 0):
            return self._empty_answer()
        return self._finish(answers)[0].as_py()

    def _answer_between(self, first: int, last: int, answers: Answers, row: int) -> bool:
        """Answer over the times from first to last; False if there are none."""
        oldest, youngest = self._oldest(), self._youngest()
        assert oldest is not None and youngest is not None
        self._settle()
        if first > youngest or last < oldest:
            return False
        if first <= oldest and last >= youngest:
            pieces = np.empty(3, np.int64)
            n = machine_code(whole_step)(self._tree, pieces)
        else:
            pieces = np.empty(16 * self.min_arity * (self.height + 2), np.int64)
            n = machine_code(range_step)(self._tree, max(first, oldest), last, pieces)
        if n > 0:
            kernel = self._kernel(query_kernel)
            self._run(kernel, self._state(), (pieces, n, answers, row), bulk=True, writes=False)
        return bool(n > 0)

    def _answer_range(self, first: int, answers: Answers, row: int) -> None:
        """Answer over the times from first on, of which there are some."""
        self._answer_between(first, GREATEST, answers, row)

    @reading
    def oldest(self) -> int | None:
        """The oldest time; None if there is none."""
        return self._oldest()

    @reading
    def youngest(self) -> int | None:
        """The youngest time; None if there is none."""
        return self._youngest()

    def _oldest(self) -> int | None:
        if len(self) == 0:
            return None
        return int(self._nodes[self._head[nodes.LEFT] + nodes.TIMES])

    def _youngest(self) -> int | None:
        if len(self) == 0:
            return None
        finger = self._head[nodes.RIGHT]
        return int(self._nodes[finger + nodes.TIMES + self._nodes[finger + nodes.ENTRIES] - 1])

    @reading
    def __contains__(self, time: Any) -> bool:
        if len(self) == 0:
            return False
        return bool(machine_code(contains_step)(self._tree, time_of(time)))

    def __iter__(self) -> Any:
        """The times, oldest first."""
        return iter(self.times().tolist())

    @reading
    def times(self) -> Times:
        """The times, oldest first."""
        return self._live()[0]

    # ------------------------------------------------------------------ bulk

    @exclusive
    def bulk_insert(self, times: Any, values: Any) -> None:
        """Insert many events, in any order: sorted once, in one pass over the tree, each node repaired once."""
        ts = times_of(times)
        if not self._is_compiled():
            with self._all_or_nothing(bulk=True):
                events, _ = self._read(values)
                _check_lengths(ts, events)
                if len(ts):
                    self._insert(ts, events, _AS_THEY_ARE)
            return
        try:  # no context manager: it would cost more than a small batch
            events, _ = self._read(values)
            _check_lengths(ts, events)
        except BaseException as error:
            self.undone(error)
            raise
        try:
            if len(ts):
                self._insert(ts, events, _AS_THEY_ARE)
        except BaseException as error:
            self.unfinished(error)
            raise

    @exclusive
    def bulk_evict(self, up_to: Any) -> int:
        """Remove every event before a time; returns how many there were."""
        t = time_of(up_to)
        size = len(self)
        if size == 0 or t == LEAST:
            return 0
        cut = self._quick.get(cut_step)
        if cut is not None:  # as `_evict_through`
            self._is_settled = False
            evicted: int = cut((self._head, self._nodes, self._free), t - 1)
            if size - evicted <= self._capacity >> 2:
                self._shrink()
            return evicted
        if self._is_compiled():
            return self._evict_through(t - 1)
        with self._all_or_nothing():
            return self._evict_through(t - 1)

    @exclusive
    def stream(
        self, times: Any, values: Any, window: int | None = None, *, span: Any = None, last: Sequence[Any] = ()
    ) -> Any:
        """Run events through the window in the order given and return every answer, one an event.

        `window`: the window holds that many distinct times. Once it is full, a new time replaces the oldest one, even
        if the new time is the earlier of the two. `span`: the window holds the times after the youngest minus the span;
        an older event is not added. `last`: spans of parts of the window that end with its youngest time; then the
        answers are a tuple, the window's first and one for each part. NumPy values (and lists) give NumPy answers,
        Arrow values give Arrow.
        """
        if (window is None) == (span is None):
            raise InvalidArgument("stream needs one of window= and span=")
        if are_timestamps(times):
            durations.refuse_plain("span", span)
            for part in last:
                durations.refuse_plain("a span of last=", part)
        size = count_of(window, "window") if window is not None else 0
        length = durations.parse(span, unit=self.unit) if span is not None else 0
        parts = [durations.parse(part, unit=self.unit) for part in last] if last else last
        if span is not None and any(part > length for part in parts):
            raise InvalidArgument(f"a part of the window cannot be longer than its span of {span!r}; got {list(last)}")
        ts = times_of(times)
        if not self._is_compiled():
            with self._all_or_nothing(bulk=True):
                events, arrow = self._read(values)
                _check_lengths(ts, events)
                return self._stream(ts, events, arrow, size, length, parts)
        try:
            events, arrow = self._read(values)
            _check_lengths(ts, events)
        except BaseException as error:
            self.undone(error)
            raise
        kept = self.__dict__ | self._copies() if self._bound.may_not_fit else None
        try:
            return self._stream(ts, events, arrow, size, length, parts)
        except BaseException as error:
            if kept is None:
                self.unfinished(error)
            else:
                self.__dict__ = kept
                self.undone(error)
            raise

    def _stream(self, ts: Times, events: Events, arrow: bool, size: int, length: int, parts: Sequence[int]) -> Any:
        answers = self._answers(events[2])
        if not parts:
            stream_through(self, ts, events, size, length, answers)
            return self._present(answers, arrow)
        lasts = [(part, self._answers(events[2])) for part in parts]
        stream_through(self, ts, events, size, length, answers, lasts)
        return tuple(self._present(found, arrow) for found in (answers, *(found for _, found in lasts)))

    # ------------------------------------------------------------------ steps

    def _insert(self, ts: Times, events: Events, order: Integers) -> None:
        n = len(ts)
        size = n + self._head.item(SIZE)
        if size > self._capacity:
            self._reserve(max(size, 2 * self._capacity, SMALLEST))
        change = self._quick.get(change_kernel)
        if change is not None and n <= self._fits:
            self._insert_quickly(ts, events, order, change)
        elif self._change(insert_step, ts, n, events, order) < 0:
            order = np.argsort(ts, kind="stable")
            self._insert(ts[order], events, order)

    def _insert_quickly(self, ts: Times, events: Events, order: Integers, change: Function) -> None:
        """As `_change`, once that has run."""
        head, nodes_, arena = self._head, self._nodes, self._arena
        self._has_written = True
        result, count = self._quick[insert_step]((head, nodes_, self._free), ts, arena)
        if result < 0:
            order = np.argsort(ts, kind="stable")
            self._insert(ts[order], events, order)
            return
        change((head, nodes_, self._ring, self._aggregates), events, order, len(ts), arena, count)
        self._is_settled = True

    def _evict_through(self, t: int) -> int:
        if self._bound.is_compiled:
            self._is_settled = False
            evicted = int(machine_code(cut_step)(self._tree, t))
            self._quick[cut_step] = quick(machine_code(cut_step))
        else:
            evicted = int(self._change(evict_up_to_step, t, 0))
        self._shrink()
        return evicted

    def _change(
        self, step: Function, argument: Any, n: int, events: Events = _NOTHING, order: Integers = _AS_THEY_ARE
    ) -> Any:
        """Both steps of a change of n events, or of the eviction of one."""
        arena = self._room(n)
        if self._bound.is_compiled or n > 1:
            self._has_written = self._bound.is_compiled
            result, count = machine_code(step)(self._tree, argument, arena)
            if n and result >= 0:
                kernel = self._kernel(change_kernel)
                self._run(kernel, self._state(), (events, order, n, arena, count), bulk=True)
                if self._bound.is_compiled and n > 1:
                    self._quick[insert_step] = quick(machine_code(insert_step))
                    self._quick[change_kernel] = quick(kernel)
            elif count:
                self._repair(0, count)
            if result >= 0:
                self._is_settled = True
            return result
        tree, state = self._tree, self._state()
        if self._journal is not None:
            tree, state = self._journal.noting(tree), self._journal.noting(state)
        with np.errstate(all="ignore"):
            result, count = step(tree, argument, arena)
            if n:
                self._kernel(change_kernel)(state, events, order, n, arena, count)
            else:
                self._kernel(repair_kernel)(state, arena, 0, count)
        self._is_settled = True
        return result


class FiBA(BTree):
    """The finger B-tree aggregator: O(log d) for an event at distance d from the window's nearer end, O(1) a query.

    `min_arity` is the least number of children of a node, half of the greatest. `unit` is what a span given as text is
    counted in; the times of timestamps and dates are microseconds. `dtype`, `nullable` and `capacity` as for all
    stores.
    """

    fingers = True
    costs = "O(1) ⊕ in order, O(log d) at distance d; n partials and n / min_arity"


class ClassicBTree(BTree):
    """A B-tree that keeps in every node the aggregate of its subtree: O(log n) an event, wherever it falls."""

    fingers = False
    costs = "O(log n) ⊕ an event; n partials and n / min_arity"


def _check_lengths(ts: Times, events: Events) -> None:
    if len(ts) != events[2]:
        raise InvalidArgument(f"got {len(ts)} times and {events[2]} values")
