"""What was emitted and may still have to be corrected: the windows that are complete and not closed.

A row remembers a window's bounds, the first and the last of its events and how many they were, its partials, and the
number of the last row that came out for it. When late events have changed a key, its windows are found anew and
compared:

    the same window, the same events      nothing comes out
    the same window, other events         comes out again
    a window that is not here yet         comes out for the first time (or again, if it was retracted before)
    one that is here and no longer found  comes out as a retraction, with its last values
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from windlass.aggregates.monoid import Columns, Monoid
from windlass.operator.lift import Lift, identities

Array = np.ndarray[Any, Any]

FINDING, KEY, LOW, HIGH, START, END, BEGIN, OLDEST, YOUNGEST, EVENTS, NEXT, ALIVE, ORDER = range(13)
WIDTH = 15  # ORDER takes three: in what order windows of a key close


@dataclass
class Rows:
    """Result rows: windows as they come out, with partials by lift."""

    finding: Array
    key: Array
    low: Array
    high: Array
    start: Array
    end: Array
    revision: Array
    retraction: Array
    partials: list[Columns]

    def __len__(self) -> int:
        return len(self.key)

    @classmethod
    def of(cls, table: Array, partials: Sequence[Columns], retraction: bool = False) -> Rows:
        return cls(
            table[:, FINDING],
            table[:, KEY],
            table[:, LOW],
            table[:, HIGH],
            table[:, START],
            table[:, END],
            table[:, NEXT],
            np.full(len(table), retraction),
            list(partials),
        )

    @classmethod
    def concat(cls, parts: Sequence[Rows]) -> Rows:
        if len(parts) == 1:
            return parts[0]

        def joined(name: str) -> Array:
            return np.concatenate([getattr(part, name) for part in parts])

        return cls(
            joined("finding"),
            joined("key"),
            joined("low"),
            joined("high"),
            joined("start"),
            joined("end"),
            joined("revision"),
            joined("retraction"),
            [join(columns) for columns in zip(*(part.partials for part in parts), strict=True)],
        )

    def join(self, lifts: Sequence[Lift]) -> None:
        """There are more partials; these rows know nothing of them."""
        self.partials += [identities(lift.monoid, len(self)) for lift in lifts]

    def take(self, rows: Array) -> Rows:
        return Rows(
            self.finding[rows],
            self.key[rows],
            self.low[rows],
            self.high[rows],
            self.start[rows],
            self.end[rows],
            self.revision[rows],
            self.retraction[rows],
            [take(columns, rows) for columns in self.partials],
        )


class Emitted:
    """The log of correctable windows."""

    def __init__(self, monoids: Sequence[Monoid]) -> None:
        self.table = np.empty((0, WIDTH), np.int64)
        self.partials: list[Columns] = [m.allocate(0) for m in monoids]

    def __len__(self) -> int:
        return len(self.table)

    def emit(self, found: Array, partials: list[Columns], again: Array, finding: int | None = None) -> Rows:
        """Compare windows with the log and give the rows that have to come out. `again` says which keys were found
        anew: all of their windows (with `finding`, those of one) are in `found`, so what is missing there no longer
        exists."""
        of_again = again[self.table[:, KEY]] if len(self.table) else np.zeros(0, np.bool_)
        if finding is not None:
            of_again &= self.table[:, FINDING] == finding
        if not of_again.any():
            self._append(found, partials)
            return Rows.of(found.copy(), partials)
        old = np.flatnonzero(of_again)
        was, now = match(self.table[old], found)
        was = old[was]
        same = (self.table[was][:, [OLDEST, YOUNGEST, EVENTS]] == found[now][:, [OLDEST, YOUNGEST, EVENTS]]).all(axis=1)
        same &= self.table[was, ALIVE] == 1
        found[now, NEXT] = self.table[was, NEXT] + 1
        silent = now[same]
        found[silent, NEXT] -= 1
        comes_out = np.ones(len(found), np.bool_)
        comes_out[silent] = False
        gone = np.setdiff1d(old[self.table[old, ALIVE] == 1], was)
        retracted = self.table[gone]
        retracted[:, NEXT] += 1
        rows = [
            Rows.of(retracted, [take(c, gone) for c in self.partials], retraction=True),
            Rows.of(found[comes_out], [take(c, np.flatnonzero(comes_out)) for c in partials]),
        ]
        self.table[gone, NEXT] += 1
        self.table[gone, ALIVE] = 0
        keep = np.ones(len(self.table), np.bool_)
        keep[was] = False
        self._keep(keep)
        self._append(found, partials)
        return Rows.concat(rows)

    def join(self, lifts: Sequence[Lift]) -> None:
        """There are more partials from now on; windows that came out know nothing of them."""
        self.partials += [identities(lift.monoid, len(self)) for lift in lifts]

    def close(self, closed: Array) -> None:
        """Forget windows that can no longer be corrected."""
        if closed.any():
            self._keep(~closed)

    def forget(self, gone: Array) -> None:
        """Forget the windows of keys; a mask by key."""
        self.close(gone[self.table[:, KEY]])

    def renumber(self, kept: Array) -> None:
        """Key kept[i] is key i from now on; there are windows of these only."""
        self.table = self.table.copy()
        self.table[:, KEY] = np.searchsorted(kept, self.table[:, KEY])

    def _append(self, found: Array, partials: Sequence[Columns]) -> None:
        if len(found):
            self.table = np.concatenate([self.table, found]) if len(self.table) else found.copy()
            self.partials = [join([a, b]) for a, b in zip(self.partials, partials, strict=True)]

    def _keep(self, keep: Array) -> None:
        rows = np.flatnonzero(keep)
        self.table = self.table[rows]
        self.partials = [take(c, rows) for c in self.partials]


def match(old: Array, new: Array) -> tuple[Array, Array]:
    """Pairs of rows of the same finding, key and own bounds; several of the same bounds pair up in order."""
    if not len(old) or not len(new):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    a, b = _numbered(old), _numbered(new)
    both = np.concatenate([a, b])
    order = np.lexsort(both.T[::-1])
    ordered = both[order]
    equal = np.flatnonzero((ordered[1:] == ordered[:-1]).all(axis=1))
    return order[equal], order[equal + 1] - len(old)  # lexsort is stable: the old one comes first


def _numbered(rows: Array) -> Array:
    """What identifies each row, with a number among those of the same bounds."""
    identity = rows[:, [FINDING, KEY, LOW, HIGH]]
    order = np.lexsort((rows[:, EVENTS], rows[:, OLDEST], *identity.T[::-1]))
    ordered = identity[order]
    fresh = np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)])
    at = np.arange(len(rows))
    number = np.empty(len(rows), np.int64)
    number[order] = at - np.maximum.accumulate(np.where(fresh, at, 0))
    return np.column_stack([identity, number])


def take(columns: Columns, rows: Array) -> Columns:
    return tuple(column[rows] for column in columns)


def join(parts: Sequence[Columns]) -> Columns:
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))
