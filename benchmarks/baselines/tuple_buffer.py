"""Tuple buffer: all tuples sorted by time, each window folded on its own when it ends (Scotty 3.1).

State:     . 3 5 5 8 9 .           head at 3, tail after 9; a 4 that arrives late moves 5 5 8 9 up by one

Departure. The paper's ring does not wrap here: the buffer is moved to its front when a batch would not fit, which costs
less than a test for the wrap at every access.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.baselines.baseline import BASE, FINAL, HEAD, MERGES, SESSIONS, TAIL, TAKEN, Array, Baseline, grown
from benchmarks.baselines.schedule import Batch
from benchmarks.baselines.sessions import bounds_only, dropping, joining
from benchmarks.baselines.tuples import lower_bound, move_up, over_tuples
from windlass.aggregates.monoid import Monoid


class TupleBuffer(Baseline):
    sessions = True
    holistic = True

    @property
    def nbytes(self) -> int:
        return self.kept * 16

    def _begin(self) -> None:
        self._ts, self._value = np.zeros(64, np.int64), np.zeros(64, np.int64)
        self._first, self._last = np.zeros(64, np.int64), np.zeros(64, np.int64)
        self._scratch = np.zeros(0, np.int64)

    def _step(self, ts: Array, value: Array, batch: Batch, out: Any) -> int:
        self._make_room(len(ts), batch.lowest)
        if self.holistic and not self.monoid.is_compiled:
            self._scratch = grown(self._scratch, len(self._ts))
        if self.windows.gap is not None:
            room = int(self.header[SESSIONS]) + len(ts) + 1
            self._first, self._last = grown(self._first, room), grown(self._last, room)
        run = self._kernel(_run, self.windows.by_count, self.schedule.in_order, self.windows.gap is not None)
        due = (batch.start, batch.end, batch.query)
        sessions = (self._first, self._last)
        marks = (batch.place, batch.limit)
        gap = (len(self.windows.periodic), self.windows.gap or 0)
        return int(
            run((ts, value), marks, due, (self._ts, self._value), sessions, gap, self.header, self._scratch, *out)
        )

    def _make_room(self, n: int, lowest: int) -> None:
        """Forget the tuples before every open window, and move the rest to the front if a batch would not fit."""
        h = self.header
        head, tail = int(h[HEAD]), int(h[TAIL])
        if self.windows.by_count:
            head += max(min(lowest, int(h[BASE]) + tail - head) - int(h[BASE]), 0)
        else:
            if h[SESSIONS]:
                lowest = min(lowest, int(self._first[0]))
            head += int(np.searchsorted(self._ts[head:tail], lowest))
        h[BASE] += head - h[HEAD]
        if tail + n > len(self._ts):
            live = slice(head, tail)
            size = 2 * (tail - head + n)
            for name in ("_ts", "_value"):
                old = getattr(self, name)
                new = old if len(old) >= size else np.zeros(len(grown(old, size)), old.dtype)
                new[: tail - head] = old[live].copy()
                setattr(self, name, new)
            head, tail = 0, tail - head
        h[HEAD], h[TAIL] = head, tail


def _run(m: Monoid | None, by_count: bool, in_order: bool, with_sessions: bool) -> Any:
    answer = over_tuples(m)
    join, drop_first = joining(*bounds_only), dropping(*bounds_only[:2])

    def run(
        events: Any,
        marks: Any,
        due: Any,
        buffer: Any,
        sessions: Any,
        gap: Any,
        header: Any,
        scratch: Any,
        bounds: Any,
        columns: Any,
    ) -> Any:
        ts, values = events
        times, kept = buffer
        start, end, query = due
        first, last = sessions
        head, tail, base, open_, d = header[HEAD], header[TAIL], header[BASE], header[SESSIONS], header[TAKEN]
        final, merges = header[FINAL], 0
        i = row = 0
        for mark in range(len(marks[0])):
            while i < marks[0][mark]:
                t, p = ts[i], tail
                if p > head and times[p - 1] > t:
                    p = lower_bound(times, head, tail, t + 1)
                    move_up(times, p, tail)
                    move_up(kept, p, tail)
                times[p], kept[p] = t, values[i]
                tail += 1
                i += 1
                if with_sessions:
                    open_ = join(first, last, (times,), open_, t, gap[1], 0)
            limit = marks[1][mark]
            reached = limit
            if by_count and not in_order:  # the positions of events at or before the watermark are final
                reached = final = base + lower_bound(times, head, tail, limit + 1) - head
            while d < len(end) and end[d] <= reached:
                if by_count:
                    lo, hi = head + start[d] - base, head + end[d] - base
                else:
                    lo = lower_bound(times, head, tail, start[d])
                    hi = lower_bound(times, lo, tail, end[d])
                if hi > lo:
                    answer(kept, lo, hi, scratch, columns, row)
                    bounds[0][row], bounds[1][row], bounds[2][row] = query[d], start[d], end[d]
                    row += 1
                    merges += hi - lo - 1
                d += 1
            if with_sessions:
                while open_ > 0 and last[0] + gap[1] < limit:
                    lo = lower_bound(times, head, tail, first[0])
                    hi = lower_bound(times, lo, tail, last[0] + 1)
                    answer(kept, lo, hi, scratch, columns, row)
                    bounds[0][row], bounds[1][row], bounds[2][row] = gap[0], first[0], last[0] + gap[1]
                    row += 1
                    merges += hi - lo - 1
                    open_ = drop_first(first, last, (times,), open_)
        header[TAIL], header[SESSIONS], header[TAKEN] = tail, open_, d
        header[FINAL] = final
        header[MERGES] += merges
        return row

    return run
