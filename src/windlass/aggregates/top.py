"""top_n: the n greatest or least values, best first.

| aggregate | nulls | NaN and infinity | no values |
|---|---|---|---|
| top_n | skipped | NaN is the greatest value, as in Spark | an empty list |

A partial holds up to n values in order; ⊕ merges two such runs and keeps the first n. Equal values are kept
as often as they occur. What fell off the end cannot come back, so there is no inverse.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.extremes import above, below, interpreted, ordered
from windlass.aggregates.monoid import Monoid, object_field
from windlass.aggregates.order import positive
from windlass.aggregates.results import list_of
from windlass.aggregates.values import INT64, OBJECT, ValueType
from windlass.errors import InvalidArgument
from windlass.kernels import Field


def top_n(column: str | None = None, n: int = 10, largest: bool = True) -> Aggregate:
    """The n greatest values in descending order, or with `largest=False` the n least in ascending order."""
    size = positive("top_n", "n", n)
    if not isinstance(largest, bool):
        raise InvalidArgument(f"top_n: largest must be True or False, got {largest!r}")
    return Aggregate(
        "top_n",
        (column,),
        partial(_best, size, above if largest else below),
        "algebraic",
        params=(("n", size),) if largest else (("n", size), ("largest", False)),
    )


def _best(size: int, leads: Any, type_: ValueType) -> Monoid:
    if ordered("top_n", type_).dtype == OBJECT:
        return _best_objects(type_, size, descending=leads is above)
    dtype = type_.dtype.type

    def lift(x: Any) -> Any:
        values = np.zeros(size, dtype)
        values[0] = x
        return (values, 1)

    def combine(a: Any, b: Any) -> Any:
        values, count = np.zeros(size, dtype), min(size, a[1] + b[1])
        i = j = 0
        for k in range(count):
            if j == b[1] or (i < a[1] and not leads(b[0][j], a[0][i])):
                values[k] = a[0][i]
                i += 1
            else:
                values[k] = b[0][j]
                j += 1
        return (values, count)

    def lower(p: Any) -> Any:
        return p

    def identity() -> Any:
        return (np.zeros(size, dtype), 0)

    return Monoid(
        (type_,),
        (Field("values", type_.dtype, (size,)), Field("count", INT64)),
        lift,
        combine,
        lower,
        identity,
        **list_of(type_, longest=size),
        answers_empty=True,
        allocates=True,
    )


def _best_objects(type_: ValueType, size: int, descending: bool) -> Monoid:
    def lift(x: Any) -> Any:
        return ((x,),)

    def combine(a: Any, b: Any) -> Any:
        return (tuple(sorted(a[0] + b[0], reverse=descending)[:size]),)

    def lower(p: Any) -> Any:
        return p

    def identity() -> Any:
        return ((),)

    return Monoid(
        (type_,),
        (object_field("values"),),
        lift,
        combine,
        lower,
        identity,
        **list_of(type_),
        answers_empty=True,
        interpreted=interpreted(type_),
        encode=list,
        decode=tuple,
    )
