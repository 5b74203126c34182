"""The invariants of a wheel, asserted one by one; for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from windlass.stores.layout import same
from windlass.wheel.slots import (
    BASE,
    CAPACITY,
    COUNT,
    DONE,
    FROM,
    NEXT,
    OFFSET,
    PACKED,
    SHIFT,
    WIDTH,
    is_set,
    number,
    place,
    row_of,
)

if TYPE_CHECKING:
    from windlass.wheel.wheel import Wheel


def check_invariants(w: Wheel) -> None:
    slots, m = w._slots, w._bound
    header, gaps = slots.header, slots.gaps
    w._overflow.check_invariants()
    identity, width = m.identity(), int(header[WIDTH])
    watermark = int(header[1])
    for l, level in enumerate(w.levels):
        get = [slots.get(l, what) for what in (BASE, NEXT, FROM, COUNT, DONE, SHIFT, OFFSET, CAPACITY, PACKED)]
        base, following, oldest, count, done, shift, offset, capacity, packed = get
        assert following == done == watermark // level.ticks, "NEXT: slots up to the watermark"
        assert base <= oldest <= max(following, base), "FROM"
        assert place(header, gaps, l, following) == count, "COUNT: what is stored up to the watermark"
        assert shift <= max(int(place(header, gaps, l, oldest)), packed), "SHIFT: nothing retained is discarded"
        room = count - shift + (w.write_ahead if l == 0 else 0)
        assert room <= capacity, "CAPACITY"
        for i in range(max(shift, packed), count):
            assert place(header, gaps, l, number(header, gaps, l, i)) == i, "number is place backwards"
            for key in range(width):
                cell = int(row_of(header, l, i)) * width + key
                if not is_set(slots.bits, cell):
                    partial = tuple(column[cell] for column in slots.columns)
                    assert same(partial, identity), "2: a slot without events holds the identity"
        behind = int(row_of(header, l, count)) * width
        first_free = behind + (w.write_ahead * width if l == 0 else 0)
        end = (offset + capacity) * width
        assert not np.unpackbits(slots.bits, bitorder="little")[first_free:end].any(), "2: no bits behind the slots"
