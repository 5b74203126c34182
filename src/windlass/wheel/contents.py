"""What is in a wheel, free of how it lies in memory: to save it, to open it, to merge it with another.

A cell is a slot of one key that has seen an event: its number, the place of its key, its partial. Everything else can
be told in a few integers. `contents` takes a wheel apart, `assemble` puts one together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from windlass.aggregates import evaluation
from windlass.aggregates.monoid import Columns, Monoid
from windlass.aggregates.overflow import HIGH, greatest, widened
from windlass.kernels import accessors
from windlass.wheel.overflow import claim, schedule
from windlass.wheel.slots import (
    BASE,
    COUNT,
    DONE,
    FIRST,
    FROM,
    GAPS,
    NEXT,
    PACKED,
    SHIFT,
    START,
    WATERMARK,
    WIDTH,
    clear,
    identities,
    place,
    row_of,
)
from windlass.wheel.writer import advance_kernel, head_row

if TYPE_CHECKING:
    from windlass.wheel.wheel import Wheel

Array = np.ndarray[Any, Any]


class Cells(NamedTuple):
    """Slots of one level that have seen events, in order of their numbers."""

    slots: Array
    keys: Array
    partials: Columns

    def where(self, mask: Array) -> Cells:
        return Cells(self.slots[mask], self.keys[mask], tuple(c[mask] for c in self.partials))


@dataclass(frozen=True)
class Contents:
    start: int
    watermark: int
    first: int  # the tick of the first event
    gaps: tuple[tuple[int, int], ...]
    oldest: tuple[int, ...]  # of each level, the number of the oldest slot that is retained
    levels: tuple[Cells, ...]
    totals: Cells  # of each level that has seen an event in its rotation: slots are the numbers of levels
    ahead: Cells  # what is above the watermark
    keys: tuple[Any, ...] | None


def contents(w: Wheel, since: tuple[int, ...] | None = None) -> Contents:
    """Everything in a wheel; with `since`, of each level only the slots from that number on."""
    slots, width = w._slots, int(w._slots.header[WIDTH])
    header = slots.header
    some = np.flatnonzero(slots.some)
    totals = Cells(some // width, some % width, tuple(c[some] for c in slots.totals))
    return Contents(
        int(header[START]),
        int(header[WATERMARK]),
        int(header[FIRST]),
        tuple((int(a), int(b)) for a, b in slots.gaps[: int(header[GAPS]), :2]),
        tuple(slots.get(l, FROM) for l in range(len(w.levels))),
        tuple(_cells(w, l, None if since is None else since[l]) for l in range(len(w.levels))),
        totals,
        _ahead(w),
        None if w.keys is None else tuple(w.keys),
    )


def fitting(w: Wheel, cells: Sequence[Cells]) -> list[Cells]:
    """Convert cells to the fields of the wheel's partials. Widen the wheel first if its sums could overflow 64 bits."""
    if w._plain.wide is None:
        return list(cells)
    wide = [with_high(w._plain, c) for c in cells]
    if w._bound.wide is not None:
        if any(c.partials[_high(w)].any() for c in wide):
            w._widen()
        w._make_sure(sum(greatest(c.partials[0]) * len(c.slots) for c in wide))
    if w._bound.wide is None:
        return wide
    return [c._replace(partials=tuple(p for k, p in enumerate(c.partials) if k != _high(w))) for c in wide]


def _high(w: Wheel) -> int:
    assert w._plain.wide is not None
    return w._plain.wide.fields.index(HIGH)


def with_high(plain: Monoid, cells: Cells) -> Cells:
    """Convert cells to the wide form, if there is one."""
    is_narrow = plain.wide is not None and len(cells.partials) == len(plain.fields)
    return cells._replace(partials=widened(plain, cells.partials)) if is_narrow else cells


