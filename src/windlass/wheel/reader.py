"""The reader wheel: what is complete, rolled up level by level (µWheel 3.4.1, Algorithm 2).

    seconds   … 57 58 59 │ 00 01 02 03        total t = 00 ⊕ 01 ⊕ 02 ⊕ 03
                   ▼ 60 of them: a rotation
    minutes   …    41    │                    total t = all minutes since the hour began

Idea. Each level sums up its current rotation. When the rotation is full, the sum becomes a slot of the level above
and the next rotation begins. The sums are also what a landmark aggregation needs: t of all levels together are all
that ever came.

The paper ticks second by second. Here a level is rolled up for all its new slots at once, in straight loops over
rows. A quiet time of `CUT` ticks or more is not stored: `skip` passes over it, flushes the totals whose rotation ends
in it, and the gap is noted.

Costs in ⊕: one for each new slot of each level, and one more for levels with prefixes; a gap costs at most one a level.
"""

from __future__ import annotations

from typing import Any

from windlass.aggregates.evaluation import Function
from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors
from windlass.wheel.slots import (
    COUNT,
    DONE,
    HEAD,
    LEVELS,
    NEXT,
    OFFSET,
    PREFIXED,
    ROTATION,
    SHIFT,
    SIZE,
    STRIDE,
    WATERMARK,
    WIDTH,
    any_set,
    is_set,
    set_bit,
)

CUT = 4096  # ticks: a shorter quiet time is stored, as passing over one takes as long as many thousand slots


def end_row(header: Any, l: Any) -> Any:
    """The row behind the last slot of a level."""
    at = HEAD + l * STRIDE
    return header[at + OFFSET] + header[at + COUNT] - header[at + SHIFT]


def summing(m: Monoid) -> tuple[Function, Function]:
    """`add_up(state, l, first, last)`: rows of level l into its total. `flush(state, l)`: the rotation of level l is
    full, its total becomes the next slot of the level above."""
    combine, identity = m.combine, m.identity
    load, store = accessors(m.fields)

    def add_up(state: Any, l: Any, first: Any, last: Any) -> Any:
        columns, prefix, bits, header, gaps, totals, some = state
        width = header[WIDTH]
        for key in range(width):
            total = l * width + key
            acc = load(totals, total)
            if width == 1:  # straight through memory
                for cell in range(first, last):
                    acc = combine(acc, load(columns, cell))
                some[total] = some[total] or any_set(bits, first, last)
            else:
                for cell in range(first * width + key, last * width + key, width):
                    acc = combine(acc, load(columns, cell))
                cell = first * width + key
                while not some[total] and cell < last * width:
                    some[total] = is_set(bits, cell)
                    cell += width
            store(totals, total, acc)

    def flush(state: Any, l: Any) -> Any:
        columns, prefix, bits, header, gaps, totals, some = state
        width, row = header[WIDTH], end_row(header, l + 1)
        for key in range(width):
            total = l * width + key
            store(columns, row * width + key, load(totals, total))
            if some[total]:
                set_bit(bits, row * width + key)
            store(totals, total, identity())
            some[total] = False
        above = HEAD + (l + 1) * STRIDE
        header[above + COUNT] += 1
        header[above + NEXT] += 1

    return add_up, flush


def roll_up_kernel(m: Monoid) -> Function:
    """All levels up to the watermark; the rows of the lowest are there, and no gap is among the new ones."""
    combine = m.combine
    load, store = accessors(m.fields)
    add_up, flush = summing(m)

    def roll_up(state: Any) -> Any:
        columns, prefix, bits, header, gaps, totals, some = state
        width, levels = header[WIDTH], header[LEVELS]
        for l in range(levels):
            at = HEAD + l * STRIDE
            n, end = header[at + DONE], header[at + NEXT]
            while n < end:
                stop = end
                if l + 1 < levels:
                    stop = min(end, (n // header[at + ROTATION] + 1) * header[at + ROTATION])
                row = end_row(header, l) - (end - n)
                add_up(state, l, row, row + stop - n)
                n = stop
                if l + 1 < levels and n % header[at + ROTATION] == 0:
                    flush(state, l)
            header[at + DONE] = end
            if header[at + PREFIXED] >= 0:
                i = header[at + PREFIXED]
                first = header[at + OFFSET] + i - header[at + SHIFT]
                for cell in range(first * width, end_row(header, l) * width):
                    x = load(columns, cell)
                    store(
                        prefix,
                        cell,
                        combine(load(prefix, cell - width), x) if cell >= (first + (i == 0)) * width else x,
                    )
                header[at + PREFIXED] = header[at + COUNT]

    return roll_up


def skip_kernel(m: Monoid) -> Function:
    """The watermark moves over a quiet time, of which nothing is stored; all levels are rolled up."""
    add_up, flush = summing(m)

    def skip(state: Any, to: Any) -> Any:
        header = state[3]
        for l in range(header[LEVELS]):
            at = HEAD + l * STRIDE
            n, end = header[at + NEXT], to // header[at + SIZE]
            if l > 0 and end > n and n * header[at + SIZE] < header[WATERMARK]:  # the slot that has begun is complete
                flush(state, l - 1)
                add_up(state, l, end_row(header, l) - 1, end_row(header, l))
            header[at + NEXT] = header[at + DONE] = end
        header[WATERMARK] = to

    return skip
