"""Final aggregation in a tree: each technique answers a schedule of windows over the tree's partials (MQO 2.2).

| technique | how |
|---|---|
| Panes | folds the partials of each window |
| SlickDeque (Inv) | a running aggregate a range: what came is added, what left is subtracted, once each |
| TwoStacks, DABA | a store a range |
| FlatFAT, B-Int, FlatFIT, SlickDeque (Non-Inv) | one store for all ranges |

The partials that a window may still need are kept once in a `History`; stores beside it keep what they make of them.
"""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.evaluation import kernel
from windlass.aggregates.monoid import Columns, Monoid
from windlass.aggregates.overflow import widened
from windlass.kernels import accessors
from windlass.sharing.due import Due, by_due
from windlass.stores import DABA, BInt, FlatFAT, FlatFIT, SlickDequeNonInv, Store, TwoStacks
from windlass.stores.schedule import Schedule, follow, store_for

__all__ = ["Evaluator", "History", "evaluator"]

Integers = np.ndarray[Any, np.dtype[np.int64]]


class History:
    """The youngest partials of a tree: number `first` of all and those after it.

    They stand in the middle of a larger room, so that long windows are not copied for every batch.
    """

    def __init__(self, m: Monoid) -> None:
        self.m, self.first = m, 0
        self._low = self._high = 0
        self._starts, self._partials = np.empty(0, np.int64), m.allocate(0)

    def widen(self, m: Monoid) -> None:
        """Give all partials, and values derived from them, the second field of the wide form."""
        assert m.wide is not None
        self.m, self._partials = m.wide, widened(m, self._partials)

    @property
    def starts(self) -> Integers:
        """Of their slices."""
        return self._starts[self._low : self._high]

    @property
    def partials(self) -> Columns:
        return tuple(column[self._low : self._high] for column in self._partials)

    @property
    def end(self) -> int:
        return self.first + self._high - self._low

    def append(self, starts: Integers, partials: Columns, keep_from: int) -> None:
        """Add partials, and drop those of slices that start before `keep_from`."""
        dropped = int(np.searchsorted(self.starts, keep_from))
        self.first, self._low = self.first + dropped, self._low + dropped
        if self._high + len(starts) > len(self._starts):
            self._make_room(len(starts))
        new = slice(self._high, self._high + len(starts))
        self._starts[new] = starts
        for column, values in zip(self._partials, partials, strict=True):
            column[new] = values
        self._high = new.stop

    def copied(self) -> History:
        """A copy that shares no memory."""
        other = copy.copy(self)
        other._starts, other._partials = self._starts.copy(), tuple(column.copy() for column in self._partials)
        return other

    def _make_room(self, more: int) -> None:
        """Move all to the front, of a larger room unless as much again is free in this one."""
        live, old = slice(self._low, self._high), (self._starts, self._partials)
        self._low, self._high = 0, live.stop - live.start
        if 2 * (self._high + more) > len(self._starts):
            room = 2 * (self._high + more)
            self._starts, self._partials = np.empty(room, np.int64), self.m.allocate(room)
        for to, column in zip((self._starts, *self._partials), (old[0], *old[1]), strict=True):
            to[: self._high] = column[live]


class Evaluator:
    """Answers windows over a history that grows."""

    def __init__(self, aggregate: Aggregate, m: Monoid, ranges: Integers) -> None:
        self.aggregate, self.m, self.ranges = aggregate, m, ranges

    def widen(self, m: Monoid) -> None:
        assert m.wide is not None
        self.m = m.wide

    def answer(self, history: History, new: int, due: Due) -> Columns:
        """A partial a window. `new` partials have come since the last call."""
        raise NotImplementedError

    def copied(self) -> Self:
        """A copy that shares no memory."""
        return copy.copy(self)


class Folded(Evaluator):
    """Panes: fold every window."""

    def answer(self, history: History, new: int, due: Due) -> Columns:
        out = self.m.allocate(len(due.lo))
        kernel(self.m, lambda: _fold_windows(self.m), "fold windows")(
            history.partials, due.lo - history.first, due.hi - history.first, out
        )
        return out


def _fold_windows(m: Monoid) -> Any:
    combine = m.combine
    load, store = accessors(m.fields)

    def fold_windows(partials: Any, lo: Any, hi: Any, out: Any) -> Any:
        for w in range(len(lo)):
            acc = load(partials, lo[w])
            for i in range(lo[w] + 1, hi[w]):
                acc = combine(acc, load(partials, i))
            store(out, w, acc)

    return fold_windows


