"""Slices and their partials as records, and back: without the room between them, partials in the order of slices.

Where a run begins and how much room it has is kept, because what is combined in advance lies by these places: sums of
floats are the same to the last bit. A run that has shrunk to a small part of its room is given less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from windlass.aggregates.monoid import Columns
from windlass.formats.operator import MOST_ROOM
from windlass.operator.lift import Lift
from windlass.slicing.slices import (
    BARRIER,
    BASE,
    BORN,
    CAPACITY,
    CHANGED,
    END,
    ENTRY,
    FIRST,
    HI,
    LAST,
    LO,
    MEASURES,
    POS,
    SLOT,
    START,
    Slices,
    lines,
)

__all__ = ["cutty_record", "fill_cutty", "fill_general", "general_record"]

Array = np.ndarray[Any, Any]
Record = dict[str, Any]
Write = Callable[[Sequence[Columns]], list[list[Array]]]
Read = Callable[[Sequence[Sequence[Array]], int], list[Columns]]

_CUTTY = {"first": FIRST, "position": POS}
_GENERAL = {
    "start": START,
    "end": END,
    "first": FIRST,
    "last": LAST,
    "born": BORN,
    "changed": CHANGED,
    "barrier": BARRIER,
}


def cutty_record(s: Slices, lifts: Sequence[Lift], keys: int, write: Write) -> Record:
    live = _live(s, keys)
    measures = np.ascontiguousarray(live[:, MEASURES:].T)
    return {
        **_runs(s, keys),
        **_words(live, _CUTTY),
        "measures": measures,
        "partials": _partials(s, lifts, live, write),
    }


def general_record(s: Slices, lifts: Sequence[Lift], keys: int, write: Write) -> Record:
    live = _live(s, keys)
    return {**_runs(s, keys), **_words(live, _GENERAL), "partials": _partials(s, lifts, live, write)}


def fill_cutty(s: Slices, lifts: Sequence[Lift], record: Record, keys: int, read: Read) -> None:
    at = _lay_out(s, record, keys)
    _fill_words(s, at, record, _CUTTY)
    if record["measures"].shape[0] != s.rows.shape[1] - MEASURES:
        raise ValueError("slices with another number of measures")
    s.rows[at, MEASURES:] = record["measures"].T
    _fill_partials(lifts, record, read)


def fill_general(s: Slices, lifts: Sequence[Lift], record: Record, keys: int, read: Read) -> None:
    at = _lay_out(s, record, keys)
    _fill_words(s, at, record, _GENERAL)
    _fill_partials(lifts, record, read)


# --------------------------------------------------------------------------- rows and runs


def _runs(s: Slices, keys: int) -> Record:
    directory = s.directory[:keys]
    place, capacity = directory[:, LO].copy(), directory[:, CAPACITY].copy()
    count = directory[:, HI] - place
    roomy = np.flatnonzero(capacity > MOST_ROOM * np.maximum(count, 1))
    place[roomy] = 0
    capacity[roomy] = [1 << int(n).bit_length() if n else 0 for n in count[roomy]]
    return {"place": place, "count": count, "capacity": capacity}


def _live(s: Slices, keys: int) -> Array:
    """The rows of slices, key by key."""
    directory = s.directory[:keys]
    sizes = directory[:, HI] - directory[:, LO]
    starts = np.cumsum(sizes) - sizes
    at = np.arange(int(sizes.sum())) + np.repeat(directory[:, BASE] + directory[:, LO] - starts, sizes)
    live: Array = s.rows[at]
    return live


def _words(live: Array, names: dict[str, int]) -> Record:
    return {name: np.ascontiguousarray(live[:, word]) for name, word in names.items()}


def _partials(s: Slices, lifts: Sequence[Lift], live: Array, write: Write) -> list[list[Array]]:
    slots = live[:, SLOT]
    for lift in lifts:
        lift.reserve(s)  # one that has run nothing yet has no room
    return write([() if lift.retired else tuple(column[slots] for column in lift.pool) for lift in lifts])


def _lay_out(s: Slices, record: Record, keys: int) -> Array:
    """Lay runs out one after the other, slots in the order of the slices. Returns the place of each slice's row."""
    place, count, capacity = record["place"], record["count"], record["capacity"]
    n = int(count.sum())
    base, starts = np.cumsum(capacity) - capacity, np.cumsum(count) - count
    s.top = int(capacity.sum())
    s.directory, s.rows = lines(keys, ENTRY), lines(s.top, s.rows.shape[1])
    s.directory[:] = 0  # no tree is right yet
    for word, values in ((BASE, base), (LO, place), (HI, place + count), (CAPACITY, capacity)):
        s.directory[:, word] = values
    at: Array = np.arange(n) + np.repeat(base + place - starts, count)
    s.rows[at, SLOT] = np.arange(n)
    s.slots, s.free, s.free_count = n, np.empty(n, np.int64), 0
    return at


def _fill_words(s: Slices, at: Array, record: Record, names: dict[str, int]) -> None:
    for name, word in names.items():
        s.rows[at, word] = record[name]


def _fill_partials(lifts: Sequence[Lift], record: Record, read: Read) -> None:
    for lift, columns in zip(lifts, read(record["partials"], len(record["first"])), strict=True):
        lift.pool = lift.monoid.allocate(0) if lift.retired else columns
        lift.nodes = lift.monoid.allocate(0)
