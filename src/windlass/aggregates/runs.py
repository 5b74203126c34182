"""Sorted runs with run-length encoding: the partial of every exact holistic aggregate (Scotty 5.4.1).

A run is the multiset of a slice's values: the distinct ones in ascending order, and how often each occurs.

    5 3 5 5 9   →   values 3 5 9
                    counts 1 3 1

Two runs merge in one linear pass, and a run that was merged in can be taken out again the same way. A run
is never changed once it is made. A window's run is united of those of its slices, which are merged only if all of its
values are asked for; the one at some rank is found among them by bisection. NaN is one value and the greatest, as in
Spark; -0.0 and 0.0 are one value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from windlass.aggregates.monoid import Function, Monoid, object_field
from windlass.aggregates.values import OBJECT, ValueType
from windlass.kernels import compiled

Array = np.ndarray[Any, Any]


class Run(NamedTuple):
    values: Array
    counts: Array

    @property
    def is_empty(self) -> bool:
        return len(self.values) == 0


class United:
    """Several runs as one, none of them empty. Merged when someone asks for its values or counts, and then once."""

    is_empty = False

    def __init__(self, parts: Sequence[Run]) -> None:
        self.parts = parts

    @cached_property
    def _merged(self) -> Run:
        parts = list(self.parts)
        while len(parts) > 1:  # neighbours, so that each value is moved log₂ of their number times
            pairs = [merged(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)]
            parts = pairs + parts[2 * len(pairs) :]
        return parts[0]

    @property
    def values(self) -> Array:
        return self._merged.values

    @property
    def counts(self) -> Array:
        return self._merged.counts

    def __iter__(self) -> Iterator[Array]:
        return iter(self._merged)


class _OnFirstCall:
    """A kernel compiled when it is first called: importing this module must not import the compiler."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.py_func = function  # what it computes, for digests

    @cached_property
    def _kernel(self) -> Callable[..., Any]:
        return compiled(self.py_func, allocates=True)

    def __call__(self, *arguments: Any) -> Any:
        return self._kernel(*arguments)


def empty_run(dtype: np.dtype[Any]) -> Run:
    return Run(np.empty(0, dtype), np.empty(0, np.int64))


def run_of_one(value: Any, dtype: np.dtype[Any]) -> Run:
    values = np.empty(1, dtype)
    values[0] = value
    return Run(values, np.ones(1, np.int64))


def run_of(values: Array) -> Run:
    """The run of a whole array at once."""
    distinct, counts = np.unique(values, return_counts=True)
    return Run(distinct, counts.astype(np.int64, copy=False))


def merged(a: Run, b: Run) -> Run:
    """All the values of both. O(distinct values of both)."""
    if len(a.values) == 0 or len(b.values) == 0:
        return b if len(a.values) == 0 else a
    merge = _merge if a.values.dtype == OBJECT else _compiled_merge
    return Run(*merge(a.values, a.counts, b.values, b.counts))


def around(run: Run | United, q: float) -> tuple[Any, Any, float]:
    """The values at the ranks just below and above q·(n - 1), counted from 0, and where between the two that is."""
    parts = run.parts if isinstance(run, United) and run.parts[0].values.dtype != OBJECT else [run]
    values, counts = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    ends = np.cumsum(counts)
    rank = q * (int(ends[-1]) - 1)
    low, high = math.floor(rank), math.ceil(rank)
    if len(parts) == 1:
        at, after = np.searchsorted(ends, (low, high), side="right")
        return values[at], values[after], rank - low
    bounds = np.empty((len(parts), 5), np.int64)
    bounds[:, 1] = np.cumsum([len(part.values) for part in parts])
    bounds[0, 0], bounds[1:, 0] = 0, bounds[:-1, 1]
    return (*_compiled_select(values, ends, bounds, low, high), rank - low)


def without(c: Run, a: Run) -> Run:
    """What is left of `c` once the values of `a`, which it contains, are taken out."""
    subtract = _subtract if c.values.dtype == OBJECT else _compiled_subtract
    return Run(*subtract(c.values, c.counts, a.values, a.counts))


def _merge(a: Any, a_counts: Any, b: Any, b_counts: Any) -> Any:
    values, counts = np.empty(len(a) + len(b), a.dtype), np.empty(len(a) + len(b), np.int64)
    i = j = n = 0
    while i < len(a) or j < len(b):
        if j == len(b) or (i < len(a) and _precedes(a[i], b[j])):
            values[n], counts[n] = a[i], a_counts[i]
            i += 1
        elif i == len(a) or _precedes(b[j], a[i]):
            values[n], counts[n] = b[j], b_counts[j]
            j += 1
        else:
            values[n], counts[n] = a[i], a_counts[i] + b_counts[j]
            i += 1
            j += 1
        n += 1
    return values[:n], counts[:n]


