"""Plans for a range of time, and the optimiser that chooses among them (µWheel 3.4.3, 3.4.4, Figures 3 and 4).

    combined     the coarsest slots in the middle, finer ones at both ends          [10:15:23, 13:20:50)
                     seconds 37   minutes 44   hours 2   minutes 20   seconds 50    153 slots, 152 ⊕
    single       all slots of one level                                             11 127 seconds, 11 126 ⊕
    prefix       two prefixes of one level                                          at most one ⊖
    landmark     the totals of all levels                                           all time up to the watermark
    inverse      the landmark ⊖ what is before ⊖ what is after

The cost of a plan is its number of ⊕ and ⊖. It is known exactly, because the slots of a range are; slots that are not
stored (see `slots`) cost nothing. Without hints the cheapest plan is taken. With hints, which is how Figure 4 reads,
a single level is scanned if that takes at most `simd_threshold` ⊕, although a combined plan may need fewer: it runs
over contiguous memory.

A plan is a row of integers: kind, cost, whether there is an answer, and its pieces, each (operation, level, from, to)
in rows. `choose` never looks at a partial, so it is compiled once for all aggregates; `explain` runs the same
function in Python.

The combined plan takes, from the coarsest level on, all retained slots inside of the range, and goes on with the
finer levels in what is left at both ends. A slot replaces at least two of the level below, so no other cover has
fewer slots; and what is left over on the lowest level no cover could have."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from windlass.kernels import compiled
from windlass.wheel.slots import (
    BASE,
    FIRST,
    FROM,
    HEAD,
    LEVELS,
    OFFSET,
    PACKED,
    PREFIXED,
    ROTATION,
    SHIFT,
    SIZE,
    START,
    STRIDE,
    WATERMARK,
    place,
)
from windlass.wheel.ticks import divided

Array = np.ndarray[Any, Any]

NONE, PREFIX, LANDMARK, SINGLE, COMBINED, INVERSE = range(6)
KINDS = ("none", "prefix", "landmark", "single wheel", "combined", "inverse landmark")

# A plan: what it is, whether the range has events (or its pieces tell), how many pieces, and the pieces.
KIND, COST, KNOWN, PIECES, HEADING = range(5)
EMPTY, FULL, ASK = range(3)
ADD, SUBTRACT, LOOK, TOTALS, PREFIX_TO, MINUS_PREFIX = range(6)  # LOOK: only whether there are events
UNPACKED = 8  # added to ADD, SUBTRACT and LOOK: not rows but indices of slots that have to be unpacked

# What the optimiser is told.
HINTS, THRESHOLD, INVERTIBLE, KEYED, OPTIONS = range(5)

UNANSWERABLE = -1
MOST = 1 << 62  # as a limit: none
STRIP = 256  # plans that are made, and run, at once


def widest(levels: int) -> int:
    """The integers of the longest plan: an inverse landmark, made of three covers."""
    return HEADING + 4 * (3 * (levels * (levels + 3) // 2 + 2) + 2)


def write_piece(plan: Any, operation: Any, l: Any, first: Any, last: Any) -> Any:
    at = HEADING + 4 * plan[PIECES]
    plan[at], plan[at + 1], plan[at + 2], plan[at + 3] = operation, l, first, last
    plan[PIECES] += 1


def add_piece(header: Any, gaps: Any, plan: Any, operation: Any, l: Any, low: Any, high: Any) -> Any:
    """Slots low … high - 1 of a level; gives how many of them are stored."""
    at = HEAD + l * STRIDE
    first = last = 0
    for end in range(2):  # one call in the machine code, which is inlined
        i = place(header, gaps, l, high if end else low)
        first, last = (first, i) if end else (i, last)
    packed, offset = header[at + PACKED], header[at + OFFSET] - header[at + SHIFT]
    if first < min(last, packed):
        write_piece(plan, operation + UNPACKED, l, first, min(last, packed))
    if max(first, packed) < last:
        write_piece(plan, operation, l, max(first, packed) + offset, last + offset)
    return last - first


def descend(header: Any, gaps: Any, plan: Any, operation: Any, l: Any, a: Any, n: Any, limit: Any) -> Any:
    """Cover the ticks from a up to slot n of level l with slots of the levels below: each goes on where the one above
    left off. One division a level, as slots of all of them end where slot n begins."""
    slots, edge = 0, n * header[HEAD + l * STRIDE + SIZE]
    while l > 0 and edge > a:
        l -= 1
        at = HEAD + l * STRIDE
        size = header[at + SIZE]
        n *= header[at + ROTATION]
        if edge - a >= size:
            low = max(-divided(-a, size), header[at + FROM])
            if low < n:
                slots += add_piece(header, gaps, plan, operation, l, low, n)
                if slots > limit:
                    return UNANSWERABLE
                n, edge = low, low * size
    return UNANSWERABLE if edge > a and edge > header[START] else slots


def cover(header: Any, gaps: Any, plan: Any, operation: Any, a: Any, b: Any, limit: Any) -> Any:
    """The combined aggregation of ticks a … b - 1: writes its pieces, and gives the number of slots. Gives up above a
    limit."""
    l, low, high, size = header[LEVELS], 0, 0, 0
    while low >= high and l > 0:
        l -= 1
        at = HEAD + l * STRIDE
        size = header[at + SIZE]
        if b - a >= size:
            low, high = max(-divided(-a, size), header[at + FROM]), divided(b, size)
    if low >= high:
        return UNANSWERABLE if b > header[START] else 0
    slots, edge = 0, a  # up to the edge all is covered; n: the number of the slot that begins there
    n = low
    while True:
        if high > low:
            slots += add_piece(header, gaps, plan, operation, l, low, high)
            if edge < low * size:  # the left end; or slots that this level no longer retains
                below = descend(header, gaps, plan, operation, l, edge, low, limit - slots)
                if below < 0:
                    return UNANSWERABLE
                slots += below
            if slots > limit:
                return UNANSWERABLE
            n, edge = high, high * size
        if l == 0 or edge >= b:
            return UNANSWERABLE if edge < b and b > header[START] else slots
        l -= 1
        at = HEAD + l * STRIDE
        size = header[at + SIZE]
        n *= header[at + ROTATION]
        low, high = n, n
        if b - edge >= size:
            low, high = max(n, header[at + FROM]), divided(b, size)


def level_of(header: Any, a: Any, b: Any, kind: Any) -> Any:
    """The coarsest level whose slots the range consists of and that retains them; for prefixes, the finest that has
    them."""
    for k in range(header[LEVELS]):
        l = k if kind == PREFIX else header[LEVELS] - 1 - k
        at = HEAD + l * STRIDE
        size = header[at + SIZE]
        if b - a >= size and (kind != PREFIX or header[at + PREFIXED] >= 0):
            low = divided(a, size)
            if low * size == a and divided(b, size) * size == b and max(low, header[at + BASE]) >= header[at + FROM]:
                return l
    return -1


def plan_level(header: Any, gaps: Any, plan: Any, kind: Any, a: Any, b: Any) -> Any:
    """A single level, or its prefixes."""
    l = level_of(header, a, b, kind)
    if l < 0:
        return UNANSWERABLE
    at = HEAD + l * STRIDE
    low = max(a // header[at + SIZE], header[at + BASE])
    slots = add_piece(header, gaps, plan, ADD, l, low, b // header[at + SIZE])
    if kind == SINGLE or slots <= 1:
        return max(slots - 1, 0)
    plan[HEADING] = PREFIX_TO
    first = plan[HEADING + 2]
    if first + header[at + SHIFT] == header[at + OFFSET]:
        return 0
    write_piece(plan, MINUS_PREFIX, l, first - 1, first)
    return 1


def plan_covers(header: Any, gaps: Any, plan: Any, kind: Any, a: Any, b: Any, known: Any, best: Any) -> Any:
    """Combined: one cover. Inverse landmark: all, less a cover of what is before and one of what is after. `best`:
    the cost of another plan, or -1; one that costs more need not be finished."""
    cost, limit = -1, best if best >= 0 else MOST
    if kind == INVERSE:
        write_piece(plan, TOTALS, 0, 0, header[LEVELS])
        cost = header[LEVELS] - 1
    for part in range(3):
        operation, low, high = SUBTRACT, a, b
        if part == 0:
            low, high = beginning(header), a
        elif part == 1:
            low, high = b, header[WATERMARK]
        else:  # what is asked for: to add, or to see whether there are events at all
            operation = ADD if kind == COMBINED else LOOK
        is_needed = kind == INVERSE if part < 2 else kind == COMBINED or known == ASK
        if is_needed and low < high:
            slots = cover(header, gaps, plan, operation, low, high, MOST if operation == LOOK else limit - cost)
            if slots < 0:
                return UNANSWERABLE
            cost += slots if operation != LOOK else 0
    return max(cost, 0)


def make_plan(header: Any, gaps: Any, plan: Any, kind: Any, a: Any, b: Any, known: Any, options: Any, best: Any) -> Any:
    """Write a plan of one kind for ticks a … b - 1 and give its cost; -1 if there is none."""
    plan[PIECES] = 0
    if kind in (PREFIX, SINGLE):
        return plan_level(header, gaps, plan, kind, a, b)
    if kind == LANDMARK:
        if a > header[START] or b < header[WATERMARK]:
            return UNANSWERABLE
        write_piece(plan, TOTALS, 0, 0, header[LEVELS])
        return header[LEVELS] - 1
    if kind == INVERSE and options[INVERTIBLE] == 0:
        return UNANSWERABLE
    return plan_covers(header, gaps, plan, kind, a, b, known, best)


def beginning(header: Any) -> Any:
    """The start, rounded down to a slot of the highest level: nothing is before the start, so slots may begin there."""
    top = header[HEAD + (header[LEVELS] - 1) * STRIDE + SIZE]
    return header[START] // top * top


def choose(header: Any, gaps: Any, start: Any, end: Any, options: Any, plan: Any, spare: Any) -> Any:
    """Write the plan for the ticks start … end - 1; `spare` is room for another. A cost of -1: it cannot be
    answered."""
    a, b = max(start, header[START]), min(end, header[WATERMARK])
    plan[KIND], plan[COST], plan[KNOWN], plan[PIECES] = NONE, 0, EMPTY, 0
    if b <= a or b <= header[FIRST]:
        return
    known, hints, best = ASK, options[HINTS] != 0, UNANSWERABLE
    if a == header[START]:
        a = beginning(header)
        if options[KEYED] == 0:
            known = FULL  # the first event is in it
    for kind in range(PREFIX, INVERSE + 1):
        if kind == INVERSE and hints and best >= 0 and header[WATERMARK] - header[START] > 2 * (b - a):
            break  # most is outside of the range: taking it off is seldom cheaper, and planning it takes time
        if kind == INVERSE and a <= header[START] and b >= header[WATERMARK]:
            break  # nothing is outside: it would be the landmark
        cost = make_plan(header, gaps, spare, kind, a, b, known, options, best)
        if cost >= 0 and (best < 0 or cost < best):
            best = cost
            for k in range(HEADING, HEADING + 4 * spare[PIECES]):
                plan[k] = spare[k]
            plan[KIND], plan[PIECES] = kind, spare[PIECES]
        if best >= 0 and hints and (kind < SINGLE or (kind == SINGLE and best <= options[THRESHOLD])):
            break  # Figure 4: the first that will do
        if best == 0 or (best == 1 and kind >= SINGLE):
            break  # below one ⊕ there is only a single slot
    plan[COST], plan[KNOWN] = best, known


class Desk:
    """Room to plan in, in one array, which is quicker to hand over than four: options, a spare plan, the offsets
    of plans and the plans."""

    def __init__(self, levels: int, options: list[int]) -> None:
        wide = widest(levels)
        program = OPTIONS + 1 + wide + STRIP
        self.words = np.zeros(program + max(4 * wide, STRIP * (HEADING + 8 * levels)), np.int64)
        self.words[:OPTIONS] = options
        self.words[OPTIONS] = wide

    @property
    def options(self) -> Array:
        return self.words[:OPTIONS]


def parts(desk: Any) -> Any:
    """Options, spare plan, offsets and program of a desk."""
    offsets = OPTIONS + 1 + desk[OPTIONS]
    program = offsets + STRIP
    return desk[:OPTIONS], desk[OPTIONS + 1 : offsets], desk[offsets:program], desk[program:]


def choose_many(header: Any, gaps: Any, starts: Any, ends: Any, i: Any, desk: Any) -> Any:
    """Plans for ranges i, i + 1, … one after the other, as many as fit; gives the first range that was not planned,
    or, as -1 - i, the first that cannot be answered."""
    options, spare, offsets, program = parts(desk)
    at, begin = 0, i
    while i < len(starts) and i - begin < STRIP and at + len(spare) <= len(program):
        choose(header, gaps, starts[i], ends[i], options, program[at:], spare)
        if program[at + COST] < 0:
            return -1 - i
        offsets[i - begin] = at
        at += HEADING + 4 * program[at + PIECES]
        i += 1
    return i


@cache
def planner() -> Any:
    """`choose_many`, compiled."""
    return compiled(choose_many)
