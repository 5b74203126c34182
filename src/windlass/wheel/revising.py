"""Slots that were complete and are corrected: written in place, and what was rolled up from them rolled up again.

    hours      ─────[ ]─────          of each level above, the slots over those that changed, from the level below
    minutes    ────[ ]──────
    seconds    ────x────────          a newer version of this slot

Idea. A wheel never does this to itself: what is below its watermark does not change, and its readers rely on that. But
a history is told newer versions of old slots, and correcting a few should not cost as much as all of them.

Costs in ⊕: a rotation of the level below for each slot that changed, at each level, and one of each level for totals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from windlass.aggregates import evaluation
from windlass.aggregates.evaluation import Function
from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors
from windlass.slicing.sorting import distinct_pairs
from windlass.wheel.contents import Cells, places, put_ahead
from windlass.wheel.reader import end_row
from windlass.wheel.slots import (
    BASE,
    FIRST,
    GAPS,
    HEAD,
    NEXT,
    SIZE,
    START,
    STRIDE,
    WATERMARK,
    WIDTH,
    is_set,
    place,
    row_of,
    set_bit,
)

if TYPE_CHECKING:
    from windlass.wheel.wheel import Wheel


Array = np.ndarray[Any, Any]


def can_revise(w: Wheel, slots: Any) -> bool:
    """Whether all of these slots are stored, or will be: none lies before the start or in a time that was left out."""
    gaps = w._slots.gaps[: int(w._slots.header[GAPS])]
    after = np.searchsorted(gaps[:, 0], slots, side="right")
    left_out = (
        (after > 0) & (slots < gaps[np.maximum(after - 1, 0), 1]) if len(gaps) else np.zeros(len(slots), np.bool_)
    )
    return not (left_out.any() or (slots < int(w._slots.header[START])).any())


def revise(w: Wheel, cells: Cells, upto: int) -> None:
    """Cells in place of what the wheel has there, and everything up to a tick complete. There are no windows over it,
    nothing waits in it, and it keeps all slots, without prefixes."""
    now = int(w._slots.header[WATERMARK])
    _correct(w, cells.where(cells.slots < now))
    new = cells.where((cells.slots >= now) & (cells.slots < upto))
    if len(new.slots):
        w._slots.header[FIRST] = min(int(w._slots.header[FIRST]), int(new.slots.min()))
    put_ahead(w, new)
    if upto > now:
        w._advance(upto)
    w._sync()


def _correct(w: Wheel, cells: Cells) -> None:
    if len(cells.slots) == 0:
        return
    m, slots = w._bound, w._slots
    header = slots.header
    width = int(header[WIDTH])
    header[FIRST] = min(int(header[FIRST]), int(cells.slots.min()))
    at = (int(row_of(header, 0, 0)) + places(w, 0, cells.slots)) * width + cells.keys
    for column, partial in zip(slots.columns, cells.partials, strict=True):
        column[at] = partial
    np.bitwise_or.at(slots.bits, at >> 3, np.left_shift(1, at & 7).astype(np.uint8))
    roll_up = evaluation.kernel(m, lambda: _roll_up_again_kernel(m), "wheel revise")
    numbers = cells.slots
    for l, level in enumerate(w.levels):
        if l > 0:
            numbers = numbers // (level.ticks // w.levels[l - 1].ticks)
            complete = numbers < slots.get(l, NEXT)
            roll_up(slots.state(), l, distinct_pairs(numbers[complete], cells.keys[complete]))
        totals = evaluation.kernel(m, lambda: _total_again_kernel(m), "wheel total again")
        begin = slots.get(l, BASE)
        if l + 1 < len(w.levels):
            begin = max(begin, slots.get(l, NEXT) // level.rotation * level.rotation)
        totals(slots.state(), l, begin, np.unique(cells.keys))


def _roll_up_again_kernel(m: Monoid) -> Function:
    combine, identity = m.combine, m.identity
    load, store = accessors(m.fields)

    def roll_up(state: Any, l: Any, changed: Any) -> Any:
        columns, prefix, bits, header, gaps, totals, some = state
        width = header[WIDTH]
        for j in range(len(changed)):
            n, key = changed[j, 0], changed[j, 1]
            ratio = header[HEAD + l * STRIDE + SIZE] // header[HEAD + (l - 1) * STRIDE + SIZE]
            first = row_of(header, l - 1, place(header, gaps, l - 1, n * ratio))
            last = row_of(header, l - 1, place(header, gaps, l - 1, (n + 1) * ratio))
            acc = identity()
            for row in range(first, last):
                acc = combine(acc, load(columns, row * width + key))
            cell = row_of(header, l, place(header, gaps, l, n)) * width + key
            store(columns, cell, acc)
            set_bit(bits, cell)

    return roll_up


def _total_again_kernel(m: Monoid) -> Function:
    combine, identity = m.combine, m.identity
    load, store = accessors(m.fields)

    def total(state: Any, l: Any, begin: Any, keys: Any) -> Any:
        columns, prefix, bits, header, gaps, totals, some = state
        width = header[WIDTH]
        first, last = row_of(header, l, place(header, gaps, l, begin)), end_row(header, l)
        for key in keys:
            acc, found = identity(), False
            for cell in range(first * width + key, last * width, width):
                acc = combine(acc, load(columns, cell))
                found = found or is_set(bits, cell)
            store(totals, l * width + key, acc)
            some[l * width + key] = found

    return total
