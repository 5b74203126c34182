"""The slots of one key between two ticks as one partial: what windows and the pieces they share are made of."""

from __future__ import annotations

from typing import Any

from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors
from windlass.wheel.slots import any_set, is_set


def folding(m: Monoid, keyed: bool) -> Any:
    """`fold(columns, bits, first, last, width, key)`: the slots of a key in rows first:last, and whether there was an
    event."""
    combine = m.combine
    load, _ = accessors(m.fields)

    def fold(columns: Any, bits: Any, first: Any, last: Any, width: Any, key: Any) -> Any:
        step = width if keyed else 1
        cell, end_cell = first * step + key, last * step
        x = load(columns, cell)
        some = is_set(bits, cell)
        if last - first == 1:  # without a branch on what cannot be guessed
            return x, some
        for i in range(cell + step, end_cell, step):
            x = combine(x, load(columns, i))
        if not keyed:
            return x, any_set(bits, cell, end_cell)
        while not some and cell < end_cell:
            some = is_set(bits, cell)
            cell += step
        return x, some

    return fold
