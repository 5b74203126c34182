"""Searches among events that are in order."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from windlass.kernels import compiled
from windlass.slicing.slices import position

Integers = np.ndarray[Any, np.dtype[np.int64]]


@cache
def near() -> Any:
    """`near(key, ts, gap, keys, times, out)`: whether one of the events (keys, times), which are in order, is of the
    same key and within the gap of each (key, ts)."""

    def is_near(key: Any, ts: Any, gap: Any, keys: Any, times: Any, out: Any) -> Any:
        for i in range(len(ts)):
            lo, hi = 0, len(keys)
            while lo < hi:  # the first event of the key that is not before ts - gap
                middle = (lo + hi) >> 1
                if keys[middle] < key[i] or (keys[middle] == key[i] and times[middle] < ts[i] - gap):
                    lo = middle + 1
                else:
                    hi = middle
            out[i] = lo < len(keys) and keys[lo] == key[i] and times[lo] <= ts[i] + gap

    return compiled(is_near)


def first_at(ts: Integers, starts: Integers, sizes: Integers, values: Integers) -> Integers:
    """In each stretch starts[i] … + sizes[i] of ascending times, the first row that is not before values[i]."""
    out = np.empty(len(starts), np.int64)
    _first_at()(ts, starts, sizes, values, out)
    return out


@cache
def _first_at() -> Any:
    def search(ts: Any, starts: Any, sizes: Any, values: Any, out: Any) -> Any:
        for i in range(len(out)):
            out[i] = position(ts, starts[i], starts[i] + sizes[i], values[i])

    return compiled(search)
