"""m4: what a chart needs of a window to draw it as if with every point (Jugel et al. 2014).

| aggregate | nulls | NaN and infinity | no values |
|---|---|---|---|
| m4 | an event with a null in either column is skipped | NaN is the greatest value, as in Spark | null |

Without a time column first and last go by event order. With one they go by it, and events of the same time by
event order; an extreme that occurs more than once is reported at its earliest time. Neither form commutes.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from windlass.aggregates.aggregate import Aggregate, refuse_type
from windlass.aggregates.extremes import LEAST, above, below, interpreted, ordered
from windlass.aggregates.monoid import Monoid
from windlass.aggregates.results import struct_of
from windlass.aggregates.values import BOOL, OBJECT, ValueType
from windlass.kernels import Field

_PARTS = ("min", "max", "first", "last")
_TIMES = tuple(f"{part}_time" for part in _PARTS)


def m4(column: str | None = None, *, time: str | None = None) -> Aggregate:
    """A struct {min, max, first, last}; with `time` also {min_time, max_time, first_time, last_time}."""
    if time is None:
        return Aggregate("m4", (column,), _m4, "algebraic", commutative=False)
    return Aggregate("m4", (column, time), _m4_timed, "algebraic", commutative=False, keywords=("time",))


def seen(p: Any) -> Any:
    return p[-1]


def lower(p: Any) -> Any:
    return p[:-1]


def _m4(type_: ValueType) -> Monoid:
    ordered("m4", type_)
    nothing = LEAST.get(type_.dtype)

    def lift(x: Any) -> Any:
        return (x, x, x, x, True)

    def combine(a: Any, b: Any) -> Any:
        if not (a[-1] and b[-1]):
            return a if a[-1] else b
        least = b[0] if below(b[0], a[0]) else a[0]
        greatest = b[1] if above(b[1], a[1]) else a[1]
        return (least, greatest, a[2], b[3], True)

    def identity() -> Any:
        return (nothing, nothing, nothing, nothing, False)

    return Monoid(
        (type_,),
        (*(Field(part, type_.dtype) for part in _PARTS), Field("seen", BOOL)),
        lift,
        combine,
        lower,
        identity,
        **struct_of(dict.fromkeys(_PARTS, type_)),
        seen=seen,
        interpreted=interpreted(type_),
    )


def _m4_timed(type_: ValueType, time: ValueType) -> Monoid:
    ordered("m4", type_)
    if time.dtype in (OBJECT, BOOL) or pa.types.is_null(time.arrow):
        raise refuse_type("m4", time, "times or numbers as its time")
    nothing, never = LEAST.get(type_.dtype), LEAST[time.dtype]

    def lift(x: Any, at: Any) -> Any:
        return (x, x, x, x, at, at, at, at, True)

    def combine(a: Any, b: Any) -> Any:
        if not (a[-1] and b[-1]):
            return a if a[-1] else b
        least, greatest, first, last, least_at, greatest_at, first_at, last_at, _ = a
        if below(b[0], least) or (not below(least, b[0]) and below(b[4], least_at)):
            least, least_at = b[0], b[4]
        if above(b[1], greatest) or (not above(greatest, b[1]) and below(b[5], greatest_at)):
            greatest, greatest_at = b[1], b[5]
        if below(b[6], first_at):
            first, first_at = b[2], b[6]
        if not below(b[7], last_at):
            last, last_at = b[3], b[7]
        return (least, greatest, first, last, least_at, greatest_at, first_at, last_at, True)

    def identity() -> Any:
        return (nothing, nothing, nothing, nothing, never, never, never, never, False)

    values = dict.fromkeys(_PARTS, type_) | dict.fromkeys(_TIMES, time)
    return Monoid(
        (type_, time),
        (*(Field(part, value.dtype) for part, value in values.items()), Field("seen", BOOL)),
        lift,
        combine,
        lower,
        identity,
        **struct_of(values),
        seen=seen,
        interpreted=interpreted(type_),
    )
