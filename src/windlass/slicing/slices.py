"""Slices: the rows that say what a slice is, one run of rows a key, all in one matrix.

A slice is a row of integers (Scotty 5.2): the edges START and END between which it lies, the times FIRST and LAST of
its earliest and latest event, the POSition of its first event in the key's order, the SLOT of its partials, when it
was BORN and last CHANGED (the number of the watermark), and the values of other measures at its first event.

A key's rows are contiguous and in order, so a window is a range of rows and its begin is found by bisection:

    directory   key → base, lo, hi, capacity          rows  …│  ·  s0 s1 s2 s3  ·  ·  ·│…
                                                             base  lo          hi      base + capacity

A run that is full slides down if that frees as many rows as it has, else it moves to a larger place; both are paid for
by the slices that came and went since. Slots are stable: rows move, partials do not.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from windlass.kernels import Field, compiled, prefetch, unsigned
from windlass.stateful import Stateful

START, END, FIRST, LAST, POS, SLOT, BORN, CHANGED = range(8)
BARRIER = POS  # of general slices, which have no position: sessions with a gap up to this do not reach the slice before
MEASURES = 8  # values of other measures at the slice's first event follow

BASE, LO, HI, CAPACITY, CLEAN = range(5)  # of a directory entry; CLEAN: the tree is right for rows before it
ENTRY = 8  # words: a line of the cache, and so is a row without other measures; of many keys, each is a miss

Integers = np.ndarray[Any, np.dtype[np.int64]]
_SMALLEST = 2
AHEAD = 32  # keys, for what is prefetched: of many, each one's slices lie elsewhere


class Slices(Stateful):
    """The slices of all keys, without their partials."""

    def __init__(self, measures: int = 0) -> None:
        self.directory: Integers = lines(0, ENTRY)
        self.rows: Integers = lines(0, MEASURES + measures)
        self.top = 0  # rows handed out
        self.free: Integers = np.empty(0, np.int64)  # slots that are not in use, as a stack
        self.free_count = 0
        self.slots = 0  # slots there are; partials need that much room

    def __len__(self) -> int:
        """Slices alive."""
        return self.slots - self.free_count

    def add_keys(self, keys: int) -> None:
        missing = keys - len(self.directory)
        if missing > 0:
            directory = lines(max(keys, 2 * len(self.directory)), ENTRY)  # as many as engines make room for
            directory[: len(self.directory)] = self.directory
            directory[len(self.directory) :] = 0
            self.directory = directory

    def reserve(self, keys: Integers, more: Integers) -> None:
        """Make room for `more[i]` slices of `keys[i]` each, and for as many slots."""
        if len(keys) == 0:
            return
        needed = int(_room()(self.directory, keys, more))
        if self.top + needed > len(self.rows):
            self.grow(needed)
        self.top = int(_make_room()(self.directory, self.rows, keys, more, self.top))
        self.reserve_slots(int(more.sum()))

    def reserve_slots(self, more: int) -> None:
        """Slots for so many more slices."""
        missing = more - self.free_count
        if missing > 0:
            grown = max(missing, self.slots, 64)
            free = np.empty(self.slots + grown, np.int64)
            free[:grown] = np.arange(self.slots + grown - 1, self.slots - 1, -1)  # the lowest on top
            free[grown : grown + self.free_count] = self.free[: self.free_count]
            self.free, self.free_count, self.slots = free, self.free_count + grown, self.slots + grown

    def grow(self, more: int) -> None:
        """Copy all rows to a larger matrix; run by run, if moving runs have left much room behind."""
        live = int((self.directory[:, CAPACITY]).sum())
        rows = lines(max(4 * (live + more), 64), self.rows.shape[1])  # untouched, they take no memory
        if self.top < live + live // 2 + more:
            rows[: self.top] = self.rows[: self.top]
            self.directory[:, CLEAN] = 0  # what an eager store keeps stays behind
        else:
            self.top = int(_move_runs()(self.directory, self.rows, rows))
        self.rows = rows

    def evict(self, upto: Integers) -> None:
        """Drop each key's rows below position-in-run `upto[key]` and give their slots back."""
        self.free_count = int(_evict()(self.directory, self.rows, upto, self.free, self.free_count))

    def clear(self, keys: Integers) -> None:
        """Drop all slices of these keys."""
        upto = self.directory[:, LO].copy()
        upto[keys] = self.directory[keys, HI]
        self.evict(upto)

    def renumber(self, kept: Integers) -> Integers:
        """Keep the slices of these keys only, which are numbered in this order from now on, without the room that
        others have left. Runs keep their places for trees. Returns the slots of old that are now 0, 1, 2, …"""
        directory = lines(len(kept), ENTRY)
        directory[:] = self.directory[kept]
        lo, capacity = directory[:, LO], directory[:, CAPACITY]
        sizes = directory[:, HI] - lo
        n = int(sizes.sum())
        base = np.cumsum(capacity) - capacity
        within = np.arange(n) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # its run
        live = self.rows[within + np.repeat(directory[:, BASE] + lo, sizes)]
        slots: Integers = live[:, SLOT].copy()
        live[:, SLOT] = np.arange(n)
        self.top = int(capacity.sum())
        self.rows = lines(self.top, self.rows.shape[1])
        self.rows[within + np.repeat(base + lo, sizes)] = live
        directory[:, BASE], directory[:, CLEAN] = base, 0  # trees stay behind
        self.directory = directory
        self.slots, self.free, self.free_count = n, np.empty(n, np.int64), 0
        return slots

    @property
    def nbytes(self) -> int:
        """What the slices take, without partials: rows in use and the directory."""
        live = int((self.directory[:, HI] - self.directory[:, LO]).sum())
        return int(live * self.rows.shape[1] * 8 + self.directory.nbytes)


