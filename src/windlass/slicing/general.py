"""General stream slicing without tuples: slices between all edges, updated in place wherever an event falls (Scotty).

    edges      │        │    │      │           all begins and ends of windows with fixed edges
    events     │ ·· ·   │ ·  │  · · │
    slices     │[──]    │[]  │ [──] │           FIRST … LAST inside of their edges

A slice is a run of a key's events between two neighbouring edges. If there are sessions, it is also cut where
events are further apart than the smallest gap, so a slice never belongs to two sessions; larger gaps join slices.
An event then never needs a split: it falls into a slice, or makes one, or joins two (a merge).

A batch is first cut into slices of its own (`cut`), which are then settled among those of each key (`settle`): the
same in order or out of order, and the partials see one FOLD for each.

A closed session takes no part in what follows. Where a late slice comes to lie next to one, a BARRIER between the two
says for which gaps they do not belong together.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from windlass.kernels import compiled, prefetch
from windlass.slicing.edges import NEVER, last_edge, next_edge
from windlass.slicing.instructions import FOLD, MERGE, WIDTH
from windlass.slicing.sessions import closed_gap
from windlass.slicing.slices import (
    AHEAD,
    BARRIER,
    BASE,
    BORN,
    CAPACITY,
    CHANGED,
    CLEAN,
    END,
    FIRST,
    HI,
    LAST,
    LO,
    SLOT,
    START,
    Slices,
    make_room,
    position,
)

Integers = np.ndarray[Any, np.dtype[np.int64]]

# Columns of a slice of a batch, before it is settled.
KEY, CELL_START, CELL_END, EARLIEST, LATEST, ROW, STOP_ROW = range(7)


@cache
def cut() -> Any:
    """`cut(key, ts, latest, progressions, edges, gap, out)`: the slices of a batch in order. Returns how many there are
    and writes as many as `out` has room for.

    A row is an event; or, if there is `latest`, events of one cell that were put together elsewhere, from `ts` to that.
    """

    def stop_of(key: Any, ts: Any, i: Any, end: Any) -> Any:
        """The first row after i that is of another key or not before the end, found in steps that double."""
        k, lo, step = key[i], i, 1
        while lo + step < len(ts) and key[lo + step] == k and ts[lo + step] < end:
            lo += step
            step *= 2
        hi = min(len(ts), lo + step)
        lo += 1
        while lo < hi:
            middle = (lo + hi) >> 1
            if key[middle] == k and ts[middle] < end:
                lo = middle + 1
            else:
                hi = middle
        return lo

    def cut_batch(key: Any, ts: Any, latest: Any, progressions: Any, edges: Any, gap: Any, out: Any) -> Any:
        n, i = 0, 0
        lo, before = 0, -1
        while i < len(ts):
            k, first = key[i], ts[i]
            if len(edges) == 0:
                start, end = last_edge(progressions, first), next_edge(progressions, first)
            else:
                if before == k:
                    while lo < len(edges) and edges[lo] <= first:
                        lo += 1
                else:
                    lo, hi = 0, len(edges)
                    while lo < hi:
                        middle = (lo + hi) >> 1
                        if edges[middle] <= first:
                            lo = middle + 1
                        else:
                            hi = middle
                start = edges[lo - 1] if lo > 0 else last_edge(progressions, first)
                end = edges[lo] if lo < len(edges) else next_edge(progressions, first)
            if gap == NEVER:
                j = stop_of(key, ts, i, end)
            else:
                j = i + 1
                while j < len(ts) and key[j] == k and ts[j] < end and ts[j] - ts[j - 1] <= gap:
                    j += 1
            last = ts[j - 1]
            if len(latest) > 0:
                for row in range(i, j):
                    last = max(last, latest[row])
            if n < out.shape[0]:
                out[n, KEY] = k
                out[n, CELL_START] = start
                out[n, CELL_END] = end
                out[n, EARLIEST] = first
                out[n, LATEST] = last
                out[n, ROW] = i
                out[n, STOP_ROW] = j
            n += 1
            i, before = j, k
        return n

    return compiled(cut_batch)


def settle(s: Slices, batch: Integers, gap: int, watermark: int, lateness: int, epoch: int, joined: int) -> Integers:
    """Put the slices of a batch among those of their keys, and write what that does to the partials: the program. Of
    the slices there are, `joined` at most are merged. If none are, a key's slices that come between those it has take
    their places in one pass."""
    s.reserve_slots(len(batch))
    program = np.empty((2 * len(batch) + joined, WIDTH), np.int64)
    done = length = 0
    while True:
        state = (s.directory, s.rows, s.top, s.free, s.free_count)
        done, length, s.top, s.free_count = _settle()(
            batch, done, gap, joined == 0, watermark, lateness, epoch, *state, program, length
        )
        if done == len(batch):
            return program[:length]
        s.grow(2 * (len(batch) - done) + 2 * int(s.directory[batch[done, KEY], CAPACITY]))


@cache
def _settle() -> Any:
    """Settles what there is room for; returns how many slices that were."""

    def remove(directory: Any, rows: Any, k: Any, r: Any) -> Any:
        last = directory[k, BASE] + directory[k, HI] - 1
        for j in range(r, last):
            for field in range(rows.shape[1]):
                rows[j, field] = rows[j + 1, field]
        directory[k, HI] -= 1
        directory[k, CLEAN] = min(directory[k, CLEAN], r - directory[k, BASE])

    def between(slices: Any, d: Any, rows: Any, x: Any, hi: Any) -> Any:
        """How far the slices of a key from d on lie before its last row, and how many fall into none of the rows."""
        k, r, fresh = slices[d, KEY], x, 0
        while d < slices.shape[0] and slices[d, KEY] == k:
            while r < hi and rows[r, END] <= slices[d, EARLIEST]:
                r += 1
            if r == hi:
                break
            if rows[r, START] > slices[d, EARLIEST]:
                fresh += 1
            d += 1
        return d, fresh

    def interleave(
        slices: Any,
        d: Any,
        stop: Any,
        rows: Any,
        x: Any,
        hi: Any,
        fresh: Any,
        epoch: Any,
        free: Any,
        free_count: Any,
        program: Any,
        n: Any,
    ) -> Any:
        """Merge the slices d:stop into the rows x:hi, from the last to the first: each row moves once."""
        p, to = hi - 1, hi - 1 + fresh
        for c in range(stop - 1, d - 1, -1):
            first = slices[c, EARLIEST]
            while p >= x and rows[p, START] > first:
                for field in range(rows.shape[1]):
                    rows[to, field] = rows[p, field]
                p, to = p - 1, to - 1
            is_fresh = p < x or rows[p, END] <= first
            if is_fresh:
                r, to = to, to - 1
                free_count -= 1
                rows[r, SLOT] = free[free_count]
                rows[r, START] = slices[c, CELL_START]
                rows[r, END] = slices[c, CELL_END]
                rows[r, FIRST] = first
                rows[r, LAST] = slices[c, LATEST]
                rows[r, BORN] = epoch
                rows[r, BARRIER] = -1
            else:
                r = p
                rows[r, FIRST] = min(rows[r, FIRST], first)
                rows[r, LAST] = max(rows[r, LAST], slices[c, LATEST])
            rows[r, CHANGED] = epoch
            at = n + c - d
            program[at, 0] = FOLD
            program[at, 1] = rows[r, SLOT]
            program[at, 2] = slices[c, ROW]
            program[at, 3] = slices[c, STOP_ROW]
            program[at, 4] = 1 if is_fresh else 0
        return free_count

    def settle_slices(
        slices: Any,
        begin: Any,
        gap: Any,
        unjoined: Any,
        watermark: Any,
        lateness: Any,
        epoch: Any,
        directory: Any,
        rows: Any,
        top: Any,
        free: Any,
        free_count: Any,
        program: Any,
        n: Any,
    ) -> Any:
        count = slices.shape[0]
        firsts = rows[:, FIRST]
        upto = begin  # which slices have been interleaved
        for d in range(begin, count):
            if d < upto:
                continue
            if d + AHEAD < count:
                prefetch(directory, slices[d + AHEAD, KEY])
                k = slices[d + AHEAD // 2, KEY]
                r = directory[k, BASE] + directory[k, HI]
                prefetch(rows, r - 1)
                prefetch(rows, r)
            k, first, last = slices[d, KEY], slices[d, EARLIEST], slices[d, LATEST]
            base = directory[k, BASE]
            lo, hi = base + directory[k, LO], base + directory[k, HI]
            start, end = slices[d, CELL_START], slices[d, CELL_END]
            # The slices between the same edges that this one touches: x:y.
            if hi == lo or rows[hi - 1, END] <= first:
                x = y = hi
            else:
                r = position(firsts, lo, hi, first + 1)
                if r > lo and rows[r - 1, END] > first:  # old slices may have been merged over edges
                    start, end = rows[r - 1, START], rows[r - 1, END]
                elif r < hi and rows[r, START] <= first:
                    start, end = rows[r, START], rows[r, END]
                x = position(firsts, lo, hi, start)
                while (
                    x < hi
                    and rows[x, LAST] < first
                    and (first - rows[x, LAST] > gap or closed_gap(rows[x, LAST], watermark, lateness) >= gap)
                ):
                    x += 1
                y = x
                while y < hi and rows[y, FIRST] < end and rows[y, FIRST] - last <= gap:
                    y += 1
            fresh = x == y
            if fresh and unjoined and x < hi:
                upto, more = between(slices, d, rows, x, hi)
                if directory[k, HI] + more > directory[k, CAPACITY]:
                    x -= lo
                    top = make_room(directory[k], more, rows, top)
                    if top < 0:
                        return d, n, -top - 1, free_count
                    lo, hi = directory[k, BASE] + directory[k, LO], directory[k, BASE] + directory[k, HI]
                    x += lo
                free_count = interleave(slices, d, upto, rows, x, hi, more, epoch, free, free_count, program, n)
                n += upto - d
                directory[k, HI] += more
                directory[k, CLEAN] = min(directory[k, CLEAN], x - directory[k, BASE])
                continue
            if fresh:
                if directory[k, HI] == directory[k, CAPACITY]:
                    x -= lo
                    top = make_room(directory[k], 1, rows, top)
                    if top < 0:
                        return d, n, -top - 1, free_count
                    base = directory[k, BASE]
                    lo, hi = base + directory[k, LO], base + directory[k, HI]
                    x += lo
                barrier = -1
                if x > lo and first < watermark:  # a late slice behind one that may be closed
                    closed = closed_gap(rows[x - 1, LAST], watermark, lateness)
                    if x < hi:
                        closed = min(closed, rows[x, FIRST] - rows[x - 1, LAST] - 1)
                        closed = max(closed, rows[x, BARRIER])
                    barrier = max(barrier, closed)
                for j in range(hi, x, -1):
                    for field in range(rows.shape[1]):
                        rows[j, field] = rows[j - 1, field]
                if x < hi:
                    rows[x + 1, BARRIER] = -1
                directory[k, HI] += 1
                directory[k, CLEAN] = min(directory[k, CLEAN], x - base)
                free_count -= 1
                rows[x, SLOT] = free[free_count]
                rows[x, START] = start
                rows[x, END] = end
                rows[x, FIRST] = first
                rows[x, LAST] = last
                rows[x, BORN] = epoch
                rows[x, BARRIER] = barrier
            else:
                if first < rows[x, FIRST] and first < watermark and x > lo:
                    closed = min(
                        closed_gap(rows[x - 1, LAST], watermark, lateness), rows[x, FIRST] - rows[x - 1, LAST] - 1
                    )
                    rows[x, BARRIER] = max(rows[x, BARRIER], closed)
                rows[x, FIRST] = min(rows[x, FIRST], first)
                rows[x, LAST] = max(rows[x, LAST], last)
                for _ in range(x + 1, y):
                    program[n, 0] = MERGE
                    program[n, 1] = rows[x, SLOT]
                    program[n, 2] = rows[x + 1, SLOT]
                    n += 1
                    free[free_count] = rows[x + 1, SLOT]
                    free_count += 1
                    rows[x, LAST] = max(rows[x, LAST], rows[x + 1, LAST])
                    rows[x, BORN] = min(rows[x, BORN], rows[x + 1, BORN])
                    remove(directory, rows, k, x + 1)
                # Over an edge that was there for a window that is not asked for any more.
                rows[x, START] = min(rows[x, START], rows[x, FIRST])
                rows[x, END] = max(rows[x, END], rows[x, LAST] + 1)
                directory[k, CLEAN] = min(directory[k, CLEAN], x - base)
            rows[x, CHANGED] = epoch
            program[n, 0] = FOLD
            program[n, 1] = rows[x, SLOT]
            program[n, 2] = slices[d, ROW]
            program[n, 3] = slices[d, STOP_ROW]
            program[n, 4] = 1 if fresh else 0
            n += 1
        return count, n, top, free_count

    return compiled(settle_slices)


@cache
def behind() -> Any:
    """`behind(late, upto, directory, rows)`: how many slices there are up to a time from the first of each key's late
    ones on."""

    def count_behind(late: Any, upto: Any, directory: Any, rows: Any) -> Any:
        n, d, firsts = 0, 0, rows[:, FIRST]
        while d < late.shape[0]:
            k, first = late[d, KEY], late[d, EARLIEST]
            while d < late.shape[0] and late[d, KEY] == k:
                first = min(first, late[d, EARLIEST])
                d += 1
            lo, hi = directory[k, BASE] + directory[k, LO], directory[k, BASE] + directory[k, HI]
            x = position(firsts, lo, hi, first)
            n += position(firsts, x, hi, upto) - x
        return n

    return compiled(count_behind)


@cache
def note_times() -> Any:
    """`note(slices, earliest, latest)`: the times of each key's first and last event."""

    def note(slices: Any, earliest: Any, latest: Any) -> Any:
        for i in range(slices.shape[0]):
            k = slices[i, KEY]
            latest[k] = max(latest[k], slices[i, LATEST])
            for d in range(earliest.shape[0]):
                earliest[d, k] = min(earliest[d, k], slices[i, EARLIEST])

    return compiled(note)
