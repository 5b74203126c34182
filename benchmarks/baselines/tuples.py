"""The answer over a stretch of sorted tuples: a fold, or for the median a selection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from windlass.aggregates.monoid import Monoid
from windlass.kernels import Field, accessors


def over_tuples(m: Monoid) -> Callable[..., Any]:
    """`answer(values, lo, hi, scratch, columns, row)`: of values lo … hi - 1, into a row of the result columns."""
    return _folded(m) if m.is_compiled else _median


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


def values_field() -> tuple[Field, ...]:
    from windlass.aggregates.values import INT64

    return (Field("value", INT64),)
