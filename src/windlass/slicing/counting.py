"""Count the windows that hold an event by arithmetic: one step a slice, for any number of windows.

    values      v0        v1      v2           the first values of a key's slices, ascending
    windows     |─────|                        all that begin in (v0 - size, v0] hold v0
                   |─────|                     of those that begin in (v1 - size, v1], the ones after v0 are new
                      |─────|

Each slice gives a range of window numbers. Ranges of neighbouring slices overlap; each number is counted once.
"""

from __future__ import annotations

from typing import Any

from windlass.kernels import unsigned
from windlass.slicing.edges import NEVER
from windlass.slicing.slices import position


def added(total: Any, n: Any) -> Any:
    """The sum of two counts, or NEVER where it does not fit."""
    return total + n if total < NEVER - n else NEVER


def windows_with(
    values: Any,
    lo: Any,
    hi: Any,
    shift: Any,
    origin: Any,
    period: Any,
    step: Any,
    ends: Any,
    first: Any,
    after: Any,
    upto: Any,
    last_start: Any,
) -> Any:
    """Count the windows, numbered from `first`, that hold one of values[lo:hi] - shift, end in (after, upto] and start
    at `last_start` at the latest.

    A window with several ends is followed by the next one at its last end.
    """
    size = step * ends
    n, done = 0, first - 1  # windows up to this number are counted
    r = lo if period == 0 else position(values, lo, hi, origin + first * period + shift)
    while r < hi:
        value = values[unsigned(r)] - shift
        r += 1
        if ends == 1 and period > 0:
            begin, end = max(done + 1, (value - size - origin) // period + 1), (value - origin) // period
            if origin + begin * period + size > upto or origin + begin * period > last_start:
                break
            end = min(end, (upto - size - origin) // period, (last_start - origin) // period)
            if end >= begin:
                n += end - begin + 1
                done = end
            continue
        number = (value - origin) // period if period > 0 else 0
        start = origin + number * period
        if number <= done or value < start:
            continue
        if start + step > upto or start > last_start or value >= start + size:
            break
        least = max(1 if after < start else (after - start) // step + 1, (value - start) // step + 1)
        n += max(0, min(ends, (upto - start) // step) - least + 1)
        done = number
    return n


def windows_in(
    origin: Any, period: Any, step: Any, ends: Any, first: Any, after: Any, upto: Any, last_start: Any
) -> Any:
    """The same count over all windows, empty ones included."""
    size = step * ends
    if ends == 1:
        last = (upto - size - origin) // period
        if last_start != NEVER:
            last = min(last, (last_start - origin) // period)
        return max(0, last - first + 1)
    after = max(after, origin + first * period)
    if last_start != NEVER:
        upto = min(upto, origin + (last_start - origin) // period * period + size)
    return max(0, (upto - origin) // step - (after - origin) // step)
