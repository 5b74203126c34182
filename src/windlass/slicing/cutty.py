"""Cutty: slices begin only where windows begin (Cutty, sections 3 to 5), for events in order.

    events      e0 e1 │ e2 e3 e4 │ e5 …        │ a window begins, ┊ a window ends
    slices      ───s0─┼────s1──┊─┼──s2──       the window that ends at ┊ is s0 ⊕ (what s1 holds so far)

An end is no edge: when a window ends, the slice that is open then holds just the events up to there, because events
come in order. So a window's answer is taken in the middle of the folding, and a single
window never needs more slices than it has open windows. (With several, a slice stays while any older one is needed.)
Everything here counts in positions, an event's number in its key's order; a window is a range of them. In which
measure a window was defined no longer matters, so windows over time, counts and columns share slices (Cutty, Figure 6).

The steps, for a run of events: mark where windows begin (`mark_begins`, and discretizers), append the slices
(`append`), enumerate the windows that periodic specifications have completed (`complete`), and write the program that
folds and answers (`write`).
"""

from __future__ import annotations

from functools import cache
from typing import Any

from windlass.kernels import compiled, unsigned
from windlass.slicing.counting import added, windows_in, windows_with
from windlass.slicing.edges import LONG_AGO, NEVER, next_edge
from windlass.slicing.instructions import ANSWER, ANSWERS, FOLD, FOLDS, REPAIR
from windlass.slicing.slices import (
    BASE,
    BORN,
    CAPACITY,
    CHANGED,
    CLEAN,
    FIRST,
    HI,
    LAST,
    LO,
    MEASURES,
    NOT_LAID,
    POS,
    SLOT,
    find,
    lay,
    look,
    position,
    position_on,
)
from windlass.slicing.specifications import COUNT, EMIT_EMPTY, ENDS, FINDING, MEASURE, ORIGIN, PERIOD, STEP, TIME

# What is told of a completed window, an array each: which window of the plan, its key and positions, its bounds, the
# slice it begins with (-1: to be looked up) and the one before which it ends (-1: inside of one), and its bounds in
# event time, and its twin if a discretizer found it. The last three are left out where all edges are fixed on time.
WINDOW, KEY, BEGIN, STOP, LOW, HIGH, ROW, UNTIL, START_TIME, END_TIME, TWIN = range(11)
TOLD = 11
BESIDE = 4  # slices that are compared at once


@cache
def mark_begins() -> Any:
    """`mark(offsets, values, before, started, progressions, edges, marked)`: the events that an edge lies before, and
    after the one before them, in one measure and in order. Returns how many. `edges` is empty if not laid out."""

    def ahead(values: Any, i: Any, stop: Any, value: Any) -> Any:
        """The first of i:stop that is at value or beyond. Most often it is near: count those before it, many a step."""
        for _ in range(3):
            if i + 16 > stop:
                break
            before = 0
            for j in range(16):
                before += values[unsigned(i + j)] < value
            i += before
            if before < 16:
                return i
        return position_on(values, i, stop, value)

    def mark(offsets: Any, values: Any, before: Any, started: Any, progressions: Any, edges: Any, marked: Any) -> Any:
        n = 0
        for k in range(len(offsets) - 1):
            i, stop = offsets[k], offsets[k + 1]
            if i == stop:
                continue
            value = before[k]
            if not started[k]:
                marked[n] = i
                n += 1
                value = values[i]
                i += 1
            if len(edges) == 0:
                i = position_on(values, i, stop, next_edge(progressions, value))
                while i < stop:
                    marked[unsigned(n)] = i
                    n += 1
                    i = position_on(values, i + 1, stop, next_edge(progressions, values[i]))
            else:
                lo = position(edges, 0, len(edges), value + 1)
                while lo < len(edges):
                    i = ahead(values, i, stop, edges[unsigned(lo)])
                    if i == stop:
                        break
                    marked[unsigned(n)] = i
                    n += 1
                    value = values[unsigned(i)]
                    while lo < len(edges) and edges[unsigned(lo)] <= value:
                        lo += 1
                    i += 1
        return n

    return compiled(mark)


