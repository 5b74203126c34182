"""What was emitted and may still have to be corrected: the windows that are complete and not closed.

A row remembers a window's bounds, the first and the last of its events and how many they were, its partials, and the
number of the last row that came out for it. When late events have changed a key, its windows are found anew and
compared:

    the same window, the same events      nothing comes out
    the same window, other events         comes out again
    a window that is not here yet         comes out for the first time (or again, if it was retracted before)
    one that is here and no longer found  comes out as a retraction, with its last values

Bounds and ordinal identify a window. The ordinal counts the earlier windows with the same bounds; it is always 0 unless
the window type declares `has_ordinals`. Two kinds of rows are kept for the sake of other windows:

    RETRACTED   the window may come back, and its revisions then continue
    CLOSED      a later window may have the same bounds, and this one keeps its ordinal
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from windlass.aggregates.monoid import Columns, Monoid
from windlass.operator.lift import Lift, identities
from windlass.stateful import Stateful

Array = np.ndarray[Any, Any]

FINDING, KEY, LOW, HIGH, START, END, BEGIN, OLDEST, YOUNGEST, EVENTS, NEXT, STATE, ORDINAL, ORDER = range(14)
PLACES = 4  # words of ORDER, by which the windows of a key close
WIDTH = ORDER + PLACES
IDENTITY = [FINDING, KEY, LOW, HIGH, ORDINAL]

RETRACTED, VALID, CLOSED = range(3)


@dataclass
class Rows(Stateful):
    """Result rows: windows as they come out, with partials by lift."""

    finding: Array
    key: Array
    low: Array
    high: Array  # of windows with ordinals: the ordinal, as their bounds are `start` and `end`
    start: Array
    end: Array
    revision: Array
    retraction: Array
    partials: list[Columns]

    def __len__(self) -> int:
        return len(self.key)

    @classmethod
    def of(
        cls, table: Array, partials: Sequence[Columns], retraction: bool = False, has_ordinals: Array | None = None
    ) -> Rows:
        high = table[:, HIGH]
        if has_ordinals is not None and has_ordinals.any():
            high = np.where(has_ordinals[table[:, FINDING]], table[:, ORDINAL], high)
        return cls(
            table[:, FINDING],
            table[:, KEY],
            table[:, LOW],
            high,
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

    def joined(self, lifts: Sequence[Lift]) -> Rows:
        """The same rows with partials for more lifts. These are identities: no event of a row was lifted by them."""
        return replace(self, partials=self.partials + [identities(lift.monoid, len(self)) for lift in lifts])

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


class Emitted(Stateful):
    """The log of correctable windows. `has_ordinals`: mask of the findings whose windows have ordinals."""

    def __init__(self, monoids: Sequence[Monoid], has_ordinals: Array | None = None) -> None:
        self.has_ordinals = has_ordinals
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
        if self.has_ordinals is not None and self.has_ordinals.any():
            self._count(found, self.has_ordinals, of_again)
        state = self.table[:, STATE]
        old = np.flatnonzero((of_again & (state == VALID)) | (state == RETRACTED))
        if not len(old):
            self._append(found, partials)
            return Rows.of(found.copy(), partials, has_ordinals=self.has_ordinals)
        was, now = match(self.table[old], found)
        was = old[was]
        same = (self.table[was][:, [OLDEST, YOUNGEST, EVENTS]] == found[now][:, [OLDEST, YOUNGEST, EVENTS]]).all(axis=1)
        same &= state[was] == VALID
        found[now, NEXT] = self.table[was, NEXT] + 1
        silent = now[same]
        found[silent, NEXT] -= 1
        comes_out = np.ones(len(found), np.bool_)
        comes_out[silent] = False
        gone = np.setdiff1d(old[state[old] == VALID], was)
        retracted = self.table[gone]
        retracted[:, NEXT] += 1
        rows = [
            Rows.of(retracted, [take(c, gone) for c in self.partials], True, self.has_ordinals),
            Rows.of(
                found[comes_out],
                [take(c, np.flatnonzero(comes_out)) for c in partials],
                has_ordinals=self.has_ordinals,
            ),
        ]
        self.table[gone, NEXT] += 1
        self.table[gone, STATE] = RETRACTED
        keep = np.ones(len(self.table), np.bool_)
        keep[was] = False
        self._keep(keep)
        self._append(found, partials)
        return Rows.concat(rows)

    def _count(self, found: Array, has_ordinals: Array, of_again: Array) -> None:
        """Assign ordinals to the windows found. Windows in the log that stay come first."""
        mine = np.flatnonzero(has_ordinals[found[:, FINDING]])
        if not len(mine):
            return
        state = self.table[:, STATE]
        stay = (state == CLOSED) | ((state == VALID) & ~of_again)
        stay &= self.table[:, HIGH] >= found[mine, HIGH].min()
        there = self.table[stay]
        both = np.concatenate([there, found[mine]])
        is_found = np.arange(len(both)) >= len(there)
        order = np.lexsort((*both[:, ORDER:].T[::-1], is_found, *both[:, IDENTITY[:-1]].T[::-1]))
        ordered = both[order][:, IDENTITY[:-1]]
        fresh = np.concatenate([[True], (ordered[1:] != ordered[:-1]).any(axis=1)])
        at = np.arange(len(both))
        ordinal = np.empty(len(both), np.int64)
        ordinal[order] = at - np.maximum.accumulate(np.where(fresh, at, 0))
        found[mine, ORDINAL] = ordinal[len(there) :]

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
    """Row numbers, in `old` and in `new`, of windows that are in both."""
    if not len(old) or not len(new):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    both = np.concatenate([old[:, IDENTITY], new[:, IDENTITY]])
    order = np.lexsort(both.T[::-1])
    ordered = both[order]
    equal = np.flatnonzero((ordered[1:] == ordered[:-1]).all(axis=1))
    return order[equal], order[equal + 1] - len(old)  # lexsort is stable: the old one comes first


def take(columns: Columns, rows: Array) -> Columns:
    return tuple(column[rows] for column in columns)


def join(parts: Sequence[Columns]) -> Columns:
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))