class Running(Evaluator):
    """SlickDeque (Inv): one running aggregate a range, brought up to date when it is asked for."""

    def __init__(self, aggregate: Aggregate, m: Monoid, ranges: Integers) -> None:
        super().__init__(aggregate, m, ranges)
        self._running = m.allocate(len(ranges))
        self._from, self._upto = np.zeros(len(ranges), np.int64), np.zeros(len(ranges), np.int64)

    def widen(self, m: Monoid) -> None:
        super().widen(m)
        self._running = widened(m, self._running)

    def copied(self) -> Self:
        other = copy.copy(self)
        other._running = tuple(column.copy() for column in self._running)
        other._from, other._upto = self._from.copy(), self._upto.copy()
        return other

    def answer(self, history: History, new: int, due: Due) -> Columns:
        out = self.m.allocate(len(due.lo))
        covered = self._from, self._upto
        kernel(self.m, lambda: _run(self.m), "running aggregates")(
            history.partials, history.first, due, self._running, covered, out
        )
        return out


def _run(m: Monoid) -> Any:
    combine, inverse = m.combine, m.inverse
    assert inverse is not None
    load, store = accessors(m.fields)

    def run(partials: Any, first: Any, due: Any, running: Any, covered: Any, out: Any) -> Any:
        # Windows stand range by range, so one running aggregate at a time is in registers.
        _, los, his, _, bounds = due
        for q in range(len(bounds) - 1):
            low, high = covered[0][q], covered[1][q]
            acc = load(running, q)
            for w in range(bounds[q], bounds[q + 1]):
                lo, hi = los[w], his[w]
                if high <= lo:  # nothing is left of what it covers
                    acc = load(partials, lo - first)
                    low, high = lo, lo + 1
                for i in range(high - first, hi - first):
                    acc = combine(acc, load(partials, i))
                for i in range(low - first, lo - first):
                    acc = inverse(acc, load(partials, i))
                low, high = lo, max(high, hi)
                store(out, w, acc)
            covered[0][q], covered[1][q] = low, high
            store(running, q, acc)

    return run


class Stored(Evaluator):
    """One store for all ranges of the tree."""

    technique: type[Store]

    def __init__(self, aggregate: Aggregate, m: Monoid, ranges: Integers) -> None:
        super().__init__(aggregate, m, ranges)
        self._store = store_for(self.technique, aggregate, m)
        self._longest = int(ranges.max())

    def widen(self, m: Monoid) -> None:
        super().widen(m)
        self._store._widen()

    def copied(self) -> Self:
        other = copy.copy(self)
        other._store = self._store.copied()
        return other

    def answer(self, history: History, new: int, due: Due) -> Columns:
        order = by_due(due.hi, history.end - new, new)
        schedule = Schedule(due.hi[order], (due.hi - due.lo)[order], order)
        return _followed(self._store, self.m, history, new, self._longest, schedule)


class StoredByRange(Evaluator):
    """A store for each range, for techniques that answer for their whole window only."""

    technique: type[Store]

    def __init__(self, aggregate: Aggregate, m: Monoid, ranges: Integers) -> None:
        super().__init__(aggregate, m, ranges)
        self._stores = [store_for(self.technique, aggregate, m) for _ in ranges]

    def widen(self, m: Monoid) -> None:
        super().widen(m)
        for store in self._stores:
            store._widen()

    def copied(self) -> Self:
        other = copy.copy(self)
        other._stores = [store.copied() for store in self._stores]
        return other

    def answer(self, history: History, new: int, due: Due) -> Columns:
        out = self.m.allocate(len(due.lo))
        for q, store in enumerate(self._stores):
            mine = slice(int(due.bounds[q]), int(due.bounds[q + 1]))
            count = due.hi[mine] - due.lo[mine]
            schedule = Schedule(due.hi[mine], count, np.arange(mine.start, mine.stop))
            _followed(store, self.m, history, new, int(self.ranges[q]), schedule, out)
        return out


def _followed(
    store: Store, m: Monoid, history: History, new: int, longest: int, schedule: Schedule, out: Columns | None = None
) -> Columns:
    """Hand the new partials to a store, and have it answer."""
    at = len(history.starts) - new
    # What starts so long before a slice is in no window that ends after that slice.
    oldest = history.first + np.searchsorted(history.starts, history.starts[at:] - longest)
    out = m.allocate(len(schedule.due)) if out is None else out
    partials = tuple(column[at:] for column in history.partials)
    follow(store, partials, history.first + at, oldest.astype(np.int64), schedule, out)
    return out


def _with(base: type[Any], technique: type[Store]) -> type[Evaluator]:
    return type(f"{base.__name__}{technique.__name__}", (base,), {"technique": technique})


_EVALUATORS: dict[str, type[Evaluator]] = {
    "panes": Folded,
    "flatfat": _with(Stored, FlatFAT),
    "bint": _with(Stored, BInt),
    "flatfit": _with(Stored, FlatFIT),
    "slickdeque_inv": Running,
    "slickdeque_non_inv": _with(Stored, SlickDequeNonInv),
    "two_stacks": _with(StoredByRange, TwoStacks),
    "daba": _with(StoredByRange, DABA),
}


def evaluator(technique: str, aggregate: Aggregate, m: Monoid, ranges: Integers) -> Evaluator:
    """The technique, over partials of this monoid, for these distinct ranges."""
    return _EVALUATORS[technique](aggregate, m, ranges)
