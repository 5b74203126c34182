"""count_distinct and mode, exact: the values are kept as sorted runs (see `runs`).

| aggregate | nulls | NaN and infinity | no values |
|---|---|---|---|
| count_distinct | skipped | NaN is one value, as in Spark | 0 |
| mode | skipped | NaN is one value and the greatest | null |

Values of any type that has an order, strings included. Among equally frequent values, `mode` is the least.
Partials grow with the number of distinct values; for a bounded partial use `approx_count_distinct`.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from windlass.aggregates.aggregate import Aggregate, refuse_type
from windlass.aggregates.monoid import Monoid
from windlass.aggregates.runs import run_monoid
from windlass.aggregates.values import ValueType


def count_distinct(column: str | None = None) -> Aggregate:
    """How many different values there are."""
    return Aggregate("count_distinct", (column,), _count_distinct, "holistic", invertible=True)


def mode(column: str | None = None) -> Aggregate:
    """The most frequent value; of several, the least."""
    return Aggregate("mode", (column,), _mode, "holistic", invertible=True)


def _count_distinct(type_: ValueType) -> Monoid:
    def lower(p: Any) -> Any:
        return (len(p[0].values),)

    return run_monoid(_ordered("count_distinct", type_), lower, pa.int64(), answers_empty=True)


def _mode(type_: ValueType) -> Monoid:
    def lower(p: Any) -> Any:
        return (p[0].values[p[0].counts.argmax()],)  # of equal counts, argmax takes the first

    return run_monoid(_ordered("mode", type_), lower, type_.arrow)


def _ordered(name: str, type_: ValueType) -> ValueType:
    if pa.types.is_nested(type_.arrow):
        raise refuse_type(name, type_, "values that have an order")
    return type_
