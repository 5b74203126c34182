"""sum, count and avg: they share one sum and one count.

| aggregate | nulls | NaN and infinity | no values |
|---|---|---|---|
| sum | skipped | as in IEEE: NaN wins, +inf and -inf give NaN | null |
| count() | counted, it counts events | counted | 0 |
| count(x) | skipped | counted | 0 |
| avg | skipped | as sum | null |
| avg with a weight | skipped, in either column | as sum; weights that sum to 0: NaN or infinity | null |

A sum of integers is an integer of 64 bits. One that does not fit is an error, as in Spark, or what `on_overflow` asks
for. One that fits is exact, whatever the intermediate sums (`overflow` says how). Integers of up to 32 bits are
added in 64 and not watched: their sum fits for the first 2^31 events. A mean does not wrap: a sum
of up to 32 bits each is exact; of 64 bits each it is a float64, as in Spark, exact while it stays below 2^53. Where a
technique subtracts, that one has 96 bits and is exact, for the 2^32 - 1 events that can be counted beside it.

Decimals add exactly, as Python objects. Their sum has 38 digits and their scale, their mean four digits more after
the point, rounded half to even, as in Spark (of decimal256: 76 digits). An answer that needs more is an error; a sum
can be null instead.

Floats that are only ever added are added plainly. Where a technique subtracts, plain floats would drift and one
infinity would leave NaN behind for good. The invertible form therefore keeps an unevaluated sum of three floats
(about 159 bits; Dekker 1971, Knuth's TwoSum), sums values from 1e30 apart, and counts NaN and infinities instead of
adding them; `double` says what that leaves of an outlier.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.aggregate import Aggregate, Build, refuse_type
from windlass.aggregates.double import (
    exact_fields,
    exact_identity,
    exact_lift,
    exact_minus,
    exact_plus,
    exact_value,
    quotient,
)
from windlass.aggregates.monoid import Columns, Monoid, object_field
from windlass.aggregates.overflow import HIGH, OnOverflow, as_signed, as_unsigned, checked, flagged, modulo, params
from windlass.aggregates.values import EXACT, FLOAT64, INT64, UINT64, ValueType, to_arrow
from windlass.errors import InvalidArgument
from windlass.kernels import Field, plus_in_any_order, unsigned

_CARRY, _TWO_TO_64 = 1 << 32, 2.0**64


def sum(column: str | None = None, *, on_overflow: OnOverflow = "raise") -> Aggregate:
    """The sum. Integers stay integers, floats floats, decimals decimals; durations add up too.

    Parameters
    ----------
    column
        Name of a column of numbers, booleans, decimals or durations. Omit it for a store fed with plain arrays.
    on_overflow
        What becomes of a sum that its type cannot hold: int64 (also of narrower integers), uint64, a duration, or a
        decimal of 38 or 76 digits. "raise": `windlass.errors.Overflow`. "null": null. "wrap": the sum modulo 2^64, as
        in NumPy and Java (not of decimals). A sum of floats overflows to infinity instead.

    Examples
    --------
    >>> from windlass import agg
    >>> agg.sum().of([2**62, 2**62, -(2**62)])
    4611686018427387904
    >>> agg.sum(on_overflow="wrap").of([2**62, 2**62])
    -9223372036854775808
    """
    mode = checked(on_overflow)
    build, build_invertible = _builds(mode)
    return Aggregate("sum", (column,), build, invertible=True, build_invertible=build_invertible, params=params(mode))


@cache
def _builds(on_overflow: OnOverflow) -> tuple[Build, Build]:
    """The build functions of a mode. One pair per mode: built monoids are cached by the function."""
    return partial(_sum, on_overflow=on_overflow), partial(_exact_sum, on_overflow=on_overflow)


def count(column: str | None = None) -> Aggregate:
    """How many events there are, or, with a column, how many of them have a value in it."""
    return Aggregate("count", () if column is None else (column,), _count, invertible=True)


def avg(column: str | None = None, *, weight: str | None = None) -> Aggregate:
    """The mean, or with `weight` the weighted mean: `avg("price", weight="volume")`."""
    if weight is None:
        return Aggregate("avg", (column,), _avg, "algebraic", invertible=True, build_invertible=_exact_avg)
    return Aggregate(
        "avg",
        (column, weight),
        _weighted_avg,
        "algebraic",
        invertible=True,
        build_invertible=_exact_weighted_avg,
        keywords=("weight",),
    )


mean = avg  # as in Spark, under both names


def _count(*types: ValueType) -> Monoid:
    def lift(*_: Any) -> Any:
        return (1,)

    def combine(a: Any, b: Any) -> Any:
        return (a[0] + b[0],)

    def inverse(c: Any, a: Any) -> Any:
        return (c[0] - a[0],)

    def lower(p: Any) -> Any:
        return (p[0],)

    def identity() -> Any:
        return (0,)

    return Monoid(
        types,
        (Field("count", INT64),),
        lift,
        combine,
        lower,
        identity,
        pa.int64(),
        inverse=inverse,
        answers_empty=True,
        wraps=True,
    )


def _sum(type_: ValueType, on_overflow: OnOverflow = "raise") -> Monoid:
    zero: Any
    if type_.is_decimal:
        return _decimal_sum(type_, on_overflow)
    if pa.types.is_duration(type_.arrow):
        zero, result, fields = 0, type_.arrow, (Field("sum", INT64),)
    elif not type_.is_number:
        raise refuse_type("sum", type_, "numbers, decimals or durations")
    elif type_.dtype == FLOAT64:
        zero, result, fields = 0.0, pa.float64(), (Field("sum", FLOAT64),)
    elif type_.dtype == UINT64:
        zero, result, fields = np.uint64(0), pa.uint64(), (Field("sum", UINT64),)
    else:
        zero, result, fields = 0, pa.int64(), (Field("sum", INT64),)

    def lift(x: Any) -> Any:
        return (zero + x,)

    def combine(a: Any, b: Any) -> Any:
        return (a[0] + b[0],)

    def inverse(c: Any, a: Any) -> Any:
        return (c[0] - a[0],)

    def lower(p: Any) -> Any:
        return (p[0],)

    def identity() -> Any:
        return (zero,)

    scan = _scan_floats if type_.dtype == FLOAT64 else None  # integers LLVM reorders by itself
    wraps = zero.__class__ is not float
    m = Monoid((type_,), fields, lift, combine, lower, identity, result, inverse=inverse, scan=scan, wraps=wraps)
    may_wrap = wraps and on_overflow != "wrap" and (_is_long(type_) or result == type_.arrow)
    return replace(m, wide=_wide_sum(type_, result, on_overflow)) if may_wrap else m


def _wide_sum(type_: ValueType, result: pa.DataType, on_overflow: OnOverflow) -> Monoid:
    """The sum as an integer of 128 bits: low + 2^64 · high."""
    is_signed = type_.dtype != UINT64
    zero: Any = 0 if is_signed else np.uint64(0)

    def lift(x: Any) -> Any:
        return (zero + x, 0)

    def combine(a: Any, b: Any) -> Any:
        low = as_signed(as_unsigned(a[0]) + as_unsigned(b[0]))
        return (low, a[1] + b[1] + int(low < a[0]) + (b[0] >> 63))  # low < a: a wrap if b >= 0, normal if b < 0

    def inverse(c: Any, a: Any) -> Any:
        low = as_signed(as_unsigned(c[0]) - as_unsigned(a[0]))
        return (low, c[1] - a[1] - int(low > c[0]) - (a[0] >> 63))

    def combine_unsigned(a: Any, b: Any) -> Any:
        low = modulo(int(a[0]) + int(b[0]))
        return (low, a[1] + b[1] + int(low < a[0]))

    def inverse_unsigned(c: Any, a: Any) -> Any:
        low = modulo(int(c[0]) - int(a[0]))
        return (low, c[1] - a[1] - int(low > c[0]))

    def lower(p: Any) -> Any:
        return p

    def identity() -> Any:
        return (zero, 0)

    return Monoid(
        (type_,),
        (Field("sum", type_.dtype), HIGH),
        lift,
        combine if is_signed else combine_unsigned,
        lower,
        identity,
        inverse=inverse if is_signed else inverse_unsigned,
        wraps=True,
        **flagged("sum", result, on_overflow),
    )


def _scan_floats(columns: Any, first: Any, last: Any) -> Any:
    total = columns[0][unsigned(first)]
    for i in range(first + 1, last):
        total = plus_in_any_order(total, columns[0][unsigned(i)])
    return (total,)


def _decimal_sum(type_: ValueType, on_overflow: OnOverflow) -> Monoid:
    if on_overflow == "wrap":
        raise InvalidArgument(f"a sum of {type_} cannot wrap: on_overflow is 'raise' or 'null' for decimals")
    result = widest_decimal(type_, type_.arrow.scale)
    limit = Decimal(1).scaleb(result.precision - result.scale)

    def finish(columns: Columns, defined: np.ndarray[Any, Any] | None) -> pa.Array:
        valid = np.ones(len(columns[0]), np.bool_) if defined is None else defined.copy()
        for row in np.flatnonzero(valid):
            valid[row] = columns[0][row].copy_abs() < limit  # abs() would round
        return to_arrow(columns[0], None if valid.all() else valid, result)

    def lift(x: Any) -> Any:
        return (x,)

    def combine(a: Any, b: Any) -> Any:
        return (EXACT.add(a[0], b[0]),)

    def inverse(c: Any, a: Any) -> Any:
        return (EXACT.subtract(c[0], a[0]),)

    def lower(p: Any) -> Any:
        return (p[0],)

    def identity() -> Any:
        return (Decimal(0),)

    return Monoid(
        (type_,),
        (object_field("sum"),),
        lift,
        combine,
        lower,
        identity,
        result,
        finish=finish if on_overflow == "null" else None,
        inverse=inverse,
        interpreted="decimals are Python objects",
    )


def widest_decimal(type_: ValueType, scale: int) -> pa.DataType:
    """All the digits that decimals of this width can have, as many of them after the point as asked and possible."""
    if type_.arrow.bit_width == 256:
        return pa.decimal256(76, min(scale, 76))
    return pa.decimal128(38, min(scale, 38))


def _exact_sum(type_: ValueType, on_overflow: OnOverflow = "raise") -> Monoid:
    if type_.dtype != FLOAT64:
        return _sum(type_, on_overflow)

    def lower(p: Any) -> Any:
        return (exact_value(p),)

    return Monoid(
        (type_,),
        exact_fields("sum"),
        exact_lift,
        exact_plus,
        lower,
        exact_identity,
        pa.float64(),
        inverse=exact_minus,
    )


def _avg(type_: ValueType) -> Monoid:
    if type_.is_decimal:
        return _decimal_avg(type_)
    if not type_.is_number:
        raise refuse_type("avg", type_, "numbers or decimals")
    exact = type_.dtype != FLOAT64 and not _is_long(type_)  # 32 bits each: their sum cannot leave 64
    zero: Any = 0 if exact else 0.0

    def lift(x: Any) -> Any:
        return (zero + x, 1)

    def combine(a: Any, b: Any) -> Any:
        return (a[0] + b[0], a[1] + b[1])

    def inverse(c: Any, a: Any) -> Any:
        return (c[0] - a[0], c[1] - a[1])

    def lower(p: Any) -> Any:
        return (p[0] / p[1],)

    def identity() -> Any:
        return (zero, 0)

    def seen(p: Any) -> Any:
        return p[1] > 0

    fields = (Field("sum", INT64 if exact else FLOAT64), Field("count", INT64))
    scan = None if exact else _scan_means
    return Monoid((type_,), fields, lift, combine, lower, identity, pa.float64(), inverse=inverse, seen=seen, scan=scan)


def _scan_means(columns: Any, first: Any, last: Any) -> Any:
    total, count = columns[0][unsigned(first)], columns[1][unsigned(first)]
    for i in range(first + 1, last):
        total = plus_in_any_order(total, columns[0][unsigned(i)])
        count += columns[1][unsigned(i)]
    return (total, count)


def _is_long(type_: ValueType) -> bool:
    return bool(pa.types.is_int64(type_.arrow) or pa.types.is_uint64(type_.arrow))


def _exact_long_avg(type_: ValueType) -> Monoid:
    """A sum of 96 bits and a count of 32 in two fields, which keeps it fast: (sum mod 2^64, count + carry · 2^32).

    With the lower 64 bits taken as signed there is no carry in any sum that 64 bits can hold.
    """

    def lift(x: Any) -> Any:
        return (x, 1)

    def lift_unsigned(x: Any) -> Any:
        low = as_signed(int(np.uint64(x)))
        return (low, 1 + _CARRY if low < 0 else 1)

    def combine(a: Any, b: Any) -> Any:
        low = as_signed(as_unsigned(a[0]) + as_unsigned(b[0]))
        carry = int(low < a[0]) + (b[0] >> 63)  # low < a: a wrap if b >= 0, normal if b < 0
        return (low, a[1] + b[1] + carry * _CARRY)

    def inverse(c: Any, a: Any) -> Any:
        low = as_signed(as_unsigned(c[0]) - as_unsigned(a[0]))
        carry = int(low > c[0]) + (a[0] >> 63)
        return (low, c[1] - a[1] - carry * _CARRY)

    def lower(p: Any) -> Any:
        carry, total = p[1] >> 32, float(p[0])
        if carry != 0:
            total += float(carry) * _TWO_TO_64
        return (total / float(p[1] & (_CARRY - 1)),)

    def identity() -> Any:
        return (0, 0)

    def seen(p: Any) -> Any:
        return p[1] & (_CARRY - 1) > 0

    return Monoid(
        (type_,),
        (Field("sum", INT64), Field("count", INT64)),
        lift_unsigned if type_.dtype == UINT64 else lift,
        combine,
        lower,
        identity,
        pa.float64(),
        inverse=inverse,
        seen=seen,
    )


def _decimal_avg(type_: ValueType) -> Monoid:
    result = widest_decimal(type_, type_.arrow.scale + 4)
    last_digit = Decimal(1).scaleb(-result.scale)

    def lift(x: Any) -> Any:
        return (x, 1)

    def combine(a: Any, b: Any) -> Any:
        return (EXACT.add(a[0], b[0]), a[1] + b[1])

    def inverse(c: Any, a: Any) -> Any:
        return (EXACT.subtract(c[0], a[0]), c[1] - a[1])

    def lower(p: Any) -> Any:
        return (EXACT.quantize(EXACT.divide(p[0], int(p[1])), last_digit),)

    def identity() -> Any:
        return (Decimal(0), 0)

    def seen(p: Any) -> Any:
        return p[1] > 0

    return Monoid(
        (type_,),
        (object_field("sum"), Field("count", INT64)),
        lift,
        combine,
        lower,
        identity,
        result,
        inverse=inverse,
        seen=seen,
        interpreted="decimals are Python objects",
    )


def _exact_avg(type_: ValueType) -> Monoid:
    if _is_long(type_):
        return _exact_long_avg(type_)
    if type_.dtype != FLOAT64:
        return _avg(type_)

    def lift(x: Any) -> Any:
        return exact_lift(x) + (1,)

    def combine(a: Any, b: Any) -> Any:
        return exact_plus(a[:-1], b[:-1]) + (a[-1] + b[-1],)

    def inverse(c: Any, a: Any) -> Any:
        return exact_minus(c[:-1], a[:-1]) + (c[-1] - a[-1],)

    def lower(p: Any) -> Any:
        return (exact_value(p[:-1]) / p[-1],)

    def identity() -> Any:
        return exact_identity() + (0,)

    def seen(p: Any) -> Any:
        return p[-1] > 0

    fields = (*exact_fields("sum"), Field("count", INT64))
    return Monoid((type_,), fields, lift, combine, lower, identity, pa.float64(), inverse=inverse, seen=seen)


def _weighted_avg(value: ValueType, weight: ValueType) -> Monoid:
    for type_ in (value, weight):
        if not type_.is_number:
            raise refuse_type("a weighted avg", type_, "numbers")

    def lift(x: Any, w: Any) -> Any:
        return (float(x) * float(w), float(w), 1)

    def combine(a: Any, b: Any) -> Any:
        return (a[0] + b[0], a[1] + b[1], a[2] + b[2])

    def lower(p: Any) -> Any:
        return (quotient(p[0], p[1]),)

    def identity() -> Any:
        return (0.0, 0.0, 0)

    def seen(p: Any) -> Any:
        return p[2] > 0

    fields = (Field("weighted", FLOAT64), Field("weight", FLOAT64), Field("count", INT64))
    return Monoid((value, weight), fields, lift, combine, lower, identity, pa.float64(), seen=seen)


def _exact_weighted_avg(value: ValueType, weight: ValueType) -> Monoid:
    plain = _weighted_avg(value, weight)
    half = len(exact_fields("sum"))

    def lift(x: Any, w: Any) -> Any:
        return exact_lift(float(x) * float(w)) + exact_lift(float(w)) + (1,)

    def combine(a: Any, b: Any) -> Any:
        return exact_plus(a[:half], b[:half]) + exact_plus(a[half:-1], b[half:-1]) + (a[-1] + b[-1],)

    def inverse(c: Any, a: Any) -> Any:
        return exact_minus(c[:half], a[:half]) + exact_minus(c[half:-1], a[half:-1]) + (c[-1] - a[-1],)

    def lower(p: Any) -> Any:
        return (quotient(exact_value(p[:half]), exact_value(p[half:-1])),)

    def identity() -> Any:
        return exact_identity() + exact_identity() + (0,)

    def seen(p: Any) -> Any:
        return p[-1] > 0

    fields = (*exact_fields("weighted"), *exact_fields("weight"), Field("count", INT64))
    return Monoid(plain.inputs, fields, lift, combine, lower, identity, pa.float64(), inverse=inverse, seen=seen)
