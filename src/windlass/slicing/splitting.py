"""Splits: a window begins inside of a slice, whose parts are folded again from the events that it was made of."""

from __future__ import annotations

from functools import cache
from typing import Any

from windlass.kernels import compiled
from windlass.slicing.instructions import FOLD
from windlass.slicing.slices import BASE, CLEAN, FIRST, HI, LO, MEASURES, POS, SLOT, find


@cache
def inside() -> Any:
    """`inside(begins, directory, rows, out)`: whether a position lies inside of a slice rather than at its begin."""

    def is_inside(begins: Any, directory: Any, rows: Any, out: Any) -> Any:
        for i in range(len(out)):
            k, begin = begins[i, 0], begins[i, 1]
            base = directory[k, BASE]
            lo, hi = base + directory[k, LO], base + directory[k, HI]
            r = find(rows, POS, lo, hi, begin)
            out[i] = r > lo and (r == hi or rows[r, POS] != begin)

    return compiled(is_inside)


@cache
def split() -> Any:
    """`split(begins, row_of, first, held_from, ts, measures, …, program)`: split the slices that hold these
    positions, and fold both parts again. `begins` is sorted by key and position. Returns the program's length and how
    many slots are free then."""

    def refold(program: Any, n: Any, slot: Any, i: Any, stop: Any) -> Any:
        program[n, 0] = FOLD
        program[n, 1] = slot
        program[n, 2] = i
        program[n, 3] = stop
        program[n, 4] = 1
        return n + 1

    def split_slices(
        begins: Any,
        row_of: Any,
        first: Any,
        held_from: Any,
        ts: Any,
        measures: Any,
        directory: Any,
        rows: Any,
        free: Any,
        free_count: Any,
        program: Any,
    ) -> Any:
        n = 0
        for i in range(len(begins)):
            k, begin = begins[i, 0], begins[i, 1]
            base = directory[k, BASE]
            hi = base + directory[k, HI]
            r = find(rows, POS, base + directory[k, LO], hi, begin)  # the slice after the one to split
            stop = rows[r, POS] if r < hi else first[k]
            for j in range(hi, r, -1):
                for field in range(rows.shape[1]):
                    rows[j, field] = rows[j - 1, field]
            for field in range(rows.shape[1]):
                rows[r, field] = rows[r - 1, field]
            free_count -= 1
            here = row_of[k] - first[k]  # the row of the event at position 0, if it were still there
            rows[r, SLOT] = free[free_count]
            rows[r, POS] = begin
            rows[r, FIRST] = ts[here + begin]
            for c in range(measures.shape[0]):
                rows[r, MEASURES + c] = measures[c, here + begin]
            directory[k, HI] += 1
            directory[k, CLEAN] = min(directory[k, CLEAN], r - 1 - base)
            if rows[r - 1, POS] >= held_from[k]:  # else no window needs that part any more
                n = refold(program, n, rows[r - 1, SLOT], here + rows[r - 1, POS], here + begin)
            n = refold(program, n, rows[r, SLOT], here + begin, here + stop)
        return n, free_count

    return compiled(split_slices)
