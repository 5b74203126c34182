"""The writer wheel: events into the slots ahead of the watermark (µWheel 3.3, Algorithm 1).

    lowest level     … s₁₂ s₁₃ ┆ s₁₄  s₁₅  ·  s₁₇  · …  ┆
                               └ watermark              └ + write_ahead: events behind go to the overflow wheel

Idea. A slot that can still change is found by its tick. If it is empty the event is lifted into it, else combined; an
event below the watermark is late, and reported. As the watermark passes, slots are frozen; entries of the overflow
wheel that have come near enough are poured into the write-ahead slots.

Departure. In the paper the write-ahead wheel is a ring of its own, and ticking moves each of its slots to the reader.
Here the write-ahead slots are those behind the head of the lowest level, where the reader will look for them:
freezing a slot moves nothing. Hence the capacity may be any number, `freeze` is free, and a run of events of one tick
is combined in registers and stored once.

`ingest` may carry the watermark along: after every so many events it moves to the latest time seen, less a delay.
Roll-ups and windows wait until the call ends; nobody can tell the difference.

Costs: one lift an event, one ⊕ unless the slot was empty. Advancing n ticks writes the identity into those of n slots
that are empty."""

from __future__ import annotations

from typing import Any

from windlass.aggregates.evaluation import Function, lifted
from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors, chooser
from windlass.wheel.overflow import WAITING, claim, earliest, release, schedule, take
from windlass.wheel.reader import CUT
from windlass.wheel.slots import (
    AHEAD,
    CAPACITY,
    COUNT,
    FIRST,
    HEAD,
    NEXT,
    OFFSET,
    SHIFT,
    START,
    WATERMARK,
    WIDTH,
    any_set,
    is_set,
    set_bit,
)
from windlass.wheel.ticks import divided

# What `ingest` is told and what it tells, in `pace`.
TICK, EVERY, DELAY, SEEN, SINCE, LATE, TARGET = range(7)
PACE = 7


def head_row(header: Any) -> Any:
    """The row of the slot at the watermark: the first that can change."""
    return header[HEAD + OFFSET] + header[HEAD + COUNT] - header[HEAD + SHIFT]


def freezing(m: Monoid) -> tuple[Function, Function]:
    """`freeze(columns, bits, header, to)`: the watermark moves, `pour(…)`: entries that have come near enough."""
    combine, identity = m.combine, m.identity
    load, store = accessors(m.fields)
    choose = chooser(m.fields)

    def freeze(columns: Any, bits: Any, header: Any, to: Any) -> Any:
        width = header[WIDTH]
        first = head_row(header) * width
        last = first + (to - header[WATERMARK]) * width
        cell = first
        while cell < last:
            until, byte = cell + 1, 1  # not all of a byte: as if some had been set
            if cell & 7 == 0 and cell + 8 <= last:
                until, byte = cell + 8, bits[cell >> 3]
            if byte == 0:
                for i in range(cell, until):
                    store(columns, i, identity())
            elif byte != 255:
                for i in range(cell, until):  # moves and no branch, which would be guessed wrong
                    store(columns, i, choose(is_set(bits, i), load(columns, i), identity()))
            cell = until
        header[HEAD + COUNT] += to - header[WATERMARK]
        header[HEAD + NEXT] = to
        header[WATERMARK] = to

    def pour(columns: Any, bits: Any, header: Any, wheel: Any, partials: Any) -> Any:
        width = header[WIDTH]
        slot, begin = earliest(wheel)
        while slot >= 0 and begin + header[START] < header[WATERMARK] + header[AHEAD]:
            entry = take(wheel, slot, begin)
            while entry >= 0:
                following = wheel[2][entry]
                tick = wheel[3][entry] + header[START]
                if tick < header[WATERMARK] + header[AHEAD]:
                    cell = (head_row(header) + tick - header[WATERMARK]) * width + wheel[4][entry]
                    x = load(partials, entry)
                    if is_set(bits, cell):
                        store(columns, cell, combine(load(columns, cell), x))
                    else:
                        store(columns, cell, x)
                        set_bit(bits, cell)
                    release(wheel, entry)
                else:
                    schedule(wheel, entry)
                entry = following
            slot, begin = earliest(wheel)

    return freeze, pour