def lines(rows: int, words: int) -> Integers:
    """A matrix that begins with a line of the cache, not initialised."""
    return Field("", np.dtype(np.int64), (words,)).allocate(rows)


def position(values: Any, lo: Any, hi: Any, value: Any) -> Any:
    """The first of lo:hi where the values, which ascend, are at least value; else hi."""
    while lo < hi:
        middle = (lo + hi) >> 1
        if values[unsigned(middle)] < value:
            lo = middle + 1
        else:
            hi = middle
    return lo


_NEAR = 2


def position_on(values: Any, lo: Any, hi: Any, value: Any) -> Any:
    """As `position`, but look first at the next few values, then where the value would be if they were spread evenly,
    and around there in steps that double. Busy streams are spread evenly enough for a few steps, and any others still
    take O(log n)."""
    near = min(hi, lo + _NEAR)
    while lo < near:
        if values[unsigned(lo)] >= value:
            return lo
        lo += 1
    if hi - lo < 16:
        return position(values, lo, hi, value)
    low, high = values[unsigned(lo)], values[unsigned(hi - 1)]
    if value <= low:
        return lo
    if value > high:
        return hi
    guess = min(hi - 1, lo + int((value - low) * (float(hi - 1 - lo) / (high - low))))
    step = 1
    if values[unsigned(guess)] < value:
        while guess + step < hi and values[unsigned(guess + step)] < value:
            guess += step
            step *= 2
        return position(values, guess + 1, min(hi, guess + step + 1), value)
    while guess - step >= lo and values[unsigned(guess - step)] >= value:
        guess -= step
        step *= 2
    return position(values, max(lo, guess - step), guess, value)


NOT_LAID = -1


def lay(values: Any, lo: Any, hi: Any, index: Any) -> Any:
    """Lay out lo:hi by what the values range over, for many that are looked for: index[i] becomes the first in the i-th
    of equal stretches, counted from lo. Returns the logarithm of a stretch's length, which `look` needs."""
    least, range_, stretch = values[lo], values[hi - 1] - values[lo], 0
    while range_ >> stretch > len(index) - 2:
        stretch += 1
    used = (range_ >> stretch) + 2
    index[:used] = 0
    for r in range(lo, hi):  # counted and added up, there is no branch that nobody could foresee
        index[unsigned(((values[unsigned(r)] - least) >> stretch) + 1)] += 1
    for i in range(1, used):
        index[unsigned(i)] += index[unsigned(i - 1)]
    return stretch


