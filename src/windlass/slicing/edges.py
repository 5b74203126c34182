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

from windlass.kernels import compiled
from windlass.windows.window import Periodic

Integers = np.ndarray[Any, np.dtype[np.int64]]
NEVER = np.iinfo(np.int64).max
LONG_AGO = np.iinfo(np.int64).min

_FEW = 8  # progressions so few that computing the next edge from each beats laying them out


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
    return _laid_out(progressions, after, upto, count_between(progressions, after, upto))


def count_between(progressions: Integers, after: int, upto: int) -> int:
    """How many edges there are in (after, upto], counting equal ones of different progressions apart."""
    return int(_count()(progressions, after, upto))


def laid_out(progressions: Integers, after: int, upto: int, events: int) -> Integers | None:
    """The edges in (after, upto] if that is a good idea for so many events, else None."""
    if len(progressions) <= _FEW or (count := count_between(progressions, after, upto)) > 4 * events + 1024:
        return None
    return _laid_out(progressions, after, upto, count)


def _laid_out(progressions: Integers, after: int, upto: int, count: int) -> Integers:
    out = np.empty(count, np.int64)
    _fill()(progressions, after, upto, out)
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
    def count(progressions: Any, after: Any, upto: Any) -> Any:
        total = 0
        for r in range(progressions.shape[0]):
            o, p, low = progressions[r, 0], progressions[r, 1], progressions[r, 2]
            if p == 0:
                total += 1 if after < o <= upto else 0
            else:
                a = after if after >= low else low - 1
                total += max(0, (upto - o) // p - (a - o) // p)
        return total

    return compiled(count)


@cache
def _distinct() -> Any:
    def distinct(values: Any) -> Any:
        n = 0
        for i in range(len(values)):
            if n == 0 or values[i] != values[n - 1]:
                values[n] = values[i]
                n += 1
        return n

    return compiled(distinct)


@cache
def _fill() -> Any:
    def fill(progressions: Any, after: Any, upto: Any, out: Any) -> Any:
        n = 0
        for r in range(progressions.shape[0]):
            o, p, low = progressions[r, 0], progressions[r, 1], progressions[r, 2]
            if p == 0:
                if after < o <= upto:
                    out[n] = o
                    n += 1
            else:
                a = after if after >= low else low - 1
                edge = a - (a - o) % p + p
                while edge <= upto:
                    out[n] = edge
                    n += 1
                    edge += p

    return compiled(fill)