def moving(m: Monoid) -> Function:
    """`move(state, to, wheel, partials)`: the watermark moves towards `to`, no further than where a quiet time begins
    that should be left out. Gives where it is."""
    freeze, pour = freezing(m)

    def move(state: Any, to: Any, wheel: Any, partials: Any) -> Any:
        columns, prefix, bits, header, gaps, totals, some = state
        ahead, width = header[AHEAD], header[WIDTH]
        quiet = max(CUT, ahead)
        while header[WATERMARK] < to:
            watermark = header[WATERMARK]
            step, until, waiting = to - watermark, to, wheel[0][WAITING] > 0
            if waiting:  # what waits must not be passed by
                step = min(step, ahead)
                until = min(earliest(wheel)[1] + header[START], to)
            if until - watermark >= quiet:
                row = head_row(header) * width
                if not any_set(bits, row, row + ahead * width):
                    break
            freeze(columns, bits, header, watermark + step)
            if waiting:
                pour(columns, bits, header, wheel, partials)
        return header[WATERMARK]

    return move


def advance_kernel(m: Monoid) -> Function:
    """`move`, with what has come near enough poured in before."""
    _, pour = freezing(m)
    move = moving(m)

    def advance(state: Any, to: Any, wheel: Any, partials: Any) -> Any:
        pour(state[0], state[2], state[3], wheel, partials)
        return move(state, to, wheel, partials)

    return advance


def ingest_kernel(m: Monoid, keyed: bool) -> Function:
    """Insert events i, i + 1, …; gives the first that was not, where the overflow wheel or the rows are full, or time
    would pass over a quiet time to leave out (`pace[TARGET]`)."""
    combine, identity, lift_at = m.combine, m.identity, lifted(m)
    load, store = accessors(m.fields)
    move = moving(m)

    def ingest(
        state: Any, events: Any, times: Any, keys: Any, i: Any, pace: Any, late: Any, wheel: Any, partials: Any
    ) -> Any:
        columns, prefix, bits, header, gaps, totals, some = state
        valid, n = events[1], events[2]
        tick_size, every, ahead, width = pace[TICK], pace[EVERY], header[AHEAD], header[WIDTH]
        watermark, row, seen, since, first = header[WATERMARK], head_row(header), pace[SEEN], pace[SINCE], header[FIRST]
        opening = watermark * tick_size
        low, high, cell, key, acc = 0, 0, -1, 0, identity()  # the slot at hand: its times, its cell, its partial
        pace[TARGET] = watermark
        while True:
            if since == every and every > 0:
                to = divided(seen - pace[DELAY], tick_size)
                if to > watermark:
                    if cell >= 0:
                        store(columns, cell, acc)
                        set_bit(bits, cell)
                        low, high, cell = 0, 0, -1
                    end = header[HEAD + OFFSET] + header[HEAD + CAPACITY]
                    if row + (to - watermark) + ahead <= end:
                        watermark = move(state, to, wheel, partials)
                    if watermark < to:
                        pace[TARGET] = to
                        break
                    row, opening = head_row(header), watermark * tick_size
                since = 0
            if i == n:
                break
            t = times[i]
            if t >= high or t < low or (keyed and keys[i] != key):
                if t < opening:
                    late[pace[LATE]] = i
                    pace[LATE] += 1
                elif len(valid) == 0 or valid[i]:
                    tick = watermark + divided(t - opening, tick_size)
                    if tick - watermark < ahead:
                        if cell >= 0:
                            store(columns, cell, acc)
                            set_bit(bits, cell)
                        cell = row + tick - watermark
                        if keyed:
                            key = keys[i]
                            cell = cell * width + key
                        low = tick * tick_size
                        high = low + tick_size
                        first = min(first, tick)
                        acc = (
                            combine(load(columns, cell), lift_at(events, i))
                            if is_set(bits, cell)
                            else lift_at(events, i)
                        )
                    else:
                        entry = claim(wheel)
                        if entry < 0:
                            break
                        store(partials, entry, lift_at(events, i))
                        wheel[3][entry] = tick - header[START]
                        wheel[4][entry] = keys[i] if keyed else 0
                        schedule(wheel, entry)
                        first = min(first, tick)
            elif len(valid) == 0 or valid[i]:
                acc = combine(acc, lift_at(events, i))
            seen = max(seen, t)
            since += 1
            i += 1
        if cell >= 0:
            store(columns, cell, acc)
            set_bit(bits, cell)
        pace[SEEN], pace[SINCE], header[FIRST] = seen, since, first
        return i

    return ingest
