"""Aggregate buckets: a partial for each open window; every event is combined into all it belongs to (Scotty 3.3).

State, two tumbling queries of 4 and 6 in rings of buckets:    query 0:  [8,12) 3   [12,16) 7
                                                               query 1:  [6,12) 9   [12,18) 7

Departure. Flink looks buckets up in a hash map; here window k of a query is place k of its ring, modulo its size, and
each query remembers the bucket of the last event.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.baselines.baseline import SESSIONS, TAKEN, UPDATES, Array, Baseline, grown
from benchmarks.baselines.schedule import Batch
from benchmarks.baselines.sessions import dropping, joining
from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors


class Rings:
    """A ring of places for the open windows of each query, one after the other."""

    def __init__(self, baseline: Baseline) -> None:
        periodic, delay = baseline.windows.periodic, baseline.schedule.delay
        # Out of order, windows up to the greatest time seen are open while the watermark lags behind.
        lag = 0 if delay is None else delay + 2 * baseline.schedule.every
        rooms = [1 << int(np.ceil((q.size + lag) / q.slide) + 1).bit_length() for q in periodic]
        self.size = np.array([q.size for q in periodic], np.int64)
        self.slide = np.array([q.slide for q in periodic], np.int64)
        self.mask = np.array(rooms, np.int64) - 1
        self.offset = np.cumsum([0, *rooms[:-1]])[: len(rooms)].astype(np.int64)
        self.places = sum(rooms)


class AggregateBuckets(Baseline):
    sessions = True

    @property
    def kept(self) -> int:
        return int(np.count_nonzero(self._filled)) + int(self.header[SESSIONS])

    @property
    def nbytes(self) -> int:
        return self.kept * (16 + self.monoid.partial_nbytes)  # beside the partial: start and end

    def _begin(self) -> None:
        assert self.schedule.in_order or not self.windows.by_count, "positions of late events are not known to buckets"
        self._rings = rings = Rings(self)
        self._filled, self._partials = np.zeros(rings.places, np.int64), self.monoid.allocate(rings.places)
        # The youngest window of each query that the last event was in: where it starts, and its number.
        self._latest, self._number = np.full((2, len(rings.size)), np.iinfo(np.int64).min // 4)
        self._first, self._last = np.zeros(64, np.int64), np.zeros(64, np.int64)
        self._session = self.monoid.allocate(64)

    def _step(self, ts: Array, value: Array, batch: Batch, out: Any) -> int:
        if self.windows.gap is not None:
            room = int(self.header[SESSIONS]) + len(ts) + 1
            self._first, self._last = grown(self._first, room), grown(self._last, room)
            self._session = tuple(grown(column, room) for column in self._session)
        r = self._rings
        run = self._kernel(_run, self.windows.by_count, self.windows.gap is not None)
        self.produced += len(batch.end)
        return int(
            run(
                (batch.at, ts, value),
                (batch.place, batch.limit),
                (batch.start, batch.end, batch.query),
                (r.size, r.slide, r.mask, r.offset, self._latest, self._number, self._filled),
                self._partials,
                (self._first, self._last, self._session),
                (len(self.windows.periodic), self.windows.gap or 0),
                self.header,
                *out,
            )
        )


def _run(m: Monoid, by_count: bool, with_sessions: bool) -> Any:
    lift, combine, lower = m.lift, m.combine, m.lower
    load, store = accessors(m.fields)
    _, hand_over = accessors(m.result_fields)
    join, drop_first = joining(load, store, combine), dropping(load, store)

    def run(
        events: Any,
        marks: Any,
        due: Any,
        rings: Any,
        partials: Any,
        sessions: Any,
        gap: Any,
        header: Any,
        bounds: Any,
        columns: Any,
    ) -> Any:
        at, ts, values = events
        start, end, query = due
        size, slide, mask, offset, latest, number, filled = rings
        first, last, session = sessions
        open_, d, updates = header[SESSIONS], header[TAKEN], 0
        i = row = 0
        for mark in range(len(marks[0])):
            while i < marks[0][mark]:
                a, x = at[i], lift(values[i])
                for q in range(len(slide)):
                    begin, k = latest[q], number[q]
                    if a < begin or a >= begin + slide[q]:
                        k = a // slide[q]
                        begin = k * slide[q]
                        latest[q], number[q] = begin, k
                    while begin + size[q] > a and (k >= 0 or not by_count):
                        place = offset[q] + (k & mask[q])
                        store(partials, place, combine(load(partials, place), x) if filled[place] else x)
                        updates += filled[place]
                        filled[place] = 1
                        begin -= slide[q]
                        k -= 1
                if with_sessions:
                    open_ = join(first, last, session, open_, ts[i], gap[1], x)
                    updates += 1
                i += 1
            limit = marks[1][mark]
            while d < len(end) and end[d] <= limit:
                q = query[d]
                place = offset[q] + (start[d] // slide[q] & mask[q])
                if filled[place]:
                    hand_over(columns, row, lower(load(partials, place)))
                    bounds[0][row], bounds[1][row], bounds[2][row] = q, start[d], end[d]
                    row += 1
                    filled[place] = 0
                d += 1
            if with_sessions:
                while open_ > 0 and last[0] + gap[1] < limit:
                    hand_over(columns, row, lower(load(session, 0)))
                    bounds[0][row], bounds[1][row], bounds[2][row] = gap[0], first[0], last[0] + gap[1]
                    row += 1
                    open_ = drop_first(first, last, session, open_)
        header[SESSIONS], header[TAKEN] = open_, d
        header[UPDATES] += updates
        return row

    return run
