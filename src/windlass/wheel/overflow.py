"""The overflow wheel: events too far ahead for the write-ahead slots, in a hierarchical timing wheel (µWheel 3.3;
Varghese, Lauck 1987).

Idea. An entry waits at the level of the highest digit (5 bits) in which its tick differs from `now`, in the slot of
that digit. As time reaches the slot, its entries go to lower levels, and at level 0 they are due. A mark for each
slot that is not empty finds the next one in a few instructions, so passing over years costs nothing.

State: `now` = 00:02:07, entries for ticks 00:02:09, 00:02:31 and 00:17:00 (digits here of base 32):

    level 0    │ · · · · · · · · · 9 · …           the same 32 ticks as now
    level 1    │ · · · ·(31)· · · …                the same 1024 ticks
                                                   each slot a list: heads[slot] → links → … → -1

Invariants
1. No entry is before `now`, and the digits above its level are those of `now`.
2. marks[level] has the bit of each slot whose list is not empty.

Costs: an insert is O(1); an entry moves down at most once a level. Ticks are counted from the start of the wheel, so
none is negative.

An entry is an event that has been lifted: its partial, its tick and its key.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windlass.aggregates.monoid import Columns, Monoid
from windlass.kernels import highest_bit, lowest_bit

DIGIT, LEVELS = 5, 13
SLOTS = 1 << DIGIT
WAITING, FREE, NOW, MARKS = 0, 1, 2, 3  # in `clock`: entries that wait, the first free one, the time, then marks
NO_EARLIER = 2**62

Array = np.ndarray[Any, Any]


def level_of(tick: Any, now: Any) -> Any:
    """The level of the highest digit that differs. Apart from `schedule`, because numba drops stores into arrays out
    of a tuple from a function into which it inlines `highest_bit`."""
    differs = tick ^ now
    return highest_bit(differs) // DIGIT if differs > 0 else 0


def schedule(wheel: Any, entry: Any) -> Any:
    """Put an entry into the slot of its tick."""
    clock, heads, links, ticks, keys = wheel
    tick = ticks[entry]
    level = level_of(tick, clock[NOW])
    digit = (tick >> (DIGIT * level)) & (SLOTS - 1)
    slot = level * SLOTS + digit
    links[entry] = heads[slot]
    heads[slot] = entry
    clock[MARKS + level] |= 1 << digit


def earliest(wheel: Any) -> Any:
    """The first slot that is not empty, and the tick at which it begins."""
    clock = wheel[0]
    for level in range(LEVELS):
        marks = clock[MARKS + level]
        if marks != 0:
            digit = lowest_bit(marks)
            above = DIGIT * (level + 1)
            return level * SLOTS + digit, ((clock[NOW] >> above) << above) | (digit << (DIGIT * level))
    return -1, NO_EARLIER


def take(wheel: Any, slot: Any, begin: Any) -> Any:
    """Empty a slot: time has come to its begin. Gives the first entry of its list."""
    clock, heads, links, ticks, keys = wheel
    entry = heads[slot]
    heads[slot] = -1
    clock[MARKS + slot // SLOTS] &= ~(1 << (slot % SLOTS))
    clock[NOW] = begin
    return entry


def claim(wheel: Any) -> Any:
    """A free entry; -1 if there is none."""
    clock, heads, links, ticks, keys = wheel
    entry = clock[FREE]
    if entry >= 0:
        clock[FREE] = links[entry]
        clock[WAITING] += 1
    return entry


def release(wheel: Any, entry: Any) -> Any:
    clock, heads, links, ticks, keys = wheel
    links[entry] = clock[FREE]
    clock[FREE] = entry
    clock[WAITING] -= 1


class Overflow:
    """The arrays of an overflow wheel, which doubles when it is full."""

    def __init__(self, monoid: Monoid) -> None:
        self.monoid = monoid
        self.clock = np.zeros(MARKS + LEVELS, np.int64)
        self.clock[FREE] = -1
        self.heads = np.full(LEVELS * SLOTS, -1, np.int64)
        self.links = self.ticks = self.keys = np.zeros(0, np.int64)
        self.partials: Columns = monoid.allocate(0)

    def __len__(self) -> int:
        return int(self.clock[WAITING])

    @property
    def wheel(self) -> tuple[Array, ...]:
        return self.clock, self.heads, self.links, self.ticks, self.keys

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (*self.wheel, *self.partials))

    def grow(self) -> None:
        old = len(self.links)
        size = max(64, 2 * old)
        self.links, self.ticks, self.keys = (_longer(a, size) for a in (self.links, self.ticks, self.keys))
        partials = self.monoid.allocate(size)
        for new, column in zip(partials, self.partials, strict=True):
            new[:old] = column
        self.partials = partials
        self.links[old:] = np.arange(old + 1, size + 1)
        self.links[size - 1] = self.clock[FREE]
        self.clock[FREE] = old

    def waiting(self) -> Array:
        """The entries that wait, in no order."""
        found: list[int] = []
        for head in self.heads[self.heads >= 0].tolist():
            while head >= 0:
                found.append(head)
                head = int(self.links[head])
        return np.array(found, np.int64)

    def check_invariants(self) -> None:
        now = int(self.clock[NOW])
        seen = 0
        for slot, head in enumerate(self.heads.tolist()):
            level, digit = divmod(slot, SLOTS)
            assert (head >= 0) == bool(self.clock[MARKS + level] >> digit & 1), "2: marks"
            while head >= 0:
                tick, above = int(self.ticks[head]), DIGIT * (level + 1)
                assert tick >= now and tick >> above == now >> above, "1: digits above"
                assert tick >> (DIGIT * level) & (SLOTS - 1) == digit, "1: digit"
                seen, head = seen + 1, int(self.links[head])
        assert seen == len(self), "entries that wait"


def _longer(array: Array, size: int) -> Array:
    longer = np.zeros(size, np.int64)
    longer[: len(array)] = array
    return longer
