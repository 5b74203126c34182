"""Sessions among slices: chains of a key's slices that lie no further apart than a gap.

A slice never belongs to two sessions (see `general`). A session that is closed, past correction, takes no part in what
follows: a BARRIER before the next slice says for which gaps the two do not belong together.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from windlass.kernels import compiled
from windlass.slicing.due import ALTERED, FROM, HIGH, KNOWN, LOW, OWNER, UPTO, WINDOW
from windlass.slicing.edges import LONG_AGO
from windlass.slicing.slices import BARRIER, BASE, CHANGED, FIRST, HI, LAST, LO, find


def is_closed(end: Any, watermark: Any, lateness: Any) -> Any:
    """Whether a session that ends there is past correction."""
    return watermark != LONG_AGO and end < watermark and end <= watermark - lateness


def closed_gap(last: Any, watermark: Any, lateness: Any) -> Any:
    """The greatest gap for which a session that ends with this event is closed."""
    if watermark == LONG_AGO:
        return -1
    return min(watermark - lateness - last, watermark - 1 - last)


def linked(rows: Any, r: Any, gap: Any) -> Any:
    """Whether a slice belongs to the same session as the one before it."""
    return rows[r, FIRST] - rows[r - 1, LAST] <= gap and rows[r, BARRIER] < gap


@cache
def complete() -> Any:
    """`complete(gap, before, watermark, lateness, again, directory, rows, out)`: the sessions that are complete at this
    watermark and were not at the one before; of keys that are looked at again, all that are complete and not closed.
    ALTERED is when its last slice changed. Returns how many, as `due.windows` does."""

    def find_sessions(
        gap: Any, before: Any, watermark: Any, lateness: Any, again: Any, directory: Any, rows: Any, out: Any
    ) -> Any:
        n = 0
        for k in range(directory.shape[0]):
            base = directory[k, BASE]
            lo, hi = base + directory[k, LO], base + directory[k, HI]
            if lo == hi:
                continue
            r = lo
            if before != LONG_AGO:  # sessions that ended long before need not be looked at
                r = find(rows, LAST, lo, hi, before - lateness - gap - 1)
                while lo < r < hi and linked(rows, r, gap):
                    r -= 1
                if r == hi:
                    continue
            while r < hi:
                q, changed = r + 1, rows[r, CHANGED]
                while q < hi and linked(rows, q, gap):
                    changed = max(changed, rows[q, CHANGED])
                    q += 1
                end = rows[q - 1, LAST] + gap
                was_complete = before != LONG_AGO and end < before
                if end < watermark and (not was_complete or (again[k] and not is_closed(end, before, lateness))):
                    if n < out.shape[0]:
                        out[n, WINDOW] = 0
                        out[n, OWNER] = k
                        out[n, FROM] = r - base
                        out[n, UPTO] = q - base
                        out[n, LOW] = rows[r, FIRST]
                        out[n, HIGH] = end
                        out[n, ALTERED] = changed
                        out[n, KNOWN] = 1
                    n += 1
                r = q
        return n

    return compiled(find_sessions)


@cache
def near() -> Any:
    """`near(key, ts, gap, watermark, lateness, directory, rows, out)`: whether an event joins a session that is not
    closed; 2 if it does not come after all events of one that is."""

    def is_near(key: Any, ts: Any, gap: Any, watermark: Any, lateness: Any, directory: Any, rows: Any, out: Any) -> Any:
        for i in range(len(ts)):
            k = key[i]
            base = directory[k, BASE]
            lo, hi = base + directory[k, LO], base + directory[k, HI]
            r = find(rows, LAST, lo, hi, ts[i] - gap)
            near, before = False, False
            while r < hi and rows[r, FIRST] - ts[i] <= gap and not near:
                q = r + 1
                while q < hi and linked(rows, q, gap):
                    q += 1
                near = not is_closed(rows[q - 1, LAST] + gap, watermark, lateness)
                before |= not near and rows[q - 1, LAST] >= ts[i]
                r = q
            out[i] = 0 if not near else 2 if before else 1

    return compiled(is_near)


@cache
def keep() -> Any:
    """`keep(gap, watermark, lateness, directory, rows, upto)`: lowers upto[key] to the first session that is not
    closed."""

    def keep_open(gap: Any, watermark: Any, lateness: Any, directory: Any, rows: Any, upto: Any) -> Any:
        for k in range(len(upto)):
            base = directory[k, BASE]
            r, hi = base + directory[k, LO], base + directory[k, HI]
            while r < hi and r - base < upto[k]:
                q = r + 1
                while q < hi and linked(rows, q, gap):
                    q += 1
                if not is_closed(rows[q - 1, LAST] + gap, watermark, lateness):
                    upto[k] = min(upto[k], r - base)
                r = q

    return compiled(keep_open)
