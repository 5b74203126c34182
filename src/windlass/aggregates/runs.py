"""Sorted runs with run-length encoding: the partial of every exact holistic aggregate (Scotty 5.4.1).

A run is the multiset of a slice's values: the distinct ones in ascending order, and how often each occurs.

    5 3 5 5 9   →   values 3 5 9
                    counts 1 3 1

Two runs merge in one linear pass, and a run that was merged in can be taken out again the same way. A run
is never changed once it is made. NaN is one value and the greatest, as in Spark; -0.0 and 0.0 are one value.
"""

from __future__ import annotations

from collections.abc import Callable
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


def _precedes(x: Any, y: Any) -> Any:
    """x < y, where NaN is the greatest and equal to itself."""
    return x < y or (y != y and x == x)


_compiled_merge, _compiled_subtract = _OnFirstCall(_merge), _OnFirstCall(_subtract)


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
        return len(p[0].values) > 0

    def gather(values: Any) -> Any:
        return (run_of(values.astype(dtype, copy=False)),)

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
        answers_empty=answers_empty,
        interpreted="its partials are sorted runs of any length; only merging them is compiled",
        encode=tuple,
        decode=decode,
    )
