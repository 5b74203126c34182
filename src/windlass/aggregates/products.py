"""product and geomean.

| aggregate | nulls | NaN and infinity | no values |
|---|---|---|---|
| product | skipped | as in IEEE: NaN wins, 0 · inf is NaN | null |
| geomean | skipped | NaN of NaN or a negative value; 0 of a 0, inf of an inf, NaN of both | null |

Both are float64 whatever they are given. A product is kept as a mantissa and an exponent, so that it does not
overflow or underflow on its way: 1e200 · 1e200 · 1e-200 is 1e200 in whichever order. It has no inverse: one zero
wipes out what was multiplied before, and no division brings it back.

A geometric mean is the exponential of a mean of logarithms. The logarithm of 0 is -inf, of a negative value
NaN, so the sum's own rules give the answers above; and its invertible form, which counts NaN and infinities
aside, lets zeros and negative values leave the window again.
"""

from __future__ import annotations

import math
import sys
from typing import Any

import pyarrow as pa

from windlass.aggregates.aggregate import Aggregate, refuse_type
from windlass.aggregates.double import (
    exact_fields,
    exact_identity,
    exact_lift,
    exact_minus,
    exact_plus,
    exact_value,
)
from windlass.aggregates.extremes import interpreted
from windlass.aggregates.monoid import Monoid
from windlass.aggregates.values import FLOAT64, INT64, ValueType
from windlass.kernels import Field, branchless_exp, branchless_log

_LOG_MAX = math.log(sys.float_info.max)


def product(column: str | None = None) -> Aggregate:
    """The product, in float64."""
    return Aggregate("product", (column,), _product)


def geomean(column: str | None = None) -> Aggregate:
    """The geometric mean: the n-th root of the product of n values."""
    return Aggregate("geomean", (column,), _geomean, "algebraic", invertible=True, build_invertible=_exact_geomean)


def _numbers(name: str, type_: ValueType) -> str | None:
    if not (type_.is_number or type_.is_decimal):
        raise refuse_type(name, type_, "numbers or decimals")
    return interpreted(type_)


def _product(type_: ValueType) -> Monoid:
    reason = _numbers("product", type_)

    def lift(x: Any) -> Any:
        mantissa, exponent = math.frexp(float(x))
        return (mantissa, 0 + exponent)  # compiled, frexp's own exponent has 32 bits

    def combine(a: Any, b: Any) -> Any:
        mantissa, exponent = math.frexp(a[0] * b[0])
        return (mantissa, a[1] + b[1] + exponent)

    def lower(p: Any) -> Any:
        if p[0] == 0.0 or not math.isfinite(p[0]):
            return (p[0],)
        if p[1] > 1024 or p[1] < -1074:
            return (p[0] * (math.inf if p[1] > 0 else 0.0),)
        return (math.ldexp(p[0], int(p[1])),)

    def identity() -> Any:
        return (1.0, 0)

    fields = (Field("mantissa", FLOAT64), Field("exponent", INT64))
    return Monoid((type_,), fields, lift, combine, lower, identity, pa.float64(), interpreted=reason)


def log(x: Any) -> Any:
    """The natural logarithm, where Python would raise: -inf of 0, NaN of a negative value."""
    v = float(x)
    if v > 0.0:
        return math.log(v)
    return -math.inf if v == 0.0 else math.nan


def root(log_sum: Any, count: Any) -> Any:
    return math.exp(_mean(log_sum, count))


def _mean(log_sum: Any, count: Any) -> Any:
    mean = log_sum / count
    # The mean of logarithms cannot pass the greatest of them, but its rounding can, where exp would overflow.
    return _LOG_MAX if _LOG_MAX < mean < math.inf else mean


def _lift_vectorised(x: Any) -> Any:
    return (branchless_log(float(x)), 1)


def _lower_vectorised(p: Any) -> Any:
    return (branchless_exp(_mean(p[0], p[1])),)


def _geomean(type_: ValueType) -> Monoid:
    reason = _numbers("geomean", type_)

    def lift(x: Any) -> Any:
        return (log(x), 1)

    def combine(a: Any, b: Any) -> Any:
        return (a[0] + b[0], a[1] + b[1])

    def lower(p: Any) -> Any:
        return (root(p[0], p[1]),)

    def identity() -> Any:
        return (0.0, 0)

    def seen(p: Any) -> Any:
        return p[1] > 0

    fields = (Field("log_sum", FLOAT64), Field("count", INT64))
    return Monoid(
        (type_,),
        fields,
        lift,
        combine,
        lower,
        identity,
        pa.float64(),
        seen=seen,
        vectorised=() if reason else ((lift, _lift_vectorised), (lower, _lower_vectorised)),
        interpreted=reason,
    )


def _exact_geomean(type_: ValueType) -> Monoid:
    reason = _numbers("geomean", type_)

    def lift(x: Any) -> Any:
        return (*exact_lift(log(x)), 1)

    def combine(a: Any, b: Any) -> Any:
        return (*exact_plus(a[:-1], b[:-1]), a[-1] + b[-1])

    def inverse(c: Any, a: Any) -> Any:
        return (*exact_minus(c[:-1], a[:-1]), c[-1] - a[-1])

    def lower(p: Any) -> Any:
        return (root(exact_value(p[:-1]), p[-1]),)

    def identity() -> Any:
        return (*exact_identity(), 0)

    def seen(p: Any) -> Any:
        return p[-1] > 0

    return Monoid(
        (type_,),
        (*exact_fields("log_sum"), Field("count", INT64)),
        lift,
        combine,
        lower,
        identity,
        pa.float64(),
        inverse=inverse,
        seen=seen,
        interpreted=reason,
    )
