"""Cells: slices of a batch, made without putting its events in order (Scotty 5.3, for events that go elsewhere next).

    events       a b a a c b a                      edges   │        │        │
    cell of each 0 1 0 2 3 1 2                      cells   a:0 b:1  │ a:2 c:3│

A cell holds the events of one key between two neighbouring edges. Two passes over the events: the first finds the cell
of each (`assign`: once, however many aggregates there are), the second folds each into the partial of its cell, once
for each aggregate (`fold`). An event may come before the one it is folded onto, so aggregates must be commutative.

Which cell it is: the events of a batch mostly walk along the edges, so the cell's edges are looked up only when
an event lies outside of those of the one before. Where keys × edges are few, a table has the number of each cell;
where they are many, for there are many keys or long gaps, a hash table has those that there are.

Cost: one combine an event and aggregate.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from windlass.aggregates import evaluation
from windlass.aggregates.evaluation import Events
from windlass.aggregates.monoid import Columns, Monoid
from windlass.kernels import accessors, compiled, unsigned
from windlass.slicing import edges as edges_of
from windlass.slicing.edges import last_edge, next_edge

Array = np.ndarray[Any, Any]

_ROOM = 4  # entries of the table for an event, at most


@dataclass(frozen=True)
class Cells:
    """The cells of a batch, in the order of their first events."""

    of: Array  # the cell of each event
    key: Array
    first: Array  # time of the earliest event, and of the latest
    last: Array
    events: Array  # how many

    def __len__(self) -> int:
        return len(self.key)


def cells(key: Array, ts: Array, keys: int, progressions: Array) -> Cells:
    """The cells of events with these keys (numbers below `keys`) and times."""
    n = len(ts)
    of, out = np.empty(n, np.int32), np.empty((4, n), np.int64)
    first, last = (int(ts.min()), int(ts.max())) if n else (0, 0)
    between = edges_of.count_between(progressions, first, last)
    if (between + 1) * keys <= _ROOM * n + 1024:
        laid = edges_of.between(progressions, first, last)
        table = np.full((len(laid) + 1) * keys, -1, np.int32)
        found = int(_assign()(key, ts, laid, keys, table, of, out))
    else:
        table = np.full(1 << max(4, (2 * n - 1).bit_length()), -1, np.int32)
        found = int(_assign_hashed()(key, ts, progressions, table, of, out, np.empty(n, np.int64)))
    return Cells(of, *(out[i, :found].copy() for i in range(4)))


def fold(m: Monoid, events: Events, cells: Cells) -> Columns:
    """The partial of each cell. Events that do not count (nulls, and what a filter leaves out) are left out."""
    pool = m.allocate(len(cells))
    evaluation.kernel(m, lambda: _fold_kernel(m), "cells")(events, cells.of, pool, len(cells))
    return pool


@cache
def _assign() -> Any:
    """`assign(key, ts, edges, keys, table, of, out)`: number the cells; returns how many there are."""

    def assign(key: Any, ts: Any, edges: Any, keys: Any, table: Any, of: Any, out: Any) -> Any:
        found, at = 0, 0
        lo, hi = 0, -1  # of the event before: an empty stretch
        for i in range(len(ts)):
            t = ts[i]
            if t < lo or t >= hi:
                a, b = 0, len(edges)
                if lo <= hi and t >= hi and at + 1 < len(edges) and t < edges[at + 1]:
                    a = b = at + 1  # the next one, as a rule
                while a < b:
                    middle = (a + b) >> 1
                    if edges[middle] <= t:
                        a = middle + 1
                    else:
                        b = middle
                at = a
                lo = edges[at - 1] if at > 0 else edges_of.LONG_AGO
                hi = edges[at] if at < len(edges) else edges_of.NEVER
            place = unsigned(at * keys + key[i])
            cell = table[place]
            if cell < 0:
                cell = found
                table[place] = cell
                out[0, cell], out[1, cell], out[2, cell], out[3, cell] = key[i], t, t, 1
                found += 1
            else:
                out[1, cell] = min(out[1, cell], t)
                out[2, cell] = max(out[2, cell], t)
                out[3, cell] += 1
            of[i] = cell
        return found

    return compiled(assign)


@cache
def _assign_hashed() -> Any:
    """The same where cells are hashed by key and edge."""

    def assign(key: Any, ts: Any, progressions: Any, table: Any, of: Any, out: Any, starts: Any) -> Any:
        found = 0
        lo, hi = 0, -1
        mask = len(table) - 1
        for i in range(len(ts)):
            t, k = ts[i], key[i]
            if t < lo or t >= hi:
                lo, hi = last_edge(progressions, t), next_edge(progressions, t)
            mixed = (k * 0x9E3779B97F4A7C1 + lo) * 0x2545F4914F6CDD1D
            at = (mixed ^ (mixed >> 32)) & mask
            cell = table[unsigned(at)]
            while cell >= 0 and (out[0, cell] != k or starts[cell] != lo):
                at = (at + 1) & mask
                cell = table[unsigned(at)]
            if cell < 0:
                cell = found
                table[unsigned(at)] = cell
                starts[cell] = lo
                out[0, cell], out[1, cell], out[2, cell], out[3, cell] = k, t, t, 1
                found += 1
            else:
                out[1, cell] = min(out[1, cell], t)
                out[2, cell] = max(out[2, cell], t)
                out[3, cell] += 1
            of[i] = cell
        return found

    return compiled(assign)


def _fold_kernel(m: Monoid) -> Any:
    combine, identity, lift = m.combine, m.identity, m.lift
    load, store = accessors(m.fields)
    load_event, _ = accessors(tuple(evaluation.value_field(t) for t in m.inputs))

    def fold(events: Any, of: Any, pool: Any, cells: Any) -> Any:
        for c in range(cells):
            store(pool, c, identity())
        if len(events[1]) > 0:
            for i in range(events[2]):
                if events[1][unsigned(i)]:
                    cell = of[unsigned(i)]
                    store(pool, cell, combine(load(pool, cell), lift(*load_event(events[0], i))))
        else:
            for i in range(events[2]):
                cell = of[unsigned(i)]
                store(pool, cell, combine(load(pool, cell), lift(*load_event(events[0], i))))

    return fold
