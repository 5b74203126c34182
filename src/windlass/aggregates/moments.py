"""variance and stddev, of a sample (divided by n - 1, the default as in Spark) or of a population (by n).

| aggregate | nulls | NaN and infinity | no values |
|---|---|---|---|
| variance, stddev, var_samp, stddev_samp | skipped | NaN | null, and null of one value |
| var_pop, stddev_pop | skipped | NaN | null; 0 of one finite value |

They are float64 whatever they are given. Two values of which one is 2^450 (3e135) or more in size have an
infinite variance here: their squares are out of reach, and one rule for both forms below keeps their answers
equal.

The plain form merges (count, mean, sum of squared distances from the mean), which cancels nothing (Welford
1962; Chan, Golub, LeVeque 1979). It has no good inverse: subtracting leaves the rounding of every event that
ever passed in the mean. The invertible form keeps the sums of x and of x². Each value is squared exactly, the
squares are added in three floats (159 bits, so that an outlier a billion times the rest leaves no trace), and
NaN, infinities and values out of reach are counted aside.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from windlass.aggregates.aggregate import Aggregate, refuse_type
from windlass.aggregates.double import double_plus, double_times, triple_plus, two_product
from windlass.aggregates.extremes import interpreted
from windlass.aggregates.monoid import Monoid
from windlass.aggregates.values import FLOAT64, INT64, ValueType
from windlass.errors import InvalidArgument
from windlass.kernels import Field

_FAR = 2.0**450


def variance(column: str | None = None, *, sample: bool = True) -> Aggregate:
    """The variance of a sample, or with `sample=False` of a population."""
    return _moment("variance", column, sample, parameter=True)


def stddev(column: str | None = None, *, sample: bool = True) -> Aggregate:
    """The standard deviation of a sample, or with `sample=False` of a population."""
    return _moment("stddev", column, sample, parameter=True)


def var_samp(column: str | None = None) -> Aggregate:
    """The variance of a sample."""
    return _moment("var_samp", column, True)


def var_pop(column: str | None = None) -> Aggregate:
    """The variance of a population."""
    return _moment("var_pop", column, False)


def stddev_samp(column: str | None = None) -> Aggregate:
    """The standard deviation of a sample."""
    return _moment("stddev_samp", column, True)


def stddev_pop(column: str | None = None) -> Aggregate:
    """The standard deviation of a population."""
    return _moment("stddev_pop", column, False)


def _moment(name: str, column: str | None, sample: bool, parameter: bool = False) -> Aggregate:
    if not isinstance(sample, bool):
        raise InvalidArgument(f"{name}: sample must be True or False, got {sample!r}")
    rooted = name.startswith("stddev")
    return Aggregate(
        name,
        (column,),
        partial(_finished, name, _welford, sample, rooted),
        "algebraic",
        invertible=True,
        params=(("sample", sample),) if parameter and not sample else (),
        build_invertible=partial(_finished, name, _sums, sample, rooted),
    )


def _finished(name: str, build: Any, sample: bool, rooted: bool, type_: ValueType) -> Monoid:
    """Lower to a variance or its root what `build` lowers to the sum of squared distances from the mean."""
    if not (type_.is_number or type_.is_decimal):
        raise refuse_type(name, type_, "numbers or decimals")
    m: Monoid = build(type_)
    squared_distances, fewest = m.lower, 1 if sample else 0

    def lower(p: Any) -> Any:
        value = squared_distances(p) / (p[0] - fewest)
        return (math.sqrt(value) if rooted else value,)

    def enough(p: Any) -> Any:
        return p[0] > fewest

    return replace(m, lower=lower, defined=enough if sample else None, seen=enough)


def _welford(type_: ValueType) -> Monoid:
    def lift(x: Any) -> Any:
        v = float(x)
        if abs(v) < _FAR:
            return (1, v, 0.0)
        return (1, 0.0, math.inf if abs(v) < math.inf else math.nan)

    def combine(a: Any, b: Any) -> Any:
        if a[0] == 0:
            return b
        if b[0] == 0:
            return a
        count = a[0] + b[0]
        distance, share = b[1] - a[1], b[0] / count
        return (count, a[1] + distance * share, a[2] + b[2] + distance * distance * (a[0] * share))

    def lower(p: Any) -> Any:
        return 0.0 if p[0] == 1 and p[2] == math.inf else p[2]

    def identity() -> Any:
        return (0, 0.0, 0.0)

    fields = (Field("count", INT64), Field("mean", FLOAT64), Field("m2", FLOAT64))
    return Monoid((type_,), fields, lift, combine, lower, identity, pa.float64(), interpreted=interpreted(type_))


def _sums(type_: ValueType) -> Monoid:
    """(count, Σx in two floats, Σx² in three, values out of reach, NaN and infinities)."""

    def lift(x: Any) -> Any:
        v = float(x)
        if abs(v) < _FAR:
            square, error = two_product(v, v)
            return (1, v, 0.0, square, error, 0.0, 0, 0)
        far = 1 if abs(v) < math.inf else 0
        return (1, 0.0, 0.0, 0.0, 0.0, 0.0, far, 1 - far)

    def combine(a: Any, b: Any) -> Any:
        sum_hi, sum_lo = double_plus(a[1], a[2], b[1], b[2])
        hi, mid, lo = triple_plus(a[3], a[4], a[5], b[3], b[4], b[5])
        return (a[0] + b[0], sum_hi, sum_lo, hi, mid, lo, a[6] + b[6], a[7] + b[7])

    def inverse(c: Any, a: Any) -> Any:
        if c[0] == a[0]:  # nothing is left, not even rounding
            return identity()
        return combine(c, (-a[0], -a[1], -a[2], -a[3], -a[4], -a[5], -a[6], -a[7]))

    def lower(p: Any) -> Any:
        if p[7] > 0:
            return math.nan
        if p[0] == 1:
            return 0.0
        if p[6] > 0:
            return math.inf
        n = float(p[0])
        hi, lo = double_times(p[3], p[4], n, 0.0)
        square_hi, square_lo = double_times(p[1], p[2], p[1], p[2])
        scaled = double_plus(hi, lo, -square_hi, -square_lo)[0]
        return scaled / n if scaled > 0.0 else 0.0

    def identity() -> Any:
        return (0, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0)

    sums = tuple(Field(name, FLOAT64) for name in ("sum_hi", "sum_lo", "squares_hi", "squares_mid", "squares_lo"))
    return Monoid(
        (type_,),
        (Field("count", INT64), *sums, Field("far", INT64), Field("not_finite", INT64)),
        lift,
        combine,
        lower,
        identity,
        pa.float64(),
        inverse=inverse,
        interpreted=interpreted(type_),
    )
