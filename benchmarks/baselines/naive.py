"""Naive: an aggregator for each query, which folds every one of its windows on its own (Cutty 7.1). In order.

With batches it is at its best: a window's share of a batch is one stretch of it, folded in one go. What a window of
earlier batches came to so far is kept in rings like those of `AggregateBuckets`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.baselines.aggregate_buckets import Rings
from benchmarks.baselines.baseline import UPDATES, Array, Baseline
from benchmarks.baselines.schedule import FOREVER, Batch
from benchmarks.baselines.tuples import lower_bound
from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors


class Naive(Baseline):
    any_order = False

    @property
    def kept(self) -> int:
        return int(np.count_nonzero(self._filled))

    @property
    def nbytes(self) -> int:
        return self.kept * (16 + self.monoid.partial_nbytes)

    def _begin(self) -> None:
        self._rings = rings = Rings(self)
        self._filled, self._partials = np.zeros(rings.places, np.int64), self.monoid.allocate(rings.places)
        self._reached: int | None = None

    def _step(self, ts: Array, value: Array, batch: Batch, out: Any) -> int:
        r, by_count = self._rings, self.windows.by_count
        first = int(batch.at[0]) if self._reached is None else self._reached
        last = int(batch.at[-1]) if len(ts) else first
        self._reached = last
        limit = int(batch.limit[-1])
        if limit == FOREVER and by_count:
            limit = last + 1
        run = self._kernel(_run, by_count)
        self.produced += len(batch.end)
        return int(
            run(
                (batch.at, value),
                (first, last, limit),
                (r.size, r.slide, r.mask, r.offset, self._filled),
                self._partials,
                self.header,
                *out,
            )
        )


def _run(m: Monoid, by_count: bool) -> Any:
    lift, combine, lower = m.lift, m.combine, m.lower
    load, store = accessors(m.fields)
    _, hand_over = accessors(m.result_fields)

    def run(events: Any, stretch: Any, rings: Any, partials: Any, header: Any, bounds: Any, columns: Any) -> Any:
        at, values = events
        first, last, limit = stretch
        size, slide, mask, offset, filled = rings
        n, row, updates = len(at), 0, 0
        for q in range(len(size)):
            k = (first - size[q]) // slide[q] + 1
            if by_count and k < 0:
                k = 0
            while k * slide[q] <= last:
                start, place = k * slide[q], offset[q] + (k & mask[q])
                end = start + size[q]
                lo = lower_bound(at, 0, n, start)
                hi = lower_bound(at, lo, n, end)
                if hi > lo:
                    x = lift(values[lo])
                    for i in range(lo + 1, hi):
                        x = combine(x, lift(values[i]))
                    store(partials, place, combine(load(partials, place), x) if filled[place] else x)
                    updates += hi - lo - 1 + filled[place]
                    filled[place] = 1
                if end <= limit and filled[place]:
                    hand_over(columns, row, lower(load(partials, place)))
                    bounds[0][row], bounds[1][row], bounds[2][row] = q, start, end
                    row += 1
                    filled[place] = 0
                k += 1
        header[UPDATES] += updates
        return row

    return run