def look(values: Any, lo: Any, at: Any, hi: Any, value: Any, index: Any, stretch: Any) -> Any:
    """As `position_on` of at:hi, in lo:hi as they were laid out, if they were."""
    if stretch == NOT_LAID:
        return position_on(values, at, hi, value)
    if at == hi or value <= values[unsigned(at)]:
        return at
    if value > values[unsigned(hi - 1)]:
        return hi
    i = (value - values[unsigned(lo)]) >> stretch
    r, stop = lo + index[unsigned(i)], lo + index[unsigned(i + 1)]
    if stop - r > 8:
        return position_on(values, max(r, at), stop, value)
    while values[unsigned(r)] < value:
        r += 1
    return r


def find(rows: Any, field: Any, lo: Any, hi: Any, value: Any) -> Any:
    """The first of the rows lo:hi whose field is at least value, else hi."""
    return position(rows[:, field], lo, hi, value)


def _power_of_two(n: Any) -> Any:
    size = _SMALLEST
    while size < n:
        size *= 2
    return size


def _fits(entry: Any, more: Any) -> Any:
    """Whether a run has room for more rows: behind its last, or once it has slid down over what is free in front. Each
    row that moves is paid for by one that was dropped."""
    size = entry[HI] - entry[LO]
    return entry[HI] + more <= entry[CAPACITY] or (entry[LO] >= size and size + more <= entry[CAPACITY])


@cache
def _room() -> Any:
    def room(directory: Any, keys: Any, more: Any) -> Any:
        total = 0
        for i in range(len(keys)):
            if i + AHEAD < len(keys):
                prefetch(directory, keys[i + AHEAD])
            entry = directory[keys[i]]
            if not _fits(entry, more[i]):
                total += _power_of_two(entry[HI] - entry[LO] + more[i])
        return total

    return compiled(room)


def make_room(entry: Any, more: Any, rows: Any, top: Any) -> Any:
    """Slide a full run down, or move it to the top of the rows. Returns the new top; if rows are too few, -top - 1, and
    nothing has changed."""
    target, size, capacity = entry[BASE], entry[HI] - entry[LO], entry[CAPACITY]
    if not _fits(entry, more):
        target, capacity = top, _power_of_two(size + more)
        if top + capacity > len(rows):
            return -top - 1
        top += capacity
    source = entry[BASE] + entry[LO]
    for j in range(size):
        for field in range(rows.shape[1]):
            rows[target + j, field] = rows[source + j, field]
    entry[BASE], entry[LO], entry[HI], entry[CAPACITY], entry[CLEAN] = target, 0, size, capacity, 0
    return top


@cache
def _make_room() -> Any:
    def make_room_for(directory: Any, rows: Any, keys: Any, more: Any, top: Any) -> Any:
        for i in range(len(keys)):
            entry = directory[keys[i]]
            if entry[HI] + more[i] > entry[CAPACITY]:
                top = make_room(entry, more[i], rows, top)
        return top

    return compiled(make_room_for)


@cache
def _move_runs() -> Any:
    def move_runs(directory: Any, rows: Any, moved: Any) -> Any:
        top = 0
        for k in range(len(directory)):
            entry = directory[k]
            for j in range(entry[LO], entry[HI]):
                for field in range(rows.shape[1]):
                    moved[top + j, field] = rows[entry[BASE] + j, field]
            entry[BASE] = top
            entry[CLEAN] = 0
            top += entry[CAPACITY]
        return top

    return compiled(move_runs)


@cache
def _evict() -> Any:
    def evict(directory: Any, rows: Any, upto: Any, free: Any, count: Any) -> Any:
        for k in range(len(directory)):
            entry = directory[k]
            for j in range(entry[BASE] + entry[LO], entry[BASE] + upto[k]):
                free[unsigned(count)] = rows[unsigned(j), SLOT]
                count += 1
            entry[LO] = max(entry[LO], upto[k])
            if entry[LO] == entry[HI] and entry[LO] > 0:
                entry[LO] = entry[HI] = entry[CLEAN] = 0
        return count

    return compiled(evict)
