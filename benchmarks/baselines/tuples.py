"""The answer over a stretch of sorted tuples: a fold, or for the median a selection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windlass.aggregates.monoid import Monoid
from windlass.kernels import accessors


def over_tuples(m: Monoid | None) -> Callable[..., Any]:
    """`answer(values, lo, hi, scratch, columns, row)`: of values lo … hi - 1, into a row of the result columns.

    Without a monoid, or with one of partials that are objects, it is the median.
    """
    return _median if m is None or not m.is_compiled else _folded(m)


def _folded(m: Monoid) -> Callable[..., Any]:
    lift, combine, lower = m.lift, m.combine, m.lower
    _, store = accessors(m.result_fields)

    def answer(values: Any, lo: Any, hi: Any, scratch: Any, columns: Any, row: Any) -> Any:
        acc = lift(values[lo])
        for i in range(lo + 1, hi):
            acc = combine(acc, lift(values[i]))
        store(columns, row, lower(acc))

    return answer


def _median(values: Any, lo: Any, hi: Any, scratch: Any, columns: Any, row: Any) -> Any:
    """Quickselect over a copy: linear, as good as it gets for a window that is computed on its own."""
    n = hi - lo
    for i in range(n):
        scratch[i] = values[lo + i]
    middle = n >> 1
    upper = _selected(scratch, n, middle)
    if n & 1:
        columns[0][row] = upper
    else:
        lower = scratch[0]  # the greatest of the lower half, which the selection left before the middle
        for i in range(1, middle):
            lower = max(lower, scratch[i])
        columns[0][row] = 0.5 * lower + 0.5 * upper


def _selected(a: Any, n: Any, k: Any) -> Any:
    """The k-th smallest (Hoare); what is smaller ends up before it."""
    left, right = 0, n - 1
    while left < right:
        x, y, z = a[left], a[(left + right) >> 1], a[right]
        pivot = max(min(x, y), min(max(x, y), z))  # the median of three: runs of sorted values are common
        i, j = left, right
        while i <= j:
            while a[i] < pivot:
                i += 1
            while a[j] > pivot:
                j -= 1
            if i <= j:
                a[i], a[j] = a[j], a[i]
                i += 1
                j -= 1
        if k <= j:
            right = j
        elif k >= i:
            left = i
        else:
            return a[k]
    return a[k]


def lower_bound(a: Any, lo: Any, hi: Any, x: Any) -> Any:
    """The first place in lo … hi whose value is not less than x."""
    while lo < hi:
        middle = (lo + hi) >> 1
        if a[middle] < x:
            lo = middle + 1
        else:
            hi = middle
    return lo


def move_up(a: Any, lo: Any, hi: Any) -> Any:
    """Values lo … hi - 1 go up by one place. A loop for each column, which the compiler turns into block moves."""
    for j in range(hi - lo):
        a[hi - j] = a[hi - j - 1]
