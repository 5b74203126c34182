"""Aggregates that depend on the order of events: first, last, collect_list, concat, ith_youngest.

| aggregate | nulls | NaN and infinity | no values |
|---|---|---|---|
| first, last | skipped | values like any other | null |
| collect_list | skipped, as in Spark | values like any other | an empty list |
| concat | skipped | none among strings | null |
| ith_youngest | skipped | values like any other | null, also of fewer than i values |

None of them commutes: the older part stands on the left. Lists and texts can be subtracted, because what
leaves is always the oldest part, a prefix. ith_youngest forgets all but the youngest i values and cannot.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.aggregate import Aggregate, refuse_type
from windlass.aggregates.extremes import LEAST, interpreted
from windlass.aggregates.monoid import Monoid, object_field
from windlass.aggregates.results import list_of
from windlass.aggregates.values import BOOL, INT64, OBJECT, ValueType
from windlass.errors import InvalidArgument
from windlass.kernels import Field


def first(column: str | None = None) -> Aggregate:
    """The oldest value that is not null."""
    return Aggregate("first", (column,), partial(_end, _not_yet), commutative=False, selective=True)


def last(column: str | None = None) -> Aggregate:
    """The youngest value that is not null."""
    return Aggregate("last", (column,), partial(_end, _again), commutative=False, selective=True)


def _not_yet(a: Any, b: Any) -> Any:
    return not a[1]


def _again(a: Any, b: Any) -> Any:
    return b[1]


def collect_list(column: str | None = None) -> Aggregate:
    """All values that are not null, as a list, oldest first."""
    return Aggregate("collect_list", (column,), _collect, "holistic", commutative=False, invertible=True)


def concat(column: str | None = None, separator: str = "") -> Aggregate:
    """All texts joined, oldest first."""
    if not isinstance(separator, str):
        raise InvalidArgument(f"concat: the separator must be a string, got {separator!r}")
    return Aggregate(
        "concat",
        (column,),
        partial(_concat, separator),
        "holistic",
        commutative=False,
        invertible=True,
        params=(("separator", separator),) if separator else (),
    )


def ith_youngest(column: str | None = None, i: int = 1) -> Aggregate:
    """The i-th youngest value that is not null; i = 1 is the youngest. A partial holds i values."""
    size = positive("ith_youngest", "i", i)
    return Aggregate(
        "ith_youngest",
        (column,),
        partial(_youngest, size),
        "algebraic",
        commutative=False,
        params=(("i", size),),
    )


def positive(aggregate: str, parameter: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InvalidArgument(f"{aggregate}: {parameter} must be an integer, got {value!r}")
    if value < 1:
        raise InvalidArgument(f"{aggregate}: {parameter} must be at least 1, got {value}")
    return int(value)


def _end(selects: Any, type_: ValueType) -> Monoid:
    nothing = LEAST.get(type_.dtype)

    def lift(x: Any) -> Any:
        return (x, True)

    def combine(a: Any, b: Any) -> Any:
        return b if selects(a, b) else a

    def lower(p: Any) -> Any:
        return (p[0],)

    def identity() -> Any:
        return (nothing, False)

    def seen(p: Any) -> Any:
        return p[1]

    return Monoid(
        (type_,),
        (Field("value", type_.dtype), Field("seen", BOOL)),
        lift,
        combine,
        lower,
        identity,
        type_.arrow,
        selects=selects,
        seen=seen,
        interpreted=interpreted(type_),
    )


def _collect(type_: ValueType) -> Monoid:
    def lift(x: Any) -> Any:
        return ((x,),)

    def combine(a: Any, b: Any) -> Any:
        return (a[0] + b[0],)

    def inverse(c: Any, a: Any) -> Any:
        return (c[0][len(a[0]) :],)

    def lower(p: Any) -> Any:
        return p

    def identity() -> Any:
        return ((),)

    def gather(values: Any) -> Any:
        return (tuple(values.tolist()),)

    return Monoid(
        (type_,),
        (object_field("values"),),
        lift,
        combine,
        lower,
        identity,
        **list_of(type_),
        inverse=inverse,
        gather=gather,
        answers_empty=True,
        interpreted="a list grows with its window",
        encode=list,
        decode=tuple,
    )


def _concat(separator: str, type_: ValueType) -> Monoid:
    arrow, t = type_.arrow, pa.types
    if not (t.is_string(arrow) or t.is_large_string(arrow) or t.is_string_view(arrow)):
        raise refuse_type("concat", type_, "strings")

    def lift(x: Any) -> Any:
        return (x, 1)

    def combine(a: Any, b: Any) -> Any:
        if a[1] == 0 or b[1] == 0:
            return b if a[1] == 0 else a
        return (a[0] + separator + b[0], a[1] + b[1])

    def inverse(c: Any, a: Any) -> Any:
        # The counts tell an empty text that is left from no text at all.
        if a[1] == 0 or a[1] == c[1]:
            return c if a[1] == 0 else identity()
        return (c[0][len(a[0]) + len(separator) :], c[1] - a[1])

    def lower(p: Any) -> Any:
        return (p[0],)

    def identity() -> Any:
        return ("", 0)

    def seen(p: Any) -> Any:
        return p[1] > 0

    return Monoid(
        (type_,),
        (object_field("text"), Field("count", INT64)),
        lift,
        combine,
        lower,
        identity,
        arrow,
        inverse=inverse,
        seen=seen,
        interpreted="a text grows with its window",
    )


def _youngest(size: int, type_: ValueType) -> Monoid:
    if type_.dtype == OBJECT:
        return _youngest_objects(type_, size)
    """(values, youngest first; how many of them count)."""
    dtype = type_.dtype.type

    def lift(x: Any) -> Any:
        values = np.zeros(size, dtype)
        values[0] = x
        return (values, 1)

    def combine(a: Any, b: Any) -> Any:
        values, count = np.zeros(size, dtype), min(size, a[1] + b[1])
        for k in range(b[1]):
            values[k] = b[0][k]
        for k in range(b[1], count):
            values[k] = a[0][k - b[1]]
        return (values, count)

    def lower(p: Any) -> Any:
        return (p[0][size - 1],)

    def identity() -> Any:
        return (np.zeros(size, dtype), 0)

    def full(p: Any) -> Any:
        return p[1] == size

    fields = (Field("values", type_.dtype, (size,)), Field("count", INT64))
    return Monoid(
        (type_,), fields, lift, combine, lower, identity, type_.arrow, defined=full, seen=full, allocates=True
    )


def _youngest_objects(type_: ValueType, size: int) -> Monoid:
    def lift(x: Any) -> Any:
        return ((x,),)

    def combine(a: Any, b: Any) -> Any:
        return ((a[0] + b[0])[-size:],)

    def lower(p: Any) -> Any:
        return (p[0][0],)

    def identity() -> Any:
        return ((),)

    def full(p: Any) -> Any:
        return len(p[0]) == size

    return Monoid(
        (type_,),
        (object_field("values"),),
        lift,
        combine,
        lower,
        identity,
        type_.arrow,
        defined=full,
        seen=full,
        interpreted=interpreted(type_),
        encode=list,
        decode=tuple,
    )
