"""Windows with fixed edges that are due when time passes, and the program that answers any windows over slices."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from windlass.kernels import compiled, prefetch
from windlass.slicing.counting import added, windows_in, windows_with
from windlass.slicing.edges import LONG_AGO, NEVER
from windlass.slicing.instructions import ANSWER, REPAIR
from windlass.slicing.slices import AHEAD, BASE, BORN, CAPACITY, CLEAN, FIRST, HI, LAST, LO, position, position_on
from windlass.slicing.specifications import EMIT_EMPTY, ENDS, ORIGIN, PERIOD, STEP

Integers = np.ndarray[Any, np.dtype[np.int64]]

# Columns of a window that is found.
WINDOW, OWNER, FROM, UPTO, LOW, HIGH, ALTERED, KNOWN = range(8)


def with_ends(specs: Integers, after: int, upto: int) -> Integers:
    """Which specifications have a window that ends in (after, upto]."""
    if after == LONG_AGO or upto == NEVER:
        return np.arange(len(specs))
    o, p, step, ends = (specs[:, column] for column in (ORIGIN, PERIOD, STEP, ENDS))
    first = np.where(ends == 1, o + step, o)
    apart = np.maximum(np.where(ends == 1, p, step), 1)
    repeated = (upto - first) // apart > (after - first) // apart
    once = (after < o + step) & (o + step <= upto)
    return np.flatnonzero(np.where((ends == 1) & (p == 0), once, repeated))


@cache
def windows() -> Any:
    """`windows(specs, after, upto, earliest, latest, epoch, late, starts, directory, rows, out)`: those with fixed
    edges that end in (after, upto] (by specification, and by key or for all keys) and hold an event, or may be empty.
    Returns how many there are and writes as many as `out` has room for. If there are `late` times, which begin for each
    key at its start: ALTERED, one of them is in the window; KNOWN: there was an event before this epoch."""

    def put(
        out: Any,
        n: Any,
        d: Any,
        k: Any,
        p: Any,
        q: Any,
        low: Any,
        high: Any,
        rows: Any,
        base: Any,
        epoch: Any,
        last: Any,
        late: Any,
        starts: Any,
    ) -> Any:
        if n < out.shape[0]:
            altered, known = 0, 0
            if len(late) > 0:
                i = position(late, starts[k], starts[k + 1], low)
                altered = 1 if i < starts[k + 1] and late[i] < high else 0
                r = max(p, last)
                while r < q and rows[r, BORN] >= epoch:
                    r += 1
                known = 1 if r < q else 0
            out[n, WINDOW] = d
            out[n, OWNER] = k
            out[n, FROM] = p - base
            out[n, UPTO] = q - base
            out[n, LOW] = low
            out[n, HIGH] = high
            out[n, ALTERED] = altered
            out[n, KNOWN] = known
        return n + 1

    def due_windows(
        specs: Any,
        after: Any,
        upto: Any,
        earliest: Any,
        latest: Any,
        epoch: Any,
        late: Any,
        starts: Any,
        directory: Any,
        rows: Any,
        out: Any,
    ) -> Any:
        n, firsts = 0, rows[:, FIRST]
        for d in range(specs.shape[0]):
            o, p, step, ends = specs[d, ORIGIN], specs[d, PERIOD], specs[d, STEP], specs[d, ENDS]
            empty = specs[d, EMIT_EMPTY] and p > 0
            size = ends * step
            for k in range(directory.shape[0]):
                if k + AHEAD < directory.shape[0]:
                    prefetch(rows, directory[k + AHEAD, BASE] + directory[k + AHEAD, LO])
                base = directory[k, BASE]
                lo, hi = base + directory[k, LO], base + directory[k, HI]
                if lo == hi and not empty:
                    continue
                a, b = after[d, k if after.shape[1] > 1 else 0], upto[d, k if upto.shape[1] > 1 else 0]
                oldest, newest = (earliest[d, k], latest[k]) if empty else (rows[lo, FIRST], rows[hi - 1, LAST])
                if a >= b or newest < oldest:
                    continue
                if ends == 0:  # a landmark: an end counts only if an event fell in the step before it
                    r = position(firsts, lo, hi, o if a < o + step else a - step)
                    low = position(firsts, lo, hi, o)
                    while r < hi:
                        high = o + ((rows[r, FIRST] - o) // step + 1) * step
                        if high > b:
                            break
                        q = position(firsts, r, hi, high)
                        if high > a:
                            n = put(out, n, d, k, low, q, o, high, rows, base, epoch, r, late, starts)
                        r = q
                    continue
                begun = NEVER
                if b == NEVER or not empty:
                    begun = newest
                    b = min(b, begun + size)
                w = 0 if p == 0 else (max(a, oldest) - size - o) // p + 1
                if not empty:
                    a = max(a, oldest)
                x = position(firsts, lo, hi, o + w * p)
                y = x
                while True:
                    s = o + w * p
                    if s + step > b or s > begun:
                        break
                    x = position_on(firsts, x, hi, s)
                    first = rows[x, FIRST] if x < hi else NEVER
                    if first >= s + size and not empty:
                        if x == hi or p == 0:
                            break
                        w = (first - size - o) // p + 1
                        continue
                    y = max(x, y if ends == 1 else x)
                    least = 1 if a < s else (a - s) // step + 1
                    if not empty:
                        least = max(least, (first - s) // step + 1)  # ends that its first event is before
                    for j in range(least, ends + 1):
                        e = s + j * step
                        if e > b:
                            break
                        y = position_on(firsts, y, hi, e)
                        if first < e or empty:
                            n = put(out, n, d, k, x, y, s, e, rows, base, epoch, x, late, starts)
                    if p == 0:
                        break
                    w += 1
        return n

    return compiled(due_windows)


@cache
def count() -> Any:
    """`count(specs, after, upto, earliest, latest, directory, rows, counts)`: count the windows that `windows` would
    find, by specification, without visiting each."""

    def count_windows(
        specs: Any, after: Any, upto: Any, earliest: Any, latest: Any, directory: Any, rows: Any, counts: Any
    ) -> Any:
        firsts = rows[:, FIRST]
        for d in range(specs.shape[0]):
            o, p, step, ends = specs[d, ORIGIN], specs[d, PERIOD], specs[d, STEP], specs[d, ENDS]
            empty = specs[d, EMIT_EMPTY] and p > 0
            size, total = ends * step, 0
            for k in range(directory.shape[0]):
                if k + AHEAD < directory.shape[0]:
                    prefetch(rows, directory[k + AHEAD, BASE] + directory[k + AHEAD, LO])
                base = directory[k, BASE]
                lo, hi = base + directory[k, LO], base + directory[k, HI]
                if lo == hi and not empty:
                    continue
                a, b = after[d, k if after.shape[1] > 1 else 0], upto[d, k if upto.shape[1] > 1 else 0]
                oldest, newest = (earliest[d, k], latest[k]) if empty else (rows[lo, FIRST], rows[hi - 1, LAST])
                if a >= b or newest < oldest:
                    continue
                if ends == 0:
                    r = position(firsts, lo, hi, o if a < o + step else a - step)
                    while r < hi:
                        high = o + ((rows[r, FIRST] - o) // step + 1) * step
                        if high > b:
                            break
                        r = position(firsts, r, hi, high)
                        total += high > a
                    continue
                begun = NEVER
                if b == NEVER or not empty:
                    begun = newest
                    b = min(b, begun + size)
                w = 0 if p == 0 else (max(a, oldest) - size - o) // p + 1
                if empty:
                    n = windows_in(o, p, step, ends, w, a, b, begun)
                else:
                    n = windows_with(firsts, lo, hi, 0, o, p, step, ends, w, max(a, oldest), b, begun)
                total = added(total, n)
            counts[d] = total

    return compiled(count_windows)


@cache
def count_altered() -> Any:
    """`count(specs, after, upto, times, starts, counts)`: count the windows that end in (after, upto] and hold one of
    the times, by specification, without landmarks. Key k has times[starts[k] : starts[k + 1]]."""

    def count_windows(specs: Any, after: Any, upto: Any, times: Any, starts: Any, counts: Any) -> Any:
        for d in range(specs.shape[0]):
            o, p, step, ends = specs[d, ORIGIN], specs[d, PERIOD], specs[d, STEP], specs[d, ENDS]
            size, total = ends * step, 0
            for k in range(len(starts) - 1):
                lo, hi = starts[k], starts[k + 1]
                a, b = after[d, k], upto[d, k]
                if lo == hi or ends == 0 or a >= b:
                    continue
                b = min(b, times[hi - 1] + size)
                w = 0 if p == 0 else (max(a, times[lo]) - size - o) // p + 1
                total = added(total, windows_with(times, lo, hi, 0, o, p, step, ends, w, a, b, times[hi - 1]))
            counts[d] = total

    return compiled(count_windows)


@cache
def ask() -> Any:
    """`ask(windows, upto, directory, rows, eager, program)`: the program that answers windows, all of which end up to
    that time. Slices behind it are open: no window takes them yet, so nothing is kept over them."""

    def write_program(windows: Any, upto: Any, directory: Any, rows: Any, eager: Any, program: Any) -> Any:
        n, firsts = 0, rows[:, FIRST]
        for w in range(windows.shape[0]):
            k, p, q = windows[w, OWNER], windows[w, FROM], windows[w, UPTO]
            if eager and q - p > 2:
                lo, clean = directory[k, LO], max(directory[k, CLEAN], directory[k, LO])
                if clean < q:
                    hi = closed(firsts, directory, k, q, upto)
                    program[n, 0] = REPAIR
                    program[n, 1] = directory[k, BASE]
                    program[n, 2] = directory[k, CAPACITY]
                    program[n, 3] = clean
                    program[n, 4] = hi
                    program[n, 5] = lo
                    program[n, 6] = hi
                    n += 1
                    directory[k, CLEAN] = hi
            program[n, 0] = ANSWER
            program[n, 1] = w
            program[n, 2] = directory[k, BASE]
            program[n, 3] = directory[k, CAPACITY]
            program[n, 4] = p
            program[n, 5] = q
            n += 1
        return n

    return compiled(write_program)


def closed(firsts: Any, directory: Any, k: Any, q: Any, upto: Any) -> Any:
    """How far a key's run was cut off by that time: all but the last slice that began before it, q at least. Only late
    events can change these."""
    base = directory[k, BASE]
    return max(q, position(firsts, base + q, base + directory[k, HI], upto) - base - (upto != NEVER))
