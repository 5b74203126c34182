"""Which windows are due, and which partials they are (MQO 3.1).

    pieces   0     3   5        9           the slices that have events, by their starts
    ACQ(6, 3)      ├─────┤                  a window belongs to the last piece that starts before its end,
                      ├─────┤               and is there only if that piece starts in it

Nothing here looks at a partial, so it is compiled once for all aggregates. All of it is linear: windows, pieces and
partials are in order, and one walks along the other, unless one is so much longer that searching is faster.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from windlass.kernels import compiled
from windlass.sharing.acq import ACQ

__all__ = ["by_due", "ending", "positions"]

Integers = np.ndarray[Any, np.dtype[np.int64]]


def ending(q: ACQ, pieces: Integers, after: int, upto: int) -> tuple[Integers, Integers]:
    """The ends in (after, upto] of windows of `q` that have an event, and the piece each of them belongs to."""
    low, high = max(after, int(pieces[0])), min(upto, int(pieces[-1]) + q.range)
    first, count = _run(q, low, high)
    if count <= 2 * len(pieces):
        ends = first + q.slide * np.arange(count, dtype=np.int64)
        last = positions(pieces, ends) - 1
        there = pieces[last] >= ends - q.range
        return (ends, last) if there.all() else (ends[there], last[there])
    # Windows are many where events are few: look at each piece for those that belong to it.
    lows, highs = np.maximum(pieces, after), np.minimum(np.append(pieces[1:], high), pieces + q.range)
    firsts, counts = _run(q, lows, highs)
    last = np.repeat(np.arange(len(pieces)), counts)
    nth = np.arange(len(last)) - np.repeat(np.cumsum(counts) - counts, counts)
    return firsts[last] + q.slide * nth, last


def _run(q: ACQ, low: Any, high: Any) -> tuple[Any, Any]:
    """The first window end after low, and how many there are up to high."""
    origin = q.offset + q.range % q.slide
    before = (low - origin) // q.slide
    return origin + (before + 1) * q.slide, np.maximum(0, (high - origin) // q.slide - before)


def positions(starts: Integers, values: Integers) -> Integers:
    """How many starts are below each value; both in order."""
    if 8 * len(values) < len(starts):
        return np.searchsorted(starts, values).astype(np.int64)
    out = np.empty(len(values), np.int64)
    _positions()(starts, values, out)
    return out


@cache
def _positions() -> Any:
    def walk(starts: Any, values: Any, out: Any) -> Any:
        i = 0
        for k in range(len(values)):
            while i < len(starts) and starts[i] < values[k]:
                i += 1
            out[k] = i

    return compiled(walk)


def by_due(due: Integers, first: int, count: int) -> Integers:
    """The rows in the order in which they are due, from `first` on; among those due together as they stand."""
    order = np.empty(len(due), np.int64)
    _by_due()(due, first, np.zeros(count + 2, np.int64), order)
    return order


@cache
def _by_due() -> Any:
    def sort(due: Any, first: Any, places: Any, order: Any) -> Any:
        for k in range(len(due)):
            places[due[k] - first + 1] += 1
        for i in range(1, len(places)):
            places[i] += places[i - 1]
        for k in range(len(due)):
            order[places[due[k] - first]] = k
            places[due[k] - first] += 1

    return compiled(sort)
