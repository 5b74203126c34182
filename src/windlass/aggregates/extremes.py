"""min and max, and what is made of them.

| aggregate | nulls | NaN and infinity | no values |
|---|---|---|---|
| min, max | skipped | NaN is the greatest value, as in Spark: min gives it only of nothing else | null |
| min_max | skipped | as min and max | null |
| spread | skipped | NaN if there is one, or if all values are the same infinity | null |
| arg_min, arg_max | skipped, also a null `by` | as min and max, in both columns | null |
| min_count, max_count | skipped | as min and max; NaN equals NaN | null |

min, max, arg_min and arg_max are selective: a ⊕ b is a or b. Where min and max tie the younger is kept, so
SlickDeque's deque stays shortest. Where arg_min and arg_max tie, the smallest argument wins: the answer then
does not depend on the order of arrival, which is what makes them commutative.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.aggregate import Aggregate, Build, refuse_type
from windlass.aggregates.monoid import Columns, Monoid, object_field
from windlass.aggregates.overflow import OnOverflow, as_signed, as_unsigned, checked, flagged, params
from windlass.aggregates.results import struct_of
from windlass.aggregates.values import BOOL, EXACT, FLOAT64, INT64, OBJECT, UINT64, ValueType, to_arrow, value_type
from windlass.kernels import Field


def min(column: str | None = None) -> Aggregate:
    """The least value."""
    return Aggregate("min", (column,), partial(_extreme, least=True), selective=True)


def max(column: str | None = None) -> Aggregate:
    """The greatest value."""
    return Aggregate("max", (column,), partial(_extreme, least=False), selective=True)


def min_max(column: str | None = None) -> Aggregate:
    """The least and the greatest value, as a struct {min, max}."""
    return Aggregate("min_max", (column,), _min_max, "algebraic")


def spread(column: str | None = None, *, on_overflow: OnOverflow = "raise") -> Aggregate:
    """The range: the greatest value less the least; of times, a duration.

    `on_overflow` says what a difference of more than 63 bits becomes: "raise" (an `Overflow`), "null", or "wrap" (the
    difference modulo 2^64). Differences of uint64 always fit.
    """
    mode = checked(on_overflow)
    return Aggregate("spread", (column,), _spread_build(mode), "algebraic", params=params(mode))


@cache
def _spread_build(on_overflow: OnOverflow) -> Build:
    return partial(_spread, on_overflow=on_overflow)


def arg_min(column: str | None = None, *, by: str) -> Aggregate:
    """The value of `column` where `by` is least; of several such events, the smallest value."""
    build = partial(_arg_extreme, least=True)
    return Aggregate("arg_min", (column, by), build, "algebraic", selective=True, keywords=("by",))


def arg_max(column: str | None = None, *, by: str) -> Aggregate:
    """The value of `column` where `by` is greatest; of several such events, the smallest value."""
    build = partial(_arg_extreme, least=False)
    return Aggregate("arg_max", (column, by), build, "algebraic", selective=True, keywords=("by",))


def min_count(column: str | None = None) -> Aggregate:
    """The least value and how often it occurs, as a struct {value, count}."""
    return Aggregate("min_count", (column,), partial(_extreme_count, least=True), "algebraic")


def max_count(column: str | None = None) -> Aggregate:
    """The greatest value and how often it occurs, as a struct {value, count}."""
    return Aggregate("max_count", (column,), partial(_extreme_count, least=False), "algebraic")


def not_above(a: Any, b: Any) -> Any:
    """a <= b where NaN is the greatest of all numbers and equal to itself."""
    return a <= b or b != b


def below(a: Any, b: Any) -> Any:
    return not not_above(b, a)


def above(a: Any, b: Any) -> Any:
    return not not_above(a, b)


def ordered(aggregate: str, type_: ValueType) -> ValueType:
    """Refuse values that have no order."""
    if pa.types.is_nested(type_.arrow) or pa.types.is_null(type_.arrow):
        raise refuse_type(aggregate, type_, "values with an order, such as numbers, times or strings")
    return type_


def interpreted(*types: ValueType) -> str | None:
    """Why partials that hold values of these types are Python objects, if they are."""
    objects = [str(type_) for type_ in types if type_.dtype == OBJECT]
    return f"values of {objects[0]} are Python objects" if objects else None


LEAST: dict[Any, Any] = {INT64: np.iinfo(np.int64).min, UINT64: np.uint64(0), FLOAT64: -np.inf, BOOL: False}
GREATEST: dict[Any, Any] = {
    INT64: np.iinfo(np.int64).max,
    UINT64: np.uint64(np.iinfo(np.uint64).max),
    FLOAT64: np.nan,
    BOOL: True,
}


def _extreme(type_: ValueType, least: bool) -> Monoid:
    ordered("min" if least else "max", type_)
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
        return (b[0] if selects(a, b) else a[0],)  # a choice of scalars compiles to one instruction

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
        interpreted=interpreted(type_),
    )


def _min_max(type_: ValueType) -> Monoid:
    least, greatest = _extreme(ordered("min_max", type_), least=True), _extreme(type_, least=False)
    lesser, greater = least.combine, greatest.combine
    nothing = least.identity() + greatest.identity()

    def lift(x: Any) -> Any:
        return (x, x)

    def combine(a: Any, b: Any) -> Any:
        return lesser((a[0],), (b[0],)) + greater((a[1],), (b[1],))

    def lower(p: Any) -> Any:
        return p

    def identity() -> Any:
        return nothing

    return Monoid(
        (type_,),
        least.fields + greatest.fields,
        lift,
        combine,
        lower,
        identity,
        **struct_of({"min": type_, "max": type_}),
        interpreted=least.interpreted,
    )


def _spread(type_: ValueType, on_overflow: OnOverflow) -> Monoid:
    result = _difference(type_)
    both = _min_max(type_)
    if on_overflow != "wrap" and type_.dtype == INT64 and type_.arrow.bit_width == 64:
        return replace(both, lower=_difference_and_high, **flagged("spread", result, on_overflow))

    def lower(p: Any) -> Any:
        return (p[1] - p[0],)

    def lower_decimals(p: Any) -> Any:
        return (EXACT.subtract(p[1], p[0]),)

    def days(columns: Columns, defined: np.ndarray[Any, Any] | None) -> pa.Array:
        return to_arrow(columns[0] * 86_400, defined, result)

    return replace(
        both,
        lower=lower_decimals if type_.is_decimal else lower,
        result=result,
        results=(Field("spread", value_type(result).dtype),),
        finish=days if pa.types.is_date32(type_.arrow) else None,
    )


def _difference_and_high(p: Any) -> Any:
    """The difference modulo 2^64, and 1 if it has more than 63 bits."""
    low = as_signed(as_unsigned(p[1]) - as_unsigned(p[0]))
    return (low, int(low < 0))


def _difference(type_: ValueType) -> pa.DataType:
    """The type of a difference between two such values."""
    arrow, t = type_.arrow, pa.types
    if t.is_timestamp(arrow) or t.is_time(arrow) or t.is_duration(arrow):
        return pa.duration(arrow.unit)
    if t.is_date(arrow):
        return pa.duration("s" if t.is_date32(arrow) else "ms")
    if type_.is_decimal:
        return pa.decimal256(76, arrow.scale) if arrow.bit_width == 256 else pa.decimal128(38, arrow.scale)
    if not type_.is_number or type_.dtype == BOOL:
        raise refuse_type("spread", type_, "numbers, decimals or times")
    return {INT64: pa.int64(), UINT64: pa.uint64(), FLOAT64: pa.float64()}[type_.dtype]


def _arg_extreme(value: ValueType, by: ValueType, least: bool) -> Monoid:
    for type_ in (value, by):
        ordered("arg_min" if least else "arg_max", type_)
    leads = below if least else above
    no_value, no_by = LEAST.get(value.dtype), LEAST.get(by.dtype)

    def selects(a: Any, b: Any) -> Any:
        if not (a[2] and b[2]):
            return not a[2]
        if leads(a[0], b[0]):
            return False
        return leads(b[0], a[0]) or not_above(b[1], a[1])

    def lift(x: Any, order: Any) -> Any:
        return (order, x, True)

    def combine(a: Any, b: Any) -> Any:
        return b if selects(a, b) else a

    def lower(p: Any) -> Any:
        return (p[1],)

    def identity() -> Any:
        return (no_by, no_value, False)

    def seen(p: Any) -> Any:
        return p[2]

    return Monoid(
        (value, by),
        (Field("by", by.dtype), Field("value", value.dtype), Field("seen", BOOL)),
        lift,
        combine,
        lower,
        identity,
        value.arrow,
        selects=selects,
        seen=seen,
        interpreted=interpreted(value, by),
    )


def _extreme_count(type_: ValueType, least: bool) -> Monoid:
    ordered("min_count" if least else "max_count", type_)
    leads, nothing = below if least else above, LEAST.get(type_.dtype)

    def lift(x: Any) -> Any:
        return (x, 1)

    def combine(a: Any, b: Any) -> Any:
        if a[1] == 0:
            return b
        if b[1] == 0 or leads(a[0], b[0]):
            return a
        if leads(b[0], a[0]):
            return b
        return (b[0], a[1] + b[1])

    def lower(p: Any) -> Any:
        return p

    def identity() -> Any:
        return (nothing, 0)

    def seen(p: Any) -> Any:
        return p[1] > 0

    return Monoid(
        (type_,),
        (Field("value", type_.dtype), Field("count", INT64)),
        lift,
        combine,
        lower,
        identity,
        **struct_of({"value": type_, "count": value_type(pa.int64())}),
        seen=seen,
        interpreted=interpreted(type_),
    )
