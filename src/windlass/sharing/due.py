"""Which windows are due, and which partials they are (MQO 3.1).

    pieces   0     3   5        9           the slices that have events, by their starts
    ACQ(6, 3)      ├─────┤                  a window belongs to the last piece that starts before its end,
                      ├─────┤               and is there only if that piece starts in it

Nothing here looks at a partial, so it is compiled once for all aggregates. Windows, pieces and partials are in
order, and one gallops along the other: it costs next to nothing where they are equally dense, and a logarithm
where not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from windlass.kernels import compiled
from windlass.sharing.acq import ACQ

__all__ = ["Due", "Pieces", "acq_table", "by_due", "find_due", "picked"]

Integers = np.ndarray[Any, np.dtype[np.int64]]


class Pieces(NamedTuple):
    """Pieces of slices: where they start, which slice of the history each belongs to, and where the next one begins."""

    starts: Integers
    slice: Integers
    until: Integers


class Due(NamedTuple):
    """Windows to answer, range by range in the order of their ends. A window is the partials lo … hi - 1, counted since
    the stream began, and the piece `tail` (-1: none) if it ends inside of a slice."""

    end: Integers
    lo: Integers
    hi: Integers
    tail: Integers
    bounds: Integers  # windows of range q are bounds[q] … bounds[q + 1] - 1


def acq_table(acqs: Sequence[ACQ]) -> Integers:
    """Range, slide, and where windows end, modulo the slide."""
    return np.array([(q.range, q.slide, (q.offset + q.range) % q.slide) for q in acqs], np.int64).reshape(-1, 3)


def find_due(table: Integers, pieces: Pieces, starts: Integers, first: int, after: int, upto: int) -> Due:
    """The windows of ACQs (by range) that end in (after, upto] and have an event, over slices that start at
    `starts`, of which `first` is the number of the first one. `bounds` is by ACQ."""
    low, last = max(after, int(pieces.starts[0])), int(pieces.starts[-1])
    ranges, slides = table[:, 0], table[:, 1]
    by_time = (np.minimum(upto, last + ranges) - low) // slides + 1
    by_piece = len(pieces.starts) * (ranges // slides + 1)
    most = max(0, int(np.maximum(np.minimum(by_time, by_piece), 0).sum()))
    out, bounds = np.empty((4, most), np.int64), np.zeros(len(table) + 1, np.int64)
    _find()(table, pieces, starts, first, low, upto, out, bounds)
    end, lo, hi, tail = out[:, : int(bounds[-1])]
    return Due(end, lo, hi, tail, bounds)


def picked(due: Due, which: Any, bounds: Integers) -> Due:
    """Some windows, or all of them in another order."""
    return Due(due.end[which], due.lo[which], due.hi[which], due.tail[which], bounds)


def _gallop(values: Any, i: Any, bound: Any) -> Any:
    """The first place from i on that is not below the bound."""
    n = len(values)
    if i >= n or values[i] >= bound:
        return i
    step = 1
    while i + step < n and values[i + step] < bound:
        i += step
        step += step
    low, high = i, min(i + step, n)  # values[low] is below, values[high] is not, or there is none
    while high - low > 1:
        middle = (low + high) >> 1
        if values[middle] < bound:
            low = middle
        else:
            high = middle
    return high


@cache
def _find() -> Any:
    def find(table: Any, pieces: Any, starts: Any, first: Any, low: Any, upto: Any, out: Any, bounds: Any) -> Any:
        piece_starts, slices, until = pieces
        ends, los, his, tails = out[0], out[1], out[2], out[3]
        n = len(piece_starts)
        w = 0
        for q in range(table.shape[0]):
            length, slide, origin = table[q, 0], table[q, 1], table[q, 2]
            high = min(upto, piece_starts[n - 1] + length)
            end = low - (low - origin) % slide + slide
            p = lo = 0
            while end <= high:
                p = _gallop(piece_starts, p, end) - 1
                if piece_starts[p] < end - length:  # no event in it: on to the first that has the next piece
                    at = piece_starts[p + 1]
                    end = at - (at - origin) % slide + slide
                    continue
                lo = _gallop(starts, lo, end - length)
                inside = until[p] > end
                ends[w] = end
                los[w] = first + lo
                his[w] = slices[p] + (0 if inside else 1)
                tails[w] = p if inside else -1
                w += 1
                end += slide
            bounds[q + 1] = w

    return compiled(find)


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