@cache
def append() -> Any:
    """`append(…)`: a slice for each event that begins one, of which `marked` are the rows. Returns how many slots are
    free then."""

    def append_slices(
        offsets: Any,
        first: Any,
        ts: Any,
        measures: Any,
        marked: Any,
        directory: Any,
        rows: Any,
        free: Any,
        free_count: Any,
        epoch: Any,
    ) -> Any:
        m = 0
        for k in range(len(offsets) - 1):
            base, hi = directory[k, BASE], directory[k, HI]
            shift, stop = first[k] - offsets[k], offsets[k + 1]
            while m < len(marked) and marked[unsigned(m)] < stop:
                i, row = marked[unsigned(m)], unsigned(base + hi)
                free_count -= 1
                rows[row, SLOT] = free[unsigned(free_count)]
                rows[row, FIRST] = ts[unsigned(i)]
                rows[row, POS] = i + shift
                rows[row, BORN] = rows[row, CHANGED] = epoch
                for c in range(measures.shape[0]):
                    rows[row, MEASURES + c] = measures[c, i]
                hi += 1
                m += 1
            if offsets[k + 1] > offsets[k] and hi > directory[k, LO]:
                rows[base + hi - 1, LAST] = ts[offsets[k + 1] - 1]
            directory[k, HI] = hi
        return free_count

    return compiled(append_slices)


def index_of(c: Any, coordinates: Any, i: Any, i1: Any, i0: Any, at: Any, value: Any) -> Any:
    """The first event of a key's run i0:i1 that is at value or beyond in measure c, and not before i; `at` is the
    count of the first event."""
    if c == COUNT:
        return i0 + min(i1 - i0, max(0, value - at))
    return position_on(coordinates[c], i, i1, value)


