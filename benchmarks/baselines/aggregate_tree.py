"""Aggregate tree: a FlatFAT with a leaf for each tuple, sorted by time (Scotty 3.2). In order it is Cutty's RA (7.1).

An event at the end repairs the path above its leaf. One that is late moves all later leaves up by one, and every node
above them is computed anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.baselines.baseline import (
    BASE,
    FINAL,
    HEAD,
    MERGES,
    SESSIONS,
    TAIL,
    TAKEN,
    UPDATES,
    Array,
    Baseline,
    grown,
)
from benchmarks.baselines.schedule import Batch
from benchmarks.baselines.sessions import bounds_only, dropping, joining
from benchmarks.baselines.tree import covering, repairing, setting
from benchmarks.baselines.tuples import lower_bound, move_up
from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors


class AggregateTree(Baseline):
    sessions = True

    @property
    def nbytes(self) -> int:
        return self.kept * (8 + 2 * self.monoid.partial_nbytes)

    def _begin(self) -> None:
        self._ts, self._tree = np.zeros(64, np.int64), self.monoid.allocate(128)
        self._clear(0)
        self._first, self._last = np.zeros(64, np.int64), np.zeros(64, np.int64)

    def _step(self, ts: Array, value: Array, batch: Batch, out: Any) -> int:
        self._make_room(len(ts), batch.lowest)
        if self.windows.gap is not None:
            room = int(self.header[SESSIONS]) + len(ts) + 1
            self._first, self._last = grown(self._first, room), grown(self._last, room)
        run = self._kernel(_run, self.windows.by_count, self.schedule.in_order, self.windows.gap is not None)
        self.produced += len(ts)
        return int(
            run(
                (ts, value),
                (batch.place, batch.limit),
                (batch.start, batch.end, batch.query),
                (self._ts, self._tree),
                (self._first, self._last),
                (len(self.windows.periodic), self.windows.gap or 0),
                self.header,
                *out,
            )
        )

    def _make_room(self, n: int, lowest: int) -> None:
        """Forget the leaves before every open window; if a batch would not fit, build the tree of the others anew."""
        h = self.header
        head, tail = int(h[HEAD]), int(h[TAIL])
        if self.windows.by_count:
            head += max(min(lowest, int(h[BASE]) + tail - head) - int(h[BASE]), 0)
        else:
            if h[SESSIONS]:
                lowest = min(lowest, int(self._first[0]))
            head += int(np.searchsorted(self._ts[head:tail], lowest))
        h[BASE] += head - h[HEAD]
        leaves = len(self._ts)
        if tail + n > leaves:
            size, live = tail - head, slice(leaves + head, leaves + tail)
            ts, partials = self._ts[head:tail].copy(), tuple(column[live].copy() for column in self._tree)
            while leaves < 2 * (size + n):
                leaves *= 2
            if leaves > len(self._ts):
                self._ts, self._tree = np.zeros(leaves, np.int64), self.monoid.allocate(2 * leaves)
            self._clear(0)
            self._ts[:size] = ts
            for column, partial in zip(self._tree, partials, strict=True):
                column[leaves : leaves + size] = partial
            if size:
                h[UPDATES] += self._kernel(_rebuild)(self._tree, leaves, size)
            head, tail = 0, size
        h[HEAD], h[TAIL] = head, tail

    def _clear(self, first: int) -> None:
        for column, nothing in zip(self._tree, self.monoid.identity(), strict=True):
            column[first:] = nothing


class RA(AggregateTree):
    any_order = False


def _rebuild(m: Monoid) -> Any:
    repair = repairing(m)

    def rebuild(tree: Any, leaves: Any, size: Any) -> Any:
        return repair(tree, leaves, 0, size - 1)

    return rebuild


def _run(m: Monoid, by_count: bool, in_order: bool, with_sessions: bool) -> Any:
    lift, lower = m.lift, m.lower
    load, store = accessors(m.fields)
    _, hand_over = accessors(m.result_fields)
    set_leaf, repair, cover = setting(m), repairing(m), covering(m)
    join, drop_first = joining(*bounds_only), dropping(*bounds_only[:2])

    def run(
        events: Any,
        marks: Any,
        due: Any,
        state: Any,
        sessions: Any,
        gap: Any,
        header: Any,
        bounds: Any,
        columns: Any,
    ) -> Any:
        ts, values = events
        times, tree = state
        leaves = len(times)
        start, end, query = due
        first, last = sessions
        head, tail, base, open_, d = header[HEAD], header[TAIL], header[BASE], header[SESSIONS], header[TAKEN]
        final, updates, merges = header[FINAL], 0, 0
        i = row = 0
        for mark in range(len(marks[0])):
            while i < marks[0][mark]:
                t, p = ts[i], tail
                if in_order or p == head or times[p - 1] <= t:
                    times[p] = t
                    updates += set_leaf(tree, leaves, p, lift(values[i]))
                else:
                    p = lower_bound(times, head, tail, t + 1)
                    move_up(times, p, tail)
                    for j in range(leaves + tail, leaves + p, -1):
                        store(tree, j, load(tree, j - 1))
                    times[p] = t
                    store(tree, leaves + p, lift(values[i]))
                    updates += repair(tree, leaves, p, tail)
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
                    x, calls = cover(tree, leaves, lo, hi)
                    hand_over(columns, row, lower(x))
                    bounds[0][row], bounds[1][row], bounds[2][row] = query[d], start[d], end[d]
                    row += 1
                    merges += calls
                d += 1
            if with_sessions:
                while open_ > 0 and last[0] + gap[1] < limit:
                    lo = lower_bound(times, head, tail, first[0])
                    hi = lower_bound(times, lo, tail, last[0] + 1)
                    x, calls = cover(tree, leaves, lo, hi)
                    hand_over(columns, row, lower(x))
                    bounds[0][row], bounds[1][row], bounds[2][row] = gap[0], first[0], last[0] + gap[1]
                    row += 1
                    merges += calls
                    open_ = drop_first(first, last, (times,), open_)
        header[TAIL], header[SESSIONS], header[TAKEN] = tail, open_, d
        header[FINAL] = final
        header[UPDATES] += updates
        header[MERGES] += merges
        return row

    return run
