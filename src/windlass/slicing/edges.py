"""Edges of periodic windows: where they begin and end, for any number of windows at once.

All edges of periodic windows are arithmetic progressions, (origin, period, lowest): the points origin + k·period that
are not below lowest; a period of 0 is the single point origin. A progression that lies in another one is dropped, so
twenty tumbling windows of 1 to 20 s are the one progression of 1 s.

Where edges are few for the events at hand, they are laid out in an array and the events walk along it; where they
are many (windows of a second over data that spans years), the next edge is computed when one is passed.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np

from windlass.kernels import compiled, unsigned
from windlass.slicing.specifications import ENDS, ORIGIN, PERIOD, STEP
from windlass.windows.window import Periodic

Integers = np.ndarray[Any, np.dtype[np.int64]]
NEVER = np.iinfo(np.int64).max
LONG_AGO = np.iinfo(np.int64).min

_FEW = 8  # progressions so few that computing the next edge from each beats laying them out
_CROWDED = 32  # edges in a stretch, so many that inserting one by one does not pay


def begins(windows: Iterable[Periodic]) -> Integers:
    """The progressions of all window begins."""
    return _progressions((w.origin, w.period, LONG_AGO) for w in windows)


def ends(windows: Iterable[Periodic]) -> Integers:
    """The progressions of all window ends."""

    def of(w: Periodic) -> tuple[int, int, int]:
        if w.ends == 1:
            return w.origin + w.step, w.period, LONG_AGO
        return w.origin, w.step, LONG_AGO if w.period else w.origin + w.step

    return _progressions(map(of, windows))


def together(*groups: Integers) -> Integers:
    """The progressions of several groups, without those that lie in another one."""
    return _progressions(tuple(map(int, p)) for group in groups for p in group)


def repeating(found: Iterable[tuple[int, int]]) -> Integers:
    """The progressions of all (origin, period): the points origin + k·period, for any k."""
    return _progressions((origin, period, LONG_AGO) for origin, period in found)


def _progressions(found: Iterable[tuple[int, ...]]) -> Integers:
    """Without those that lie in another one: that one's period divides theirs, so it is looked for by its divisors."""
    distinct = {(o % p if p and low == LONG_AGO else o, p, low) for o, p, low in found}
    kept: list[tuple[int, ...]] = []
    by_period: dict[int, list[tuple[int, ...]]] = {}
    for o, p, low in sorted(distinct, key=lambda x: (x[1] == 0, x[1], x[2], x[0])):
        dividing = (others for period, others in by_period.items() if p % period == 0)
        if not any(_within(o, p, low, other) for others in dividing for other in others):
            kept.append((o, p, low))
            if p:
                by_period.setdefault(p, []).append((o, p, low))
    return np.array(kept, np.int64).reshape(-1, 3)


def _within(o: int, p: int, low: int, other: tuple[int, ...]) -> bool:
    origin, period, lowest = other
    return (o - origin) % period == 0 and max(low, o if not p else low) >= lowest


def between(progressions: Integers, after: int, upto: int) -> Integers:
    """The distinct edges in (after, upto], in order."""
    firsts = np.empty(len(progressions), np.int64)
    return _laid_out(progressions, firsts, after, upto, int(_count()(progressions, after, upto, firsts)))


def count_between(progressions: Integers, after: int, upto: int) -> int:
    """How many edges there are in (after, upto], counting equal ones of different progressions apart."""
    return int(_count()(progressions, after, upto, np.empty(len(progressions), np.int64)))


def laid_out(progressions: Integers, after: int, upto: int, events: int) -> Integers | None:
    """The edges in (after, upto] if that is a good idea for so many events, else None."""
    if len(progressions) <= _FEW:
        return None
    firsts = np.empty(len(progressions), np.int64)
    count = int(_count()(progressions, after, upto, firsts))
    return None if count > 4 * events + 1024 else _laid_out(progressions, firsts, after, upto, count)


def _laid_out(progressions: Integers, firsts: Integers, after: int, upto: int, count: int) -> Integers:
    """Edges spread over time, so they are put into stretches of it first, and each stretch in order then."""
    if count == 0:
        return np.empty(0, np.int64)
    after = max(after, int(firsts.min()) - 1)  # there may be none for long
    out = np.empty(count, np.int64)
    counts = np.zeros(2 * count + 2, np.int64)
    if _place()(progressions, firsts, upto, after, counts, out) > _CROWDED:
        out.sort()
    return out[: int(_distinct()(out))]


