"""Merging wheels: two wheels over disjoint parts of a stream become the wheel over all of it (µWheel 6, future work).

    a   s₁ s₂ · s₄ │ s₅                 watermark 5
    b   s₁ · s₃ s₄ s₅ s₆ │              watermark 7
    ────────────────────────
    a·b s₁ s₂ s₃ s₄ │ s₅ s₆             watermark 5: a may still bring events from there on

Slots are aligned to the epoch, so they are combined number by number; ⊕ is associative and commutative, and so is
merging. The result is as complete as the wheel that is behind: what the other has beyond is ahead of the watermark
again. It starts where the earlier one does, and retains what both do."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from windlass.aggregates.monoid import Monoid
from windlass.errors import InvalidArgument
from windlass.wheel.contents import Cells, Contents, assemble, combined, contents, truncated, with_high
from windlass.wheel.settings import describe

if TYPE_CHECKING:
    from windlass.wheel.wheel import Wheel


def merge(a: Wheel, b: Wheel) -> Wheel:
    """A new wheel with the events of both. `a` is in its `merge` call; `b` must be idle."""
    if a is b:
        raise InvalidArgument("a wheel cannot be merged with itself: the wheels must be of disjoint parts of a stream")
    if a._monoid is None or b._monoid is None:
        raise InvalidArgument(
            "a wheel that has seen no event and was given no dtype cannot be merged: its types are unknown"
        )
    for what in ("aggregate", "types", "fields", "tick", "unit", "plain", "levels", "keyed"):
        x, y = describe(a)[what], describe(b)[what]
        if x != y:
            raise InvalidArgument(f"wheels can be merged if they are alike, and these differ in {what}: {x} and {y}")
    a._flush()
    try:
        return _merged(a, b, _wide(a, contents(a)), _wide(b, b._contents()))
    except BaseException as error:
        a.undone(error)
        raise


def _merged(a: Wheel, b: Wheel, *both: Contents) -> Wheel:
    m, sizes = a._plain.wide or a._plain, tuple(level.ticks for level in a.levels)
    watermark = min(c.watermark for c in both)
    cut = [c if c.watermark == watermark else truncated(c, watermark, sizes, m) for c in both]
    one, other = cut
    if one is None or other is None:
        ahead = a if cut[0] is None else b
        raise InvalidArgument(
            f"the wheel at {ahead.clock.show(ahead._watermark)} no longer retains its slots since "
            f"{ahead.clock.show(watermark)}, where the other is; advance that one first"
        )
    keys = None if one.keys is None or other.keys is None else tuple(dict.fromkeys(one.keys + other.keys))
    start = min(one.start, other.start)
    result = a._like(start)
    assemble(
        result,
        Contents(
            start,
            watermark,
            min(one.first, other.first),
            _both_quiet(one, other),
            tuple(max(_oldest(one, l, s, start), _oldest(other, l, s, start)) for l, s in enumerate(sizes)),
            tuple(_combined(m, x, y, one, other, keys) for x, y in zip(one.levels, other.levels, strict=True)),
            _combined(m, one.totals, other.totals, one, other, keys),
            _combined(m, one.ahead, other.ahead, one, other, keys),
            keys,
        ),
    )
    result.late = a.late + b.late
    return result


def _wide(w: Wheel, c: Contents) -> Contents:
    """The contents of a wheel in the wide form: the sums of two wheels may overflow where those of one do not."""
    levels = tuple(with_high(w._plain, cells) for cells in c.levels)
    return replace(c, levels=levels, totals=with_high(w._plain, c.totals), ahead=with_high(w._plain, c.ahead))


def _oldest(c: Contents, l: int, size: int, start: int) -> int:
    """Before its start a wheel has nothing, and so it retains all of that."""
    return start // size if c.oldest[l] == c.start // size else c.oldest[l]


def _combined(m: Monoid, x: Cells, y: Cells, one: Contents, other: Contents, keys: tuple[object, ...] | None) -> Cells:
    if keys is not None:
        x, y = (
            Cells(cells.slots, np.array([keys.index(k) for k in c.keys or ()], np.int64)[cells.keys], cells.partials)
            for cells, c in ((x, one), (y, other))
        )
    return combined(m, [x, y])


def _both_quiet(one: Contents, other: Contents) -> tuple[tuple[int, int], ...]:
    """Times in which neither has an event: gaps of both, where what is before a wheel's start is quiet too."""
    found = [
        (max(a, x), min(b, y)) for a, b in _quiet(one, other) for x, y in _quiet(other, one) if max(a, x) < min(b, y)
    ]
    return tuple(sorted(found))


def _quiet(c: Contents, other: Contents) -> list[tuple[int, int]]:
    before = [(other.start, c.start)] if other.start < c.start else []
    return before + list(c.gaps)
