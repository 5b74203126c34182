"""bool_and and bool_or: they share one count of the true values and one of the false.

| aggregate | nulls | NaN and infinity | no values |
|---|---|---|---|
| bool_and | skipped | none among booleans | null |
| bool_or | skipped | none among booleans | null |

A single flag would do to combine, but nothing could be taken off it again; counts can be subtracted.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa

from windlass.aggregates.aggregate import Aggregate, refuse_type
from windlass.aggregates.monoid import Monoid
from windlass.aggregates.values import BOOL, INT64, ValueType
from windlass.kernels import Field


def bool_and(column: str | None = None) -> Aggregate:
    """Whether every value is true."""
    return Aggregate("bool_and", (column,), partial(_tally, "bool_and", _all), "algebraic", invertible=True)


def bool_or(column: str | None = None) -> Aggregate:
    """Whether any value is true."""
    return Aggregate("bool_or", (column,), partial(_tally, "bool_or", _any), "algebraic", invertible=True)


def _all(p: Any) -> Any:
    return (p[1] == 0,)


def _any(p: Any) -> Any:
    return (p[0] > 0,)


def _tally(name: str, lower: Any, type_: ValueType) -> Monoid:
    if type_.dtype != BOOL:
        raise refuse_type(name, type_, "booleans")

    def lift(x: Any) -> Any:
        return (1, 0) if x else (0, 1)

    def combine(a: Any, b: Any) -> Any:
        return (a[0] + b[0], a[1] + b[1])

    def inverse(c: Any, a: Any) -> Any:
        return (c[0] - a[0], c[1] - a[1])

    def identity() -> Any:
        return (0, 0)

    def seen(p: Any) -> Any:
        return p[0] + p[1] > 0

    fields = (Field("trues", INT64), Field("falses", INT64))
    return Monoid((type_,), fields, lift, combine, lower, identity, pa.bool_(), inverse=inverse, seen=seen)
