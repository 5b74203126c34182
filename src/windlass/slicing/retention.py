"""How long slices are kept: until no window can need them, or only all of them together, merged into one."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from windlass.kernels import compiled
from windlass.slicing.edges import LONG_AGO, NEVER
from windlass.slicing.instructions import MERGE
from windlass.slicing.slices import BARRIER, BASE, CHANGED, CLEAN, END, FIRST, HI, LAST, LO, MEASURES, POS, SLOT, find
from windlass.slicing.specifications import COUNT, ENDS, MEASURE, ORIGIN, PERIOD, STEP, TIME

Integers = np.ndarray[Any, np.dtype[np.int64]]


def first_starts(specs: Integers, horizon: int) -> Integers:
    """For each specification, the start of the first window that ends after the horizon; NEVER if there is none.

    Of a landmark: the last end that is not after it, since slices before that are needed together only."""
    o, p, step, ends = (specs[:, column] for column in (ORIGIN, PERIOD, STEP, ENDS))
    size = step * ends
    periodic = o + ((horizon - size - o) // np.maximum(p, 1) + 1) * p
    single = np.where(o + size > horizon, o, NEVER)
    landmark = o + np.maximum(0, (horizon - o) // step * step)
    return np.asarray(np.where(ends == 0, landmark, np.where(p > 0, periodic, single)))


@cache
def keep_edges() -> Any:
    """`keep(start, directory, rows, upto)`: lowers upto[key] to the first slice that is not before a time."""

    def keep(start: Any, directory: Any, rows: Any, upto: Any) -> Any:
        for k in range(len(upto)):
            base = directory[k, BASE]
            r = find(rows, FIRST, base + directory[k, LO], base + directory[k, HI], start)
            upto[k] = min(upto[k], r - base)

    return compiled(keep)


@cache
def merge_old() -> Any:
    """`merge(origins, gap, keep, together, …, program)`: slices of a key between keep[key] and together[key] are needed
    together only, by landmarks and sessions that go on for long. Merge those that no landmark begins between and that
    are in the same session whatever its gap. Returns the program's length and how many slots are free then."""

    def merge(
        origins: Any,
        gap: Any,
        keep: Any,
        together: Any,
        directory: Any,
        rows: Any,
        free: Any,
        free_count: Any,
        program: Any,
    ) -> Any:
        n = 0
        for k in range(len(keep)):
            base = directory[k, BASE]
            hi = base + directory[k, HI]
            r, stop = base + keep[k], base + together[k]
            if stop - r < 2:
                continue
            kept = r
            for q in range(r + 1, stop):
                apart = rows[q, FIRST] - rows[kept, LAST] > gap or (gap != NEVER and rows[q, BARRIER] >= gap)
                for i in range(len(origins)):
                    apart = apart or rows[kept, LAST] < origins[i] <= rows[q, FIRST]
                if apart:
                    kept += 1
                    for field in range(rows.shape[1]):
                        rows[kept, field] = rows[q, field]
                else:
                    program[n, 0] = MERGE
                    program[n, 1] = rows[kept, SLOT]
                    program[n, 2] = rows[q, SLOT]
                    n += 1
                    free[free_count] = rows[q, SLOT]
                    free_count += 1
                    rows[kept, LAST] = rows[q, LAST]
                    rows[kept, END] = rows[q, END]
                    rows[kept, CHANGED] = max(rows[kept, CHANGED], rows[q, CHANGED])
            gone = stop - 1 - kept
            if gone > 0:
                for q in range(stop, hi):
                    for field in range(rows.shape[1]):
                        rows[q - gone, field] = rows[q, field]
                directory[k, HI] -= gone
                directory[k, CLEAN] = min(directory[k, CLEAN], r - base)
        return n, free_count

    return compiled(merge)


@cache
def keep_from() -> Any:
    """`keep(specs, skipped, horizon, directory, rows, upto)`: lowers upto[key] to the first slice that a window which
    ends after the horizon may still need, a horizon for each measure and key."""

    def keep_needed(specs: Any, skipped: Any, horizon: Any, directory: Any, rows: Any, upto: Any) -> Any:
        for k in range(len(upto)):
            lo, hi = directory[k, BASE] + directory[k, LO], directory[k, BASE] + directory[k, HI]
            if lo == hi:
                continue
            for c in range(horizon.shape[0]):
                earliest = NEVER
                for d in range(specs.shape[0]):
                    if specs[d, MEASURE] != c:
                        continue
                    o, p, size = specs[d, ORIGIN], specs[d, PERIOD], specs[d, STEP] * specs[d, ENDS]
                    shift = skipped[d, k] if c == COUNT else 0
                    h = horizon[c, k] - shift
                    start = o
                    if p > 0 and h > LONG_AGO + size:
                        start = o + ((h - size - o) // p + 1) * p
                    elif p > 0:
                        start = h
                    elif size > 0 and o + size <= h:
                        continue
                    if c == COUNT and p > 0:
                        start = max(start, o % p)  # positions begin at 0
                    earliest = min(earliest, start + shift)
                if earliest != NEVER:
                    field = FIRST if c == TIME else POS if c == COUNT else MEASURES + c - 2
                    upto[k] = min(upto[k], find(rows, field, lo, hi, earliest) - directory[k, BASE])

    return compiled(keep_needed)


@cache
def keep_positions() -> Any:
    """`keep(positions, directory, rows, upto)`: lowers upto[key] to the slice that holds a position."""

    def keep_held(positions: Any, directory: Any, rows: Any, upto: Any) -> Any:
        for k in range(min(len(positions), len(upto))):
            if positions[k] != NEVER:
                base = directory[k, BASE]
                lo = base + directory[k, LO]
                r = find(rows, POS, lo, base + directory[k, HI], positions[k] + 1) - 1
                upto[k] = min(upto[k], max(r, lo) - base)

    return compiled(keep_held)


def positions_at(directory: Integers, rows: Integers, upto: Integers) -> Integers:
    """The position at which each key's slice number `upto` begins; NEVER if there is no such slice."""
    out = np.full(len(upto), NEVER, np.int64)
    some = np.flatnonzero(upto < directory[:, HI])
    out[some] = rows[directory[some, BASE] + upto[some], POS]
    return out