def next_edge(progressions: Any, value: Any) -> Any:
    """The first edge after a value."""
    nearest = NEVER
    for r in range(progressions.shape[0]):
        o, p, low = progressions[r, 0], progressions[r, 1], progressions[r, 2]
        if p == 0:
            edge = o if o > value else NEVER
        elif value < low:
            edge = low
        else:
            edge = value - (value - o) % p + p
        nearest = min(nearest, edge)
    return nearest


def last_edge(progressions: Any, value: Any) -> Any:
    """The last edge that is not after a value."""
    nearest = LONG_AGO
    for r in range(progressions.shape[0]):
        o, p, low = progressions[r, 0], progressions[r, 1], progressions[r, 2]
        if p == 0:
            edge = o if o <= value else LONG_AGO
        elif value < low:
            edge = LONG_AGO
        else:
            edge = value - (value - o) % p
        nearest = max(nearest, edge)
    return nearest


@cache
def _count() -> Any:
    """`count(progressions, after, upto, firsts)`: how many edges; the first of each progression is noted, NEVER if it
    is not in time."""

    def count(progressions: Any, after: Any, upto: Any, firsts: Any) -> Any:
        total = 0
        for r in range(progressions.shape[0]):
            o, p, low = progressions[r, 0], progressions[r, 1], progressions[r, 2]
            first = o if o > after else NEVER
            if p > 0:
                a = after if after >= low else low - 1
                first = a - (a - o) % p + p
            if first > upto:
                first = NEVER
            else:
                total += 1 if p == 0 else (upto - first) // p + 1
            firsts[r] = first
        return total

    return compiled(count)


@cache
def _distinct() -> Any:
    """`distinct(values)`: put values in order that nearly are, each once. Returns how many are left."""

    def distinct(values: Any) -> Any:
        greatest = LONG_AGO
        for i in range(len(values)):
            value, at = values[unsigned(i)], i
            if value >= greatest:
                greatest = value
                continue
            while at > 0 and values[unsigned(at - 1)] > value:
                values[unsigned(at)] = values[unsigned(at - 1)]
                at -= 1
            values[unsigned(at)] = value
        n, last = 0, LONG_AGO
        for i in range(len(values)):  # no branch: nobody could foresee it
            value = values[unsigned(i)]
            n += value != last
            values[unsigned(n - 1)] = last = value
        return n

    return compiled(distinct)


@cache
def _place() -> Any:
    """`place(progressions, firsts, upto, after, counts, out)`: every edge up to upto, in the order of equal stretches
    of time. Returns how many the most crowded stretch has. `counts` is zeros, a place more than there are stretches."""

    def place(progressions: Any, firsts: Any, upto: Any, after: Any, counts: Any, out: Any) -> Any:
        stretch, crowd = 0, 0
        while (upto - after) >> stretch > len(counts) - 2:
            stretch += 1
        for r in range(len(firsts)):
            edge, p = firsts[unsigned(r)], progressions[unsigned(r), 1]
            while edge <= upto:
                counts[unsigned(((edge - after) >> stretch) + 1)] += 1
                if p == 0:
                    break
                edge += p
        for i in range(1, len(counts)):
            crowd = max(crowd, counts[unsigned(i)])
            counts[unsigned(i)] += counts[unsigned(i - 1)]
        for r in range(len(firsts)):
            edge, p = firsts[unsigned(r)], progressions[unsigned(r), 1]
            while edge <= upto:
                i = unsigned((edge - after) >> stretch)
                out[unsigned(counts[i])] = edge
                counts[i] += 1
                if p == 0:
                    break
                edge += p
        return crowd

    return compiled(place)


def last_end(specs: Integers, since: Integers) -> Integers:
    """The end of the last window that begins at `since` or earlier, by specification and key. Windows that begin later
    end later, because those that begin together (with several ends) end before the next ones begin.

    NEVER if no window begins later; LONG_AGO if all do.
    """
    origin, period, step, ends = (specs[:, column, np.newaxis] for column in (ORIGIN, PERIOD, STEP, ENDS))
    next_begin = origin + ((since - origin) // np.maximum(period, 1) + 1) * period
    end = np.where(ends == 1, since + step, next_begin)
    end = np.where(period == 0, np.where(origin > since, LONG_AGO, NEVER), end)
    return np.where((since == LONG_AGO) | (since == NEVER), since, end)
