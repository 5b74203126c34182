"""Tuple buckets: each open window keeps a copy of its tuples, and folds them when it ends (Scotty 3.3).

A bucket is a chain of blocks of 256 values, newest first, from a pool that all buckets share. Tuples stay in arrival
order, so the aggregate must be commutative.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.baselines.aggregate_buckets import Rings
from benchmarks.baselines.baseline import MERGES, TAKEN, Array, Baseline, grown
from benchmarks.baselines.schedule import Batch
from benchmarks.baselines.tuples import over_tuples
from windlass.aggregates.monoid import Monoid

BLOCK = 256


class TupleBuckets(Baseline):
    holistic = True

    @property
    def kept(self) -> int:
        return int(self._filled.sum())

    @property
    def nbytes(self) -> int:
        """Without spare room; a tuple is a time and a value, as in the tuple buffer, a bucket has two bounds."""
        return self.kept * 16 + int(np.count_nonzero(self._filled)) * 16

    def _begin(self) -> None:
        assert self.schedule.in_order or not self.windows.by_count, "positions of late events are not known to buckets"
        assert self.aggregate.commutative, "buckets keep tuples in the order of arrival"
        self._rings = rings = Rings(self)
        self._filled, self._newest = np.zeros((2, rings.places), np.int64)
        self._latest, self._number = np.full((2, len(rings.size)), np.iinfo(np.int64).min // 4)
        self._overlap = int(np.sum(-(-rings.size // rings.slide)))
        self._pool, self._older = np.zeros((0, BLOCK), np.int64), np.zeros(0, np.int64)
        self._free, self._unused = np.zeros(0, np.int64), np.zeros(1, np.int64)  # a stack of blocks, and how many
        self._scratch = np.zeros(0, np.int64)

    def _step(self, ts: Array, value: Array, batch: Batch, out: Any) -> int:
        self._make_room(len(ts))
        r = self._rings
        run = self._kernel(_run, self.windows.by_count)
        return int(
            run(
                (batch.at, value),
                (batch.place, batch.limit),
                (batch.start, batch.end, batch.query),
                (r.size, r.slide, r.mask, r.offset, self._latest, self._number),
                (self._filled, self._newest, self._pool, self._older, self._free, self._unused),
                self.header,
                self._scratch,
                *out,
            )
        )

    def _make_room(self, n: int) -> None:
        """Blocks for a batch that goes into every window, and scratch for the fullest window."""
        need = n * self._overlap // BLOCK + self._rings.places
        missing = need - int(self._unused[0])
        if missing > 0:
            had = len(self._older)
            self._pool, self._older = grown(self._pool, had + missing), grown(self._older, had + missing)
            new = np.arange(had, len(self._older))
            self._free = np.concatenate((self._free[: self._unused[0]], new, np.zeros(had, np.int64)))
            self._unused[0] += len(new)
        self._scratch = grown(self._scratch, int(self._filled.max(initial=0)) + n)


def _run(m: Monoid | None, by_count: bool) -> Any:
    answer = over_tuples(m)

    def run(
        events: Any,
        marks: Any,
        due: Any,
        rings: Any,
        buckets: Any,
        header: Any,
        scratch: Any,
        bounds: Any,
        columns: Any,
    ) -> Any:
        at, values = events
        start, end, query = due
        size, slide, mask, offset, latest, number = rings
        filled, newest, pool, older, free, unused = buckets
        d, merges = header[TAKEN], 0
        i = row = 0
        for mark in range(len(marks[0])):
            while i < marks[0][mark]:
                a, v = at[i], values[i]
                for q in range(len(slide)):
                    begin, k = latest[q], number[q]
                    if a < begin or a >= begin + slide[q]:
                        k = a // slide[q]
                        begin = k * slide[q]
                        latest[q], number[q] = begin, k
                    while begin + size[q] > a and (k >= 0 or not by_count):
                        place = offset[q] + (k & mask[q])
                        n = filled[place] & (BLOCK - 1)
                        if n == 0:
                            unused[0] -= 1
                            block = free[unused[0]]
                            older[block] = newest[place]
                            newest[place] = block
                        pool[newest[place], n] = v
                        filled[place] += 1
                        begin -= slide[q]
                        k -= 1
                i += 1
            limit = marks[1][mark]
            while d < len(end) and end[d] <= limit:
                q = query[d]
                place = offset[q] + (start[d] // slide[q] & mask[q])
                n = filled[place]
                if n:
                    block, used, j = newest[place], (n - 1 & (BLOCK - 1)) + 1, 0
                    while j < n:
                        for u in range(used):
                            scratch[j + u] = pool[block, u]
                        j += used
                        used = BLOCK
                        free[unused[0]] = block
                        unused[0] += 1
                        block = older[block]
                    answer(scratch, 0, n, scratch, columns, row)
                    bounds[0][row], bounds[1][row], bounds[2][row] = q, start[d], end[d]
                    row += 1
                    merges += n - 1
                    filled[place] = 0
                d += 1
        header[TAKEN] = d
        header[MERGES] += merges
        return row

    return run