@cache
def complete() -> Any:
    """`complete(…, out)`: the windows of periodic specifications that end in (after, upto]. Returns how many there
    are and writes as many as `out` has room for, so it is called twice.

    `earliest` and `latest` are the values of a key's first and last event in each measure, `previous` of the last one
    before this run; `skipped` is how many of a key's positions a specification does not count (late events that came
    too late for it), `seen_from` the position from which one on a column sees events,
    `begun` the first event that one with empty windows has seen. `after` is by specification, the others by measure.
    `index` is room to lay slices out by time, `copies` for their times and positions side by side."""

    def put(
        out: Any, n: Any, window: Any, key: Any, begin: Any, stop: Any, low: Any, high: Any, row: Any, until: Any
    ) -> Any:
        if n < out.shape[1]:
            at = unsigned(n)
            out[WINDOW, at] = window
            out[KEY, at] = key
            out[BEGIN, at] = begin
            out[STOP, at] = stop
            out[LOW, at] = low
            out[HIGH, at] = high
            if out.shape[0] > START_TIME:
                out[START_TIME, at] = low
                out[END_TIME, at] = high
            out[ROW, at] = row
            out[UNTIL, at] = until
        return n + 1

    def reach(times: Any, size: Any, value: Any, index: Any, laid: Any) -> Any:
        """As `look` among all of them, but NEVER follows, so that some can be compared at once, without a branch."""
        if value > times[unsigned(size - 1)]:
            return size
        i = max(0, value - times[0]) >> laid
        r, stop = index[unsigned(i)], index[unsigned(i + 1)]
        if stop - r > 16:
            return position_on(times, r, stop, value)
        while True:
            before = 0
            for j in range(BESIDE):
                before += times[unsigned(r + j)] < value
            r += before
            if before < BESIDE:
                return r

    def tumble(
        out: Any,
        n: Any,
        window: Any,
        key: Any,
        s: Any,
        p: Any,
        b: Any,
        times: Any,
        places: Any,
        size: Any,
        shift: Any,
        index: Any,
        laid: Any,
    ) -> Any:
        """Windows that follow one another from s on, up to b: one begins in the slice that the last one ended before.
        This is most of the work where windows are many."""
        r = reach(times, size, s, index, laid)
        while s + p <= b and r < size:
            value = times[unsigned(r)]
            if value >= s + p:  # nothing in there: on to the first window that has an event
                s += (value - s) // p * p
                continue
            until = reach(times, size, s + p, index, laid)
            n = put(
                out, n, window, key, places[unsigned(r)], places[unsigned(until)], s, s + p, r + shift, until + shift
            )
            r = until
            s += p
        return n

    def complete_windows(
        specs: Any,
        offsets: Any,
        first: Any,
        skipped: Any,
        seen_from: Any,
        begun: Any,
        coordinates: Any,
        after: Any,
        upto: Any,
        earliest: Any,
        latest: Any,
        previous: Any,
        directory: Any,
        rows: Any,
        index: Any,
        copies: Any,
        out: Any,
    ) -> Any:
        n = 0
        times, places = copies[0], copies[1]
        for k in range(len(offsets) - 1):
            base = directory[k, BASE]
            lo, hi = base + directory[k, LO], base + directory[k, HI]
            i0, i1 = offsets[k], offsets[k + 1]
            found, stretch = n, NOT_LAID
            for d in range(specs.shape[0]):
                o, p, step, ends = specs[d, ORIGIN], specs[d, PERIOD], specs[d, STEP], specs[d, ENDS]
                c, empty, window = specs[d, MEASURE], specs[d, EMIT_EMPTY] and p > 0, specs[d, FINDING]
                field = FIRST if c == TIME else POS if c == COUNT else MEASURES + c - 2
                oldest = begun[d, k] if empty else earliest[c, k]
                if latest[c, k] < oldest or (lo == hi and not empty):
                    continue
                if stretch == NOT_LAID and 32 * (n - found) > hi - lo > 0:  # so many that it pays
                    for r in range(lo, hi):
                        times[r - lo], places[r - lo] = rows[r, FIRST], rows[r, POS]
                    times[hi - lo : hi - lo + BESIDE] = NEVER
                    stretch = lay(times, 0, hi - lo, index)
                laid = stretch if c == TIME else NOT_LAID
                shift = skipped[d, k] if c == COUNT else 0
                at = first[k] - shift
                a, b, newest = after[d, k], upto[c, k], latest[c, k] - shift
                if b != NEVER:
                    b -= shift
                if ends == 0:  # a landmark: an end counts only if an event fell in the step before it
                    value, i = previous[c, k], i0
                    seen = i0
                    if c > COUNT:  # not what came too late for it
                        seen = min(i1, max(i0, i0 + seen_from[d, k] - first[k]))
                        if seen_from[d, k] >= first[k]:
                            value = LONG_AGO
                    if value != LONG_AGO:
                        value -= shift
                    while True:
                        if value < o:
                            i = max(seen, index_of(c, coordinates, i0, i1, i0, at, o))
                        else:
                            end = o + ((value - o) // step + 1) * step
                            if end > b:
                                break
                            i = index_of(c, coordinates, i, i1, i0, at, end)
                            if end > a:
                                r = find(rows, field, lo, hi, o + shift)
                                if c > COUNT:
                                    r = max(r, find(rows, POS, lo, hi, seen_from[d, k]))
                                n = put(out, n, window, k, rows[r, POS], first[k] + i - i0, o, end, r - base, -1)
                        if i == i1:
                            break
                        value = at + i - i0 if c == COUNT else coordinates[c, i]
                    continue
                size = ends * step
                values, positions = rows[:, field], rows[:, POS]
                a = max(a, oldest)  # no window that ends by then holds an event
                last_start = NEVER
                if b == NEVER or not empty:
                    last_start = newest
                    b = min(b, newest + size)
                w = 0 if p == 0 else (a - size - o) // p + 1
                if empty:
                    a = after[d, k]  # of a start that an event has, all ends
                if c == COUNT and p > 0:
                    w = max(w, -(o // p))  # positions begin at 0
                if laid != NOT_LAID and ends == 1 and step == p and not empty:
                    places[hi - lo] = first[k] + i1 - i0
                    n = tumble(out, n, window, k, o + w * p, p, b, times, places, hi - lo, lo - base, index, laid)
                    continue
                from_row = lo if p == 0 else look(values, lo, lo, hi, o + w * p + shift, index, laid)
                from_event, until = i0, lo
                where_one_begins = ends == 1 and p > 0 and step % p == 0  # ends another
                while True:
                    s = o + w * p
                    if s + step > b or s > last_start:
                        break
                    r = look(values, lo, from_row, hi, s + shift, index, laid)
                    from_row = r
                    if c > COUNT:
                        r = max(r, find(rows, POS, lo, hi, seen_from[d, k]))
                    value = NEVER
                    if r < hi:
                        value = values[unsigned(r)] - shift
                    if value >= s + size and not empty:  # nothing in there: on to the first window that has an event
                        if r == hi or p == 0:
                            break
                        w = (value - size - o) // p + 1
                        continue
                    least = 1 if a < s + step else (a - s) // step + 1
                    if value >= s + step and not empty:
                        least = max(least, (value - s) // step + 1)  # ends that its first event is before
                    for j in range(least, ends + 1):
                        e = s + j * step
                        if e > b:
                            break
                        if value < e or empty:
                            ends_before = -1
                            if where_one_begins:
                                until = look(values, lo, max(r, until), hi, e + shift, index, laid)
                                stop = positions[unsigned(until)] if until < hi else first[k] + i1 - i0
                                ends_before = until - base
                            else:
                                from_event = index_of(c, coordinates, i0 if ends > 1 else from_event, i1, i0, at, e)
                                stop = first[k] + from_event - i0
                            begin = positions[unsigned(r)] if value < e else stop
                            n = put(out, n, window, k, begin, stop, s, e, r - base, ends_before)
                    if p == 0:
                        break
                    if until > lo and step == p:  # the next one begins where this one ends
                        from_row = until
                    w += 1
        return n

    return compiled(complete_windows)


@cache
def count() -> Any:
    """`count(…, counts)`: count the windows that `complete` would find, by specification, without visiting each.

    Landmarks are left out: each of their windows needs an event of its own.
    """

    def count_windows(
        specs: Any,
        offsets: Any,
        first: Any,
        skipped: Any,
        seen_from: Any,
        begun: Any,
        after: Any,
        upto: Any,
        earliest: Any,
        latest: Any,
        directory: Any,
        rows: Any,
        counts: Any,
    ) -> Any:
        for d in range(specs.shape[0]):
            o, p, step, ends = specs[d, ORIGIN], specs[d, PERIOD], specs[d, STEP], specs[d, ENDS]
            c, empty = specs[d, MEASURE], specs[d, EMIT_EMPTY] and p > 0
            field = FIRST if c == TIME else POS if c == COUNT else MEASURES + c - 2
            values, size, total = rows[:, field], ends * step, 0
            for k in range(len(offsets) - 1):
                base = directory[k, BASE]
                lo, hi = base + directory[k, LO], base + directory[k, HI]
                oldest = begun[d, k] if empty else earliest[c, k]
                if ends == 0 or latest[c, k] < oldest or (lo == hi and not empty):
                    continue
                shift = skipped[d, k] if c == COUNT else 0
                a, b, newest = after[d, k], upto[c, k], latest[c, k] - shift
                if b != NEVER:
                    b -= shift
                a = max(a, oldest)
                last_start = NEVER
                if b == NEVER or not empty:
                    last_start = newest
                    b = min(b, newest + size)
                w = 0 if p == 0 else (a - size - o) // p + 1
                if c == COUNT and p > 0:
                    w = max(w, -(o // p))  # positions begin at 0
                if empty:
                    n = windows_in(o, p, step, ends, w, after[d, k], b, last_start)
                else:
                    r = max(lo, find(rows, POS, lo, hi, seen_from[d, k])) if c > COUNT else lo
                    n = windows_with(values, r, hi, shift, o, p, step, ends, w, a, b, last_start)
                total = added(total, n)
            counts[d] = total

    return compiled(count_windows)


@cache
def write() -> Any:
    """`write(…, program)`: fold the run's events into their slices and answer each window when its last event is in.

    Windows that end where a slice begins are answered when all is folded: the first `known` are by key, and say before
    which slice they end. The others need the slices as they are when a window ends: `order` has these by key and STOP,
    those of key k from `offset[k]` on. Returns the program's length."""

    def repaired(program: Any, n: Any, entry: Any, q: Any) -> Any:
        """Bring what an eager store keeps up to date for a window that ends before the slice q."""
        clean = max(entry[CLEAN], entry[LO])
        if clean < q - 1:
            program[n, 0] = REPAIR
            program[n, 1] = entry[BASE]
            program[n, 2] = entry[CAPACITY]
            program[n, 3] = clean
            program[n, 4] = q - 1
            program[n, 5] = entry[LO]
            program[n, 6] = q - 1
            n += 1
            entry[CLEAN] = q - 1
        return n

    def answered(program: Any, n: Any, entry: Any, window: Any, p: Any, q: Any) -> Any:
        at = unsigned(n)
        program[at, 0] = ANSWER
        program[at, 1] = window
        program[at, 2] = entry[BASE]
        program[at, 3] = entry[CAPACITY]
        program[at, 4] = p
        program[at, 5] = q
        return n + 1

    def write_program(
        offsets: Any,
        row_of: Any,
        first: Any,
        windows: Any,
        known: Any,
        order: Any,
        offset: Any,
        directory: Any,
        rows: Any,
        eager: Any,
        program: Any,
    ) -> Any:
        n, v = 0, 0
        for k in range(len(offsets) - 1):
            w, last_window = offset[k], offset[k + 1]
            at, count = first[k], offsets[k + 1] - offsets[k]
            mine = v < known and windows[KEY, v] == k
            if w == last_window and count == 0 and not mine:
                continue
            entry = directory[k]
            base = entry[BASE]
            lo, hi = base + entry[LO], base + entry[HI]
            r = find(rows, POS, lo, hi, at) - 1  # the slice that is open
            here, end, new = at, at + count, hi
            if w == last_window and r + 1 < hi and end > here:  # nothing is answered before all is folded
                end, new = rows[r + 1, POS], r + 1
            while True:
                next_slice = rows[r + 1, POS] if r + 1 < hi else NEVER
                next_stop = windows[STOP, order[w]] if w < last_window else NEVER
                upto = min(end, next_slice, next_stop)
                if upto > here and r >= lo:
                    i = row_of[k] + here - at
                    program[n, 0] = FOLD
                    program[n, 1] = rows[r, SLOT]
                    program[n, 2] = i
                    program[n, 3] = i + upto - here
                    program[n, 4] = 1 if rows[r, POS] == here else 0
                    n += 1
                here = max(here, upto)
                while w < last_window and windows[STOP, order[w]] <= here:
                    window = order[w]
                    begin, p, q = windows[BEGIN, window], windows[ROW, window], r + 1 - base
                    if begin >= windows[STOP, window]:
                        p = q
                    elif p < 0:
                        p = find(rows, POS, lo, r + 1, begin) - base
                    if eager and q - p > 2:
                        n = repaired(program, n, entry, q)
                    n = answered(program, n, entry, window, p, q)
                    w += 1
                if next_slice == here:
                    r += 1
                elif here == end:
                    break
            if new < hi:
                program[n, 0] = FOLDS
                program[n, 1] = new
                program[n, 2] = hi
                program[n, 3] = row_of[k] - at
                program[n, 4] = row_of[k] + count
                n += 1
            if mine:
                v0, q = v, 0
                while v < known and windows[KEY, unsigned(v)] == k:
                    until = windows[UNTIL, unsigned(v)]
                    q = max(q, until if until - windows[ROW, unsigned(v)] > 2 else 0)
                    v += 1
                if eager:
                    n = repaired(program, n, entry, q)
                program[n, 0] = ANSWERS
                program[n, 1] = v0
                program[n, 2] = base
                program[n, 3] = entry[CAPACITY]
                program[n, 4] = v
                n += 1
        return n

    return compiled(write_program)


@cache
def begin_times() -> Any:
    """`times(windows, directory, rows, out)`: the time of each window's first event."""

    def times(windows: Any, directory: Any, rows: Any, out: Any) -> Any:
        for i in range(len(out)):
            k = windows[KEY, i]
            base = directory[k, BASE]
            r = find(rows, POS, base + directory[k, LO], base + directory[k, HI], windows[BEGIN, i])
            out[i] = rows[r, FIRST]

    return compiled(times)
