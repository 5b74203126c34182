"""Slicing in order: Pairs, Pairs+ and Cutty are one loop that differs in where it cuts and in what it keeps.

             cuts at               store          a window that ends is
    Pairs    begins and ends       a row (lazy)   folded over its slices
    Pairs+   begins and ends       a FlatFAT      covered by few nodes
    Cutty    begins                a FlatFAT      covered by few nodes, and the slice that is still open

Slices without an event are not kept. With periodic windows the begins and ends are known in advance; with `Marked` ones
they are the events that change a state.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from benchmarks.baselines.baseline import HEAD, MERGES, SESSIONS, TAIL, TAKEN, UPDATES, Array, Baseline, grown
from benchmarks.baselines.schedule import Batch, distinct
from benchmarks.baselines.tree import covering, repairing, setting
from benchmarks.baselines.tuples import lower_bound
from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors

OPEN = SESSIONS  # of the header: whether the open slice holds an event; there are no sessions here


class Slices(Baseline):
    any_order = False
    cuts_at_ends: ClassVar[bool]
    eager: ClassVar[bool]

    @property
    def kept(self) -> int:
        return int(self.header[TAIL] - self.header[HEAD]) + int(self.header[OPEN])

    @property
    def nbytes(self) -> int:
        return self.kept * (8 + (2 if self.eager else 1) * self.monoid.partial_nbytes)

    def _begin(self) -> None:
        self._start, self._partials = np.zeros(64, np.int64), self.monoid.allocate(128 if self.eager else 64)
        self._clear()
        self._open, self._open_start = self.monoid.allocate(1), np.zeros(1, np.int64)

    def _step(self, ts: Array, value: Array, batch: Batch, out: Any) -> int:
        begins, ends = self.schedule.begins(batch), distinct(batch.end)
        points = distinct(np.sort(np.concatenate((begins, ends)), kind="stable"))
        cuts = points if self.cuts_at_ends else begins
        cut = np.zeros(len(points), np.bool_)
        cut[np.searchsorted(points, cuts)] = True
        self._make_room(len(cuts) + 1, batch.lowest)
        if self.produced == 0 and not self.header[OPEN] and len(ts):
            self._open_start[0] = batch.at[0]  # windows that hold the first event began at or before it
        before = int(self.header[TAIL])
        run = self._kernel(_run, self.eager)
        rows = int(
            run(
                (batch.at, value),
                (points, np.searchsorted(batch.at, points), cut),
                (batch.start, batch.end, batch.query),
                (self._start, self._partials),
                (self._open_start, self._open),
                self.header,
                *out,
            )
        )
        self.produced += int(self.header[TAIL]) - before
        return rows

    def _make_room(self, slices: int, lowest: int) -> None:
        h = self.header
        head, tail, room = int(h[HEAD]), int(h[TAIL]), len(self._start)
        head += int(np.searchsorted(self._start[head:tail], lowest))
        if tail + slices > room:
            size, first = tail - head, room if self.eager else 0
            start = self._start[head:tail].copy()
            partials = tuple(column[first + head : first + tail].copy() for column in self._partials)
            while room < 2 * (size + slices):
                room *= 2
            if room > len(self._start):
                self._start = grown(self._start, room)
                self._partials = self.monoid.allocate(2 * room if self.eager else room)
            self._clear()
            self._start[:size] = start
            for column, partial in zip(self._partials, partials, strict=True):
                first = room if self.eager else 0
                column[first : first + size] = partial
            if self.eager and size:
                h[UPDATES] += self._kernel(_rebuild)(self._partials, room, size)
            head, tail = 0, size
        h[HEAD], h[TAIL] = head, tail

    def _clear(self) -> None:
        for column, nothing in zip(self._partials, self.monoid.identity(), strict=True):
            column[:] = nothing


class Pairs(Slices):
    cuts_at_ends = True
    eager = False


class PairsPlus(Slices):
    cuts_at_ends = True
    eager = True


class Cutty(Slices):
    cuts_at_ends = False
    eager = True


def _rebuild(m: Monoid) -> Any:
    repair = repairing(m)

    def rebuild(tree: Any, leaves: Any, size: Any) -> Any:
        return repair(tree, leaves, 0, size - 1)

    return rebuild


def _run(m: Monoid, eager: bool) -> Any:
    lift, combine, lower = m.lift, m.combine, m.lower
    load, store = accessors(m.fields)
    _, hand_over = accessors(m.result_fields)
    set_leaf, cover = setting(m), covering(m)

    def fold(partials: Any, lo: Any, hi: Any) -> Any:
        x = load(partials, lo)
        for j in range(lo + 1, hi):
            x = combine(x, load(partials, j))
        return x

    def run(
        events: Any, points: Any, due: Any, slices: Any, opened: Any, header: Any, bounds: Any, columns: Any
    ) -> Any:
        at, values = events
        point, place, cut = points
        start, end, query = due
        starts, partials = slices
        leaves = len(starts)
        head, tail, filled, d = header[HEAD], header[TAIL], header[OPEN], header[TAKEN]
        begin, x = opened[0][0], load(opened[1], 0)
        updates = merges = 0
        i = row = 0
        for p in range(len(point) + 1):
            upto = place[p] if p < len(point) else len(at)
            if i < upto:
                if not filled:
                    x = lift(values[i])
                    i += 1
                    filled = 1
                updates += upto - i
                while i < upto:
                    x = combine(x, lift(values[i]))
                    i += 1
            if p == len(point):
                break
            if cut[p]:
                if filled:
                    starts[tail] = begin
                    if eager:
                        updates += set_leaf(partials, leaves, tail, x)
                    else:
                        store(partials, tail, x)
                    tail += 1
                    filled = 0
                begin = point[p]
            while d < len(end) and end[d] <= point[p]:
                lo = lower_bound(starts, head, tail, start[d])
                holds = filled and begin >= start[d]
                if lo < tail or holds:
                    if lo == tail:
                        y = x
                    else:
                        if eager:
                            y, calls = cover(partials, leaves, lo, tail)
                            merges += calls
                        else:
                            y = fold(partials, lo, tail)
                            merges += tail - lo - 1
                        if holds:
                            y = combine(y, x)
                            merges += 1
                    hand_over(columns, row, lower(y))
                    bounds[0][row], bounds[1][row], bounds[2][row] = query[d], start[d], end[d]
                    row += 1
                d += 1
        header[TAIL], header[OPEN], header[TAKEN] = tail, filled, d
        opened[0][0] = begin
        store(opened[1], 0, x)
        header[UPDATES] += updates
        header[MERGES] += merges
        return row

    return run