def rolled_up(w: Wheel, cells: Cells, start: int, upto: int) -> tuple[tuple[Cells, ...], Cells]:
    """The cells of all levels, and the totals, that those of the lowest come to."""
    m, sizes = w._bound, [level.ticks for level in w.levels]
    cells = cells.where(cells.slots < upto)
    levels, totals = [], []
    for l, size in enumerate(sizes):
        rolled = combined(m, [cells._replace(slots=cells.slots // size)])
        whole = rolled.where(rolled.slots < upto // size)
        levels.append(whole)
        is_last = l + 1 == len(sizes)
        first = start // size if is_last else max(upto // sizes[l + 1] * (sizes[l + 1] // size), start // size)
        rotation = whole.where(whole.slots >= first)
        totals.append(rotation._replace(slots=np.full(len(rotation.slots), l, np.int64)))
    return tuple(levels), combined(m, totals)


def assemble(w: Wheel, c: Contents) -> None:
    """Put contents into a wheel that is bound and empty, and starts where they do."""
    w._size = 0
    *levels, totals, ahead = fitting(w, [*c.levels, c.totals, c.ahead])
    c = replace(c, levels=tuple(levels), totals=totals, ahead=ahead)
    m, slots = w._bound, w._slots
    if c.keys is not None and w.keys is not None:
        w._add_keys([key for key in c.keys if key not in w.keys.places])
    header = slots.header
    for begin, end in c.gaps:
        slots.add_gap(begin, end, [max(end // v.ticks - -(-begin // v.ticks), 0) for v in w.levels])
    for l, level in enumerate(w.levels):
        following = c.watermark // level.ticks
        slots.put(l, NEXT, following)
        slots.put(l, DONE, following)
        slots.put(l, FROM, c.oldest[l])
        slots.put(l, COUNT, int(place(header, slots.gaps, l, following)))
        oldest = int(place(header, slots.gaps, l, c.oldest[l])) - (1 if level.prefix else 0)
        slots.put(l, SHIFT, max(oldest, 0) // 8 * 8)
    header[WATERMARK], header[FIRST] = c.watermark, c.first
    slots.room(0)
    width = int(header[WIDTH])
    for l, (level, cells) in enumerate(zip(w.levels, c.levels, strict=True)):
        first = int(row_of(header, l, slots.get(l, SHIFT)))
        rows = slots.get(l, COUNT) - slots.get(l, SHIFT)
        clear(m, tuple(column[first * width : (first + rows) * width] for column in slots.columns))
        kept = cells.where(cells.slots >= c.oldest[l])
        index = places(w, l, kept.slots) - slots.get(l, SHIFT)
        at = (first + index) * width + kept.keys
        for column, partial in zip(slots.columns, kept.partials, strict=True):
            column[at] = partial
        np.bitwise_or.at(slots.bits, at >> 3, np.left_shift(1, at & 7).astype(np.uint8))
        if level.prefix:
            _refill_prefixes(w, l)
    total = c.totals.slots * width + c.totals.keys
    for column, partial in zip(slots.totals, c.totals.partials, strict=True):
        column[total] = partial
    slots.some[total] = True
    put_ahead(w, c.ahead)
    w._pace[3] = max(int(w._pace[3]), (c.watermark - 1) * w.clock.tick)
    for packed in w._packed:
        w._pack(packed)
    w._publish()
    for window in w._windows:
        window.reach(c.watermark)


def places(w: Wheel, l: int, numbers: Array) -> Array:
    """`place` of many slots that are stored."""
    slots, level = w._slots, w.levels[l]
    found = numbers - slots.get(l, BASE)
    count = int(slots.header[GAPS])
    if count and len(numbers):
        before = np.searchsorted(slots.gaps[:count, 0], (numbers - 1) * level.ticks, side="right")
        found = found - np.where(before > 0, slots.gaps[np.maximum(before - 1, 0), 2 + l], 0)
    return np.asarray(found)


def combined(m: Monoid, cells: list[Cells]) -> Cells:
    """Cells of several wheels; those of one slot and key become one."""
    slots = np.concatenate([c.slots for c in cells])
    keys = np.concatenate([c.keys for c in cells])
    partials = tuple(np.concatenate(columns) for columns in zip(*(c.partials for c in cells), strict=True))
    order = np.lexsort((keys, slots))
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (np.diff(slots[order]) != 0) | (np.diff(keys[order]) != 0)
    first = np.flatnonzero(begins)
    bounds = np.append(first, len(order))
    out = identities(m, len(first))
    evaluation.kernel(m, lambda: _fold_kernel(m), "wheel fold")(partials, order, bounds, out)
    return Cells(slots[order][first], keys[order][first], out)


def _fold_kernel(m: Monoid) -> Any:
    combine = m.combine
    load, store = accessors(m.fields)

    def fold(partials: Any, order: Any, bounds: Any, out: Any) -> Any:
        for group in range(len(bounds) - 1):
            acc = load(partials, order[bounds[group]])
            for i in range(bounds[group] + 1, bounds[group + 1]):
                acc = combine(acc, load(partials, order[i]))
            store(out, group, acc)

    return fold


def _cells(w: Wheel, l: int, since: int | None) -> Cells:
    """The retained slots of a level that have seen events."""
    slots = w._slots
    header, gaps, width = slots.header, slots.gaps, int(slots.header[WIDTH])
    oldest = slots.get(l, FROM) if since is None else max(since, slots.get(l, FROM))
    first, last = int(place(header, gaps, l, oldest)), slots.get(l, COUNT)
    packed = slots.get(l, PACKED)
    parts = [_packed_cells(w, l, first, min(last, packed))] if first < packed else []
    first = max(first, packed)
    row = int(row_of(header, l, first))
    flags = np.unpackbits(slots.bits[row * width // 8 :], bitorder="little", count=(last - first) * width + 8)
    cell = np.flatnonzero(flags[row * width % 8 :][: (last - first) * width])
    at = row * width + cell
    parts.append((first + cell // width, cell % width, tuple(c[at] for c in slots.columns)))
    index, keys = (np.concatenate([p[k] for p in parts]) for k in (0, 1))
    partials = tuple(np.concatenate(columns) for columns in zip(*(p[2] for p in parts), strict=True))
    return Cells(_numbers(w, l, index), keys, partials)


def _packed_cells(w: Wheel, l: int, first: int, last: int) -> tuple[Array, Array, Columns]:
    packed = next(p for p in w._packed if p.level == l)
    columns = tuple(np.empty(last - first, f.dtype) for f in w._bound.fields)
    bits = np.zeros((last - first) // 8 + 1, np.uint8)
    packed.unpack(np.array([[first, last, 0]]), columns, bits)
    index = np.flatnonzero(np.unpackbits(bits, bitorder="little")[: last - first])
    return index + first, np.zeros(len(index), np.int64), tuple(c[index] for c in columns)


def _numbers(w: Wheel, l: int, index: Array) -> Array:
    """`number` of many indices."""
    slots = w._slots
    found = index + slots.get(l, BASE)
    count = int(slots.header[GAPS])
    if count:
        left_out = slots.gaps[:count, 2 + l]
        begins = -(-slots.gaps[:count, 0] // w.levels[l].ticks) - slots.get(l, BASE) - np.append(0, left_out[:-1])
        before = np.searchsorted(begins, index, side="right")
        found = found + np.where(before > 0, left_out[np.maximum(before - 1, 0)], 0)
    return np.asarray(found)


def _ahead(w: Wheel) -> Cells:
    slots, overflow = w._slots, w._overflow
    header, width = slots.header, int(slots.header[WIDTH])
    first = int(head_row(header)) * width
    span = w.write_ahead * width
    flags = np.unpackbits(slots.bits[first // 8 :], bitorder="little", count=span + 8)[first % 8 :][:span]
    cell = np.flatnonzero(flags)
    near = Cells(cell // width + int(header[WATERMARK]), cell % width, tuple(c[first + cell] for c in slots.columns))
    waiting = overflow.waiting()
    far = Cells(
        overflow.ticks[waiting] + int(header[START]),
        overflow.keys[waiting],
        tuple(c[waiting] for c in overflow.partials),
    )
    return combined(w._bound, [near, far])


def put_ahead(w: Wheel, cells: Cells) -> None:
    """Above the watermark: through the overflow wheel, which pours what is near into its slots."""
    m, slots, overflow = w._bound, w._slots, w._overflow
    overflow.clock[2] = int(slots.header[WATERMARK]) - int(slots.header[START])
    for i in range(len(cells.slots)):
        entry = claim(overflow.wheel)
        if entry < 0:
            overflow.grow()
            entry = claim(overflow.wheel)
        overflow.ticks[entry] = cells.slots[i] - slots.header[START]
        overflow.keys[entry] = cells.keys[i]
        for column, partial in zip(overflow.partials, cells.partials, strict=True):
            column[entry] = partial[i]
        schedule(overflow.wheel, entry)
    kernel = evaluation.kernel(m, lambda: advance_kernel(m), "wheel advance")
    kernel(slots.state(), int(slots.header[WATERMARK]), overflow.wheel, overflow.partials)


def _refill_prefixes(w: Wheel, l: int) -> None:
    """Prefixes of what is retained: what came before cancels out of any range."""
    m, slots = w._bound, w._slots
    combine = m.combine
    width = int(slots.header[WIDTH])
    first = int(row_of(slots.header, l, slots.get(l, SHIFT))) * width
    last = int(row_of(slots.header, l, slots.get(l, COUNT))) * width
    load, store = accessors(m.fields)

    def refill(columns: Any, prefix: Any, first: Any, last: Any, width: Any) -> Any:
        for cell in range(first, last):
            x = load(columns, cell)
            store(prefix, cell, x if cell < first + width else combine(load(prefix, cell - width), x))

    evaluation.kernel(m, lambda: refill, "wheel refill")(slots.columns, slots.prefix, first, last, width)
    slots.put(l, 10, slots.get(l, COUNT))


def truncated(c: Contents, watermark: int, sizes: tuple[int, ...], m: Monoid) -> Contents | None:
    """The contents as they were at an earlier watermark; None if slots that would be needed are no longer retained."""
    if c.oldest[0] > watermark:
        return None
    levels, totals = [], []
    for l, (size, cells) in enumerate(zip(sizes, c.levels, strict=True)):
        end = watermark // size
        kept = cells.where(cells.slots < end)
        levels.append(kept)
        begin = (
            c.start // size
            if l + 1 == len(sizes)
            else max(watermark // sizes[l + 1] * (sizes[l + 1] // size), c.start // size)
        )
        if c.oldest[l] > begin and end > begin:
            return None
        rotation = kept.where(kept.slots >= begin)
        totals.append(Cells(np.full(len(rotation.slots), l, np.int64), rotation.keys, rotation.partials))
    later = c.levels[0].where(c.levels[0].slots >= watermark)
    gaps = tuple((a, min(b, watermark)) for a, b in c.gaps if a < watermark)
    return replace(
        c,
        watermark=watermark,
        gaps=gaps,
        levels=tuple(levels),
        totals=combined(m, totals),
        ahead=combined(m, [later, c.ahead]),
        oldest=tuple(min(o, watermark // size) for o, size in zip(c.oldest, sizes, strict=True)),
    )
