"""min and max, and what is made of them.

| aggregate | nulls | NaN | no values |
|---|---|---|---|
| min, max | skipped | NaN is the greatest value, as in Spark: max gives it, min only if there is nothing else | null |

They are selective: a ⊕ b is a or b. At a tie the younger is kept, so SlickDeque's deque stays shortest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.monoid import Field, Monoid, object_field
from windlass.aggregates.values import BOOL, FLOAT64, INT64, OBJECT, UINT64, ValueType


def min(column: str | None = None) -> Aggregate:
    """The least value."""
    return Aggregate("min", (column,), lambda type_: _extreme(type_, least=True), selective=True)


def max(column: str | None = None) -> Aggregate:
    """The greatest value."""
    return Aggregate("max", (column,), lambda type_: _extreme(type_, least=False), selective=True)


def not_above(a: Any, b: Any) -> Any:
    """a <= b where NaN is the greatest of all numbers and equal to itself."""
    return a <= b or b != b


LEAST: dict[Any, Any] = {INT64: np.iinfo(np.int64).min, UINT64: np.uint64(0), FLOAT64: -np.inf, BOOL: False}
GREATEST: dict[Any, Any] = {
    INT64: np.iinfo(np.int64).max,
    UINT64: np.uint64(np.iinfo(np.uint64).max),
    FLOAT64: np.nan,
    BOOL: True,
}


def _extreme(type_: ValueType, least: bool) -> Monoid:
    if type_.dtype == OBJECT:
        return _extreme_object(type_, least)
    worst = GREATEST[type_.dtype] if least else LEAST[type_.dtype]
    floating = type_.dtype == FLOAT64

    if least and floating:

        def selects(a: Any, b: Any) -> Any:
            return not_above(b[0], a[0])

    elif least:

        def selects(a: Any, b: Any) -> Any:
            return b[0] <= a[0]

    elif floating:

        def selects(a: Any, b: Any) -> Any:
            return not_above(a[0], b[0])

    else:

        def selects(a: Any, b: Any) -> Any:
            return a[0] <= b[0]

    def lift(x: Any) -> Any:
        return (x,)

    def combine(a: Any, b: Any) -> Any:
        return b if selects(a, b) else a

    def lower(p: Any) -> Any:
        return (p[0],)

    def identity() -> Any:
        return (worst,)

    fields = (Field("least" if least else "greatest", type_.dtype),)
    return Monoid((type_,), fields, lift, combine, lower, identity, type_.arrow, selects=selects)


def _extreme_object(type_: ValueType, least: bool) -> Monoid:
    """Strings, decimals, bytes: anything Python can order. None stands for no value."""

    def selects(a: Any, b: Any) -> Any:
        if a[0] is None or b[0] is None:
            return a[0] is None
        return b[0] <= a[0] if least else a[0] <= b[0]

    def lift(x: Any) -> Any:
        return (x,)

    def combine(a: Any, b: Any) -> Any:
        return b if selects(a, b) else a

    def lower(p: Any) -> Any:
        return (p[0],)

    def identity() -> Any:
        return (None,)

    def seen(p: Any) -> Any:
        return p[0] is not None

    return Monoid(
        (type_,),
        (object_field("least" if least else "greatest"),),
        lift,
        combine,
        lower,
        identity,
        type_.arrow,
        selects=selects,
        seen=seen,
        interpreted=f"values of {type_} are Python objects",
    )
