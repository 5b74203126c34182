"""Partial aggregation: events cut at edges and folded, one partial a slice that has events (MQO 2.1).

    ts       1 2   4   6 7 8            edges 0 3 6 9
    slices   └─┘   └   └───┘            start 0 3 6: partials 1⊕2, 4, 6⊕7⊕8

Times and partials of a finer cut can be folded just like events: that is TriWeave's second level. Where windows end
inside of a slice (Cutty), the slice is cut there without beginning a new one: a *piece* is the slice so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

from windlass.aggregates.evaluation import kernel, lifted
from windlass.aggregates.monoid import Columns, Monoid
from windlass.kernels import accessors, compiled
from windlass.sharing.f1 import pruned
from windlass.sharing.fragments import Progression, composite_slide

__all__ = ["Cut", "Edges", "fold_events", "fold_partials"]

Integers = np.ndarray[Any, np.dtype[np.int64]]
Cut = tuple[Integers, Integers]  # where each slice with events starts, in time, and its first row; and the row after
_TILED = 1 << 16  # edges of a composite slide that are laid out once


class Edges:
    """The edges of a tree."""

    def __init__(self, progressions: Iterable[Progression]) -> None:
        self.progressions = pruned(progressions)
        self._slide = composite_slide(self.progressions)
        self._rate = sum(1 / period for _, period in self.progressions)
        self._tile: Integers | None = None
        if self._slide * self._rate <= _TILED:
            self._tile = self._spread(0, self._slide - 1)

    def _spread(self, low: int, high: int) -> Integers:
        each = [np.arange(low + (a - low) % p, high + 1, p, dtype=np.int64) for a, p in self.progressions]
        return np.unique(np.concatenate(each))

    def between(self, low: int, high: int) -> Integers:
        """All edges in [low, high]."""
        if self._tile is None:
            return self._spread(low, high)
        first, last = low // self._slide, high // self._slide
        tiles = np.arange(first, last + 1, dtype=np.int64)[:, None] * self._slide
        edges: Integers = (tiles + self._tile).ravel()
        return edges[np.searchsorted(edges, low) : np.searchsorted(edges, high, "right")]

    def last(self, times: Any) -> Any:
        """The last edge that is not after each time."""
        return np.max([times - (times - a) % p for a, p in self.progressions], axis=0)

    def next(self, times: Any) -> Any:
        """The first edge after each time."""
        return np.min([times - (times - a) % p + p for a, p in self.progressions], axis=0)

    def cut(self, ts: Integers) -> Cut:
        """The slices of these times, which do not decrease."""
        low, high = int(self.last(ts[:1])[0]), int(ts[-1])
        if (high - low) * self._rate > 4 * len(ts) + 1024:  # edges are many where events are few
            at = self.last(ts)
            rows = np.flatnonzero(np.diff(at, prepend=at[0] - 1))
            return at[rows], np.append(rows, len(ts))
        edges = self.between(low, high)
        starts, rows = np.empty_like(edges), np.empty(len(edges) + 1, np.int64)
        n = int(_cut()(ts, edges, starts, rows))
        return starts[:n], rows[: n + 1]


@cache
def _cut() -> Any:
    def cut(ts: Any, edges: Any, starts: Any, rows: Any) -> Any:
        n = i = 0
        for e in range(len(edges)):
            begin = i
            if e + 1 < len(edges):
                while ts[i] < edges[e + 1]:  # the last edge is not after the last time
                    i += 1
            else:
                i = len(ts)
            if i > begin:
                starts[n] = edges[e]
                rows[n] = begin
                n += 1
        rows[n] = i
        return n

    return compiled(cut)


def fold_events(m: Monoid, events: Any, rows: Integers, begins: Any, carry: Columns) -> Columns:
    """The partial of each piece up to its end; `begins` says which pieces begin a slice, the others go on. The first
    goes on from `carry` if it does not begin one."""
    return _fold(m, events, rows, begins, carry, lambda: _fold_kernel(m, lifted(m)), "fold pieces of events")


def fold_partials(m: Monoid, partials: Columns, rows: Integers, begins: Any, carry: Columns) -> Columns:
    """The same over partials."""
    load, _ = accessors(m.fields)
    return _fold(m, partials, rows, begins, carry, lambda: _fold_kernel(m, load), "fold pieces of partials")


def _fold(
    m: Monoid, x: Any, rows: Integers, begins: Any, carry: Columns, make: Callable[[], Any], name: str
) -> Columns:
    out = m.allocate(len(rows) - 1)
    with np.errstate(all="ignore"):
        kernel(m, make, name)(x, rows, begins, carry, out)
    return out


def _fold_kernel(m: Monoid, at: Any) -> Any:
    combine = m.combine
    load, store = accessors(m.fields)

    def fold(events: Any, rows: Any, begins: Any, carry: Any, out: Any) -> Any:
        for k in range(len(rows) - 1):
            i = rows[k]
            acc = at(events, i)
            if not begins[k]:
                acc = combine(load(out, k - 1) if k > 0 else load(carry, 0), acc)
            for j in range(i + 1, rows[k + 1]):
                acc = combine(acc, at(events, j))
            store(out, k, acc)

    return fold
