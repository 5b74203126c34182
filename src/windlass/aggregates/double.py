"""Float sums that can be taken apart again: sums of several floats, the non-finite values counted aside.

A sum is (hi, mid, lo, far_hi, far_lo, far, nans, infs, neg_infs). `hi + mid + lo` is the unevaluated sum of
the values below 2^100 (1e30) in size, to about 159 bits. A value that leaves takes all of itself along as long
as its first bit and the last bit of what stays are less than 158 bits apart; otherwise an error of about 2^-158
of the greatest such value that was ever subtracted stays behind: at most 2^-58, or 4e-18, for each of them.

Values of 2^100 and more would drown the others, and overflow on their way, so they are summed apart, scaled
down by 2^-200, to about 106 bits, and counted. While one of them is in the sum the error is about 2^-105 of
the greatest that was; once the last of them has left (`far` is 0) nothing remains of it. NaN and the infinities
are only counted, which is what makes them removable.
"""

from __future__ import annotations

import math
from typing import Any

from windlass.aggregates.values import FLOAT64, INT64
from windlass.kernels import Field

_FAR = 2.0**100
_DOWN, _UP = 2.0**-200, 2.0**200
_SPLIT = 2.0**27 + 1.0


def two_sum(a: Any, b: Any) -> Any:
    """a + b as its rounded value and the exact rounding error (Knuth)."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def double_plus(a_hi: Any, a_lo: Any, b_hi: Any, b_lo: Any) -> Any:
    """Sum of two double-doubles, with both halves' errors carried."""
    s, e = two_sum(a_hi, b_hi)
    t, f = two_sum(a_lo, b_lo)
    e += t
    hi = s + e
    lo = e - (hi - s) + f
    s = hi + lo
    return s, lo - (s - hi)


def triple_plus(a_hi: Any, a_mid: Any, a_lo: Any, b_hi: Any, b_mid: Any, b_lo: Any) -> Any:
    """Sum of two numbers of three floats each, to about 159 bits."""
    hi, e = two_sum(a_hi, b_hi)
    mid, f = two_sum(a_mid, b_mid)
    mid, e = two_sum(mid, e)
    mid, lo = two_sum(mid, a_lo + b_lo + (e + f))
    hi, mid = two_sum(hi, mid)
    mid, lo = two_sum(mid, lo)
    return hi, mid, lo


def two_product(a: Any, b: Any) -> Any:
    """a · b as its rounded value and the exact rounding error (Dekker, Veltkamp); |a|, |b| < 2^996."""
    p = a * b
    t = _SPLIT * a
    a_hi = t - (t - a)
    t = _SPLIT * b
    b_hi = t - (t - b)
    a_lo, b_lo = a - a_hi, b - b_hi
    return p, ((a_hi * b_hi - p) + a_hi * b_lo + a_lo * b_hi) + a_lo * b_lo


def double_times(a_hi: Any, a_lo: Any, b_hi: Any, b_lo: Any) -> Any:
    """Product of two double-doubles."""
    p, e = two_product(a_hi, b_hi)
    e += a_hi * b_lo + a_lo * b_hi
    s = p + e
    return s, e - (s - p)


def exact_fields(name: str) -> tuple[Field, ...]:
    floats = tuple(Field(f"{name}_{part}", FLOAT64) for part in ("hi", "mid", "lo", "far_hi", "far_lo"))
    return floats + tuple(Field(f"{name}_{part}", INT64) for part in ("far", "nans", "infs", "neg_infs"))


def exact_identity() -> Any:
    return (0.0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0, 0)


def exact_lift(x: Any) -> Any:
    if math.isnan(x):
        return (0.0, 0.0, 0.0, 0.0, 0.0, 0, 1, 0, 0)
    if math.isinf(x):
        return (0.0, 0.0, 0.0, 0.0, 0.0, 0, 0, 1 if x > 0 else 0, 0 if x > 0 else 1)
    if abs(x) >= _FAR:
        return (0.0, 0.0, 0.0, x * _DOWN, 0.0, 1, 0, 0, 0)
    return (x, 0.0, 0.0, 0.0, 0.0, 0, 0, 0, 0)


def exact_plus(a: Any, b: Any) -> Any:
    hi, mid, lo = triple_plus(a[0], a[1], a[2], b[0], b[1], b[2])
    far_hi, far_lo, far = 0.0, 0.0, a[5] + b[5]
    if far != 0:  # once none is left, their rounding errors are not either
        far_hi, far_lo = double_plus(a[3], a[4], b[3], b[4])
    return (hi, mid, lo, far_hi, far_lo, far, a[6] + b[6], a[7] + b[7], a[8] + b[8])


def exact_minus(c: Any, a: Any) -> Any:
    return exact_plus(c, (-a[0], -a[1], -a[2], -a[3], -a[4], -a[5], -a[6], -a[7], -a[8]))


def exact_value(p: Any) -> Any:
    """The sum as one float, as IEEE addition would have it."""
    if p[6] > 0 or (p[7] > 0 and p[8] > 0):
        return math.nan
    if p[7] > 0:
        return math.inf
    if p[8] > 0:
        return -math.inf
    if p[3] == 0.0:
        return p[0]
    return double_plus(p[3], p[4], p[0] * _DOWN, p[1] * _DOWN)[0] * _UP


def quotient(a: Any, b: Any) -> Any:
    """a / b as IEEE has it, where Python would refuse to divide by zero."""
    if b != 0.0:
        return a / b
    return math.copysign(math.inf, a) * math.copysign(1.0, b) if a != 0.0 and a == a else math.nan