def _subtract(c: Any, c_counts: Any, a: Any, a_counts: Any) -> Any:
    values, counts = np.empty(len(c), c.dtype), np.empty(len(c), np.int64)
    j = n = 0
    for i in range(len(c)):
        left = c_counts[i]
        if j < len(a) and not _precedes(c[i], a[j]):
            left -= a_counts[j]
            j += 1
        if left > 0:
            values[n], counts[n] = c[i], left
            n += 1
    return values[:n], counts[:n]


def _above(values: Any, lo: Any, hi: Any, value: Any) -> Any:
    """The first of lo:hi that comes after the value; else hi."""
    while lo < hi:
        middle = (lo + hi) >> 1
        if _precedes(value, values[middle]):
            hi = middle
        else:
            lo = middle + 1
    return lo


def _select(values: Any, ends: Any, bounds: Any, low: Any, high: Any) -> Any:
    """The values at the ranks low and high (which is low or the next) of runs that follow each other in `values`: run r
    is bounds[r, 0]:bounds[r, 1], and `ends` counts the values up to each place from the first run on.

    The value at a rank is the least one that more values than the rank are not above. In each run it can only be
    in bounds[r, 2]:bounds[r, 3]; the middle of the longest such stretch is compared, which moves a bound of each."""
    runs = len(bounds)
    for r in range(runs):
        bounds[r, 2], bounds[r, 3] = bounds[r, 0], bounds[r, 1]
    found = values[0]
    while True:
        longest = 0
        for r in range(1, runs):
            if bounds[r, 3] - bounds[r, 2] > bounds[longest, 3] - bounds[longest, 2]:
                longest = r
        if bounds[longest, 2] == bounds[longest, 3]:
            break
        pivot = values[(bounds[longest, 2] + bounds[longest, 3]) >> 1]
        upto = 0  # values that are not above the pivot
        for r in range(runs):
            begin, at = bounds[r, 0], _above(values, bounds[r, 2], bounds[r, 3], pivot)
            bounds[r, 4] = at
            upto += (ends[at - 1] if at > 0 else 0) - (ends[begin - 1] if begin > 0 else 0)
        for r in range(runs):
            at = bounds[r, 4]
            if upto <= low:
                bounds[r, 2] = at
            else:
                found = pivot  # or one before it
                bounds[r, 3] = at - 1 if at > bounds[r, 2] and not _precedes(values[at - 1], pivot) else at
    upto, after, any_after = 0, found, False
    for r in range(runs):
        begin, at = bounds[r, 0], _above(values, bounds[r, 0], bounds[r, 1], found)
        upto += (ends[at - 1] if at > 0 else 0) - (ends[begin - 1] if begin > 0 else 0)
        if at < bounds[r, 1] and (not any_after or _precedes(values[at], after)):
            after, any_after = values[at], True
    return found, found if high < upto else after


def _precedes(x: Any, y: Any) -> Any:
    """x < y, where NaN is the greatest and equal to itself."""
    return x < y or (y != y and x == x)


_compiled_merge, _compiled_subtract, _compiled_select = (
    _OnFirstCall(_merge),
    _OnFirstCall(_subtract),
    _OnFirstCall(_select),
)


def run_monoid(type_: ValueType, lower: Function, result: pa.DataType, *, answers_empty: bool = False) -> Monoid:
    """The monoid of runs of such values; aggregates differ in what they lower a run to."""
    dtype = type_.dtype

    def lift(x: Any) -> Any:
        return (run_of_one(x, dtype),)

    def combine(a: Any, b: Any) -> Any:
        return (merged(a[0], b[0]),)

    def inverse(c: Any, a: Any) -> Any:
        return (without(c[0], a[0]),)

    def identity() -> Any:
        return (empty_run(dtype),)

    def seen(p: Any) -> Any:
        return not p[0].is_empty

    def gather(values: Any) -> Any:
        return (run_of(values.astype(dtype, copy=False)),)

    def unite(partials: Any) -> Any:
        runs = [run for (run,) in partials if not run.is_empty]
        return (United(runs) if len(runs) > 1 else runs[0] if runs else empty_run(dtype),)

    def decode(pair: Any) -> Run:
        return Run(*pair)

    return Monoid(
        (type_,),
        (object_field("run"),),
        lift,
        combine,
        lower,
        identity,
        result,
        inverse=inverse,
        seen=seen,
        gather=gather,
        unite=unite,
        answers_empty=answers_empty,
        interpreted="its partials are sorted runs of any length; only merging them is compiled",
        encode=tuple,
        decode=decode,
    )
