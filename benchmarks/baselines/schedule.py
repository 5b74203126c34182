"""Which windows end where, worked out with NumPy for a batch at a time, so that no kernel searches for triggers.

The windows of a batch are sorted by their ends. `marks` are the places in the batch where a watermark rises: before the
event at `place` is taken, everything that ends at or before `limit` is due. In order every event is a watermark, so
there is a mark for each end; out of order one rises each `every` of event time, to the greatest time seen less `delay`.

    at        4   7   9   12  13  18        what windows are defined on: times, or positions
    marks           ↑ 8             ↑ 16    ends 8 and 16: place 2 and 5; and one mark for the end of the batch
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray

FOREVER = 1 << 62


@dataclass(frozen=True)
class Periodic:
    """[k·slide, k·slide + size), of times or of positions."""

    size: int
    slide: int


@dataclass(frozen=True)
class Windows:
    """The queries, numbered from 0: periodic ones on one measure, and at most one session, which is the last."""

    periodic: tuple[Periodic, ...]
    measure: str = "time"  # or "count"
    gap: int | None = None

    @property
    def by_count(self) -> bool:
        return self.measure == "count"


@dataclass(frozen=True)
class Batch:
    at: Array
    place: Array  # of the marks
    limit: Array  # of the marks: a watermark
    start: Array  # of the windows, sorted by their ends
    end: Array
    query: Array
    stretch: tuple[int, int]  # what the batch covers: after the last one, up to its own last event
    lowest: int  # no window that is still open starts before it


class Schedule:
    """Of periodic windows and sessions. `delay=None`: in order."""

    def __init__(self, windows: Windows, delay: int | None = None, every: int = 1) -> None:
        self.windows, self.delay, self.every = windows, delay, every
        self.seen, self.highest = 0, -FOREVER
        self.settled: int | None = None  # windows up to this end have been handed out
        self.reached: int | None = None  # where the last batch ended
        self.watermark = -FOREVER
        self._size = np.array([q.size for q in windows.periodic], np.int64)
        self._slide = np.array([q.slide for q in windows.periodic], np.int64)

    @property
    def in_order(self) -> bool:
        return self.delay is None

    def batch(self, ts: Array, *_: Array) -> Batch:
        by_count, n = self.windows.by_count, len(ts)
        at = np.arange(self.seen, self.seen + n) if by_count else ts
        if self.settled is None:
            self.settled = 0 if by_count else int(ts[0]) - (self.delay or 0)
        after, lowest = self.settled, self._lowest()
        if self.delay is None:
            upto = self.seen + n if by_count else int(ts[-1])
            start, end, query = self._due(after, upto)
            limit = distinct(end)
            place = limit - self.seen if by_count else np.searchsorted(ts, limit)
            limit, place = np.append(limit, upto), np.append(place, n)
            self.settled = upto
        else:
            highest = np.maximum.accumulate(np.append(self.highest if self.seen else ts[0], ts))
            ticks = highest // self.every
            place = np.flatnonzero(ticks[1:] > ticks[:-1])
            limit = highest[1:][place] - self.delay
            if len(limit):
                self.watermark = int(limit[-1])
            limit = np.append(limit, self.watermark)
            place = np.append(place, n)
            # Positions are final only where the kernel says so; it takes as many of these windows as are due.
            upto = self.seen + n if by_count else max(after, self.watermark)
            start, end, query = self._due(after, upto)
            if not by_count:
                self.settled = upto
        stretch = (int(at[0]) if self.reached is None else self.reached + 1, int(at[-1]))
        self.reached = stretch[1]
        self.seen, self.highest = self.seen + n, max(self.highest, int(ts.max()))
        return Batch(at, place, limit, start, end, query, stretch, lowest)

    def rest(self) -> Batch:
        """The end of the stream: every window that holds an event, except unfilled ones of positions."""
        none, settled = np.empty(0, np.int64), self.settled or 0
        lowest = self._lowest()
        if self.windows.by_count:
            start, end, query = self._due(settled, self.seen)
        else:
            longest = int(self._size.max()) if len(self._size) else 0
            start, end, query = self._due(settled, self.highest + longest)
            kept = start <= self.highest
            start, end, query = start[kept], end[kept], query[kept]
        return Batch(none, np.zeros(1, np.int64), np.array([FOREVER]), start, end, query, (1, 0), lowest)

    def _due(self, after: int, upto: int) -> tuple[Array, Array, Array]:
        """The windows with after < end <= upto."""
        first = (after - self._size) // self._slide + 1
        if self.windows.by_count:
            first = np.maximum(first, 0)
        query, k = _numbers(first, (upto - self._size) // self._slide)
        start = k * self._slide[query]
        end = start + self._size[query]
        order = np.argsort(end, kind="stable")
        return start[order], end[order], query[order]

    def begins(self, batch: Batch) -> Array:
        """Where windows begin, within the batch."""
        first, last = batch.stretch
        slide = distinct(np.sort(self._slide))
        which, k = _numbers(-(-first // slide), last // slide)
        return distinct(np.sort(k * slide[which]))

    def _lowest(self) -> int:
        """The earliest start of a window that has not been handed out."""
        if not len(self._size):
            return FOREVER
        k = ((self.settled or 0) - self._size) // self._slide + 1
        if self.windows.by_count:
            k = np.maximum(k, 0)
        return int((k * self._slide).min())


class Marked:
    """Of windows that an event ends and begins anew: query k by the k-th boolean column (Cutty 7.3). In order."""

    delay = None
    in_order = True

    def __init__(self, queries: int) -> None:
        self.windows = Windows((), "count")
        self.seen = 0
        self.settled: int | None = 0
        self._open = np.zeros(queries, np.int64)  # where the open window of each query began

    def batch(self, ts: Array, *changes: Array) -> Batch:
        n, parts = len(ts), []
        lowest = int(self._open.min())
        for k, change in enumerate(changes):
            end = np.flatnonzero(change) + self.seen
            start = np.concatenate((self._open[k : k + 1], end[:-1])) if len(end) else end
            parts.append((start, end, np.full(len(end), k)))
            if len(end):
                self._open[k] = end[-1]
        start, end, query = (np.concatenate(column) for column in zip(*parts, strict=True))
        kept = end > start  # the first event is a change: no window ends before it
        order = np.argsort(end[kept], kind="stable")
        start, end, query = start[kept][order], end[kept][order], query[kept][order]
        at, limit = np.arange(self.seen, self.seen + n), distinct(end)
        place = np.append(limit - self.seen, n)
        self.seen += n
        return Batch(at, place, np.append(limit, self.seen), start, end, query, (self.seen - n, self.seen - 1), lowest)

    def begins(self, batch: Batch) -> Array:
        return distinct(batch.end)

    def rest(self) -> Batch:
        none = np.empty(0, np.int64)
        return Batch(none, np.zeros(1, np.int64), np.array([FOREVER]), none, none, none, (1, 0), 0)


AnySchedule = Any  # Schedule or Marked


def distinct(values: Array) -> Array:
    """Of sorted values."""
    return values[np.append(True, values[1:] != values[:-1])] if len(values) else values


def _numbers(first: Array, last: Array) -> tuple[Array, Array]:
    """All (i, k) with first[i] <= k <= last[i]."""
    number = np.maximum(last + 1 - first, 0)
    i = np.repeat(np.arange(len(number)), number)
    return i, np.arange(len(i)) + (first - np.cumsum(number) + number)[i]
