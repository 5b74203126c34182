"""The natural logarithm and the exponential in plain arithmetic, for loops that do nothing else.

Of a loop around these LLVM makes vector instructions, where the C library would be called for each number. One by one
they take longer than that call. Interpreted or compiled, on any machine, they are the same additions and
multiplications, so the same bits, and within one unit in the last place of the C library's. The approximations and
their constants are those of fdlibm (Sun Microsystems 1993, e_log.c and e_exp.c), which explains them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

_SMALLEST_NORMAL = 2.0**-1022
_LOG2_E = 1.4426950408889634
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # high ends in zeros: times k it is exact
_BELOW_ROOT_HALF = 0x3FE6A09E00000000  # as bits: mantissas are taken from there to its double
_ROUNDS = 1.5 * 2.0**52  # what is added to it is rounded to an integer, which the last bits then hold


def branchless_log(x: Any) -> Any:
    """The logarithm of a float: of 0 it is -inf, of a negative number NaN."""
    subnormal = x < _SMALLEST_NORMAL
    bits = _bits(x * 2.0**54 if subnormal else x)
    k = (bits - _BELOW_ROOT_HALF) >> 52
    f = _float(bits - (k << 52)) - 1.0  # x = 2^k (1 + f)
    exponent = float(k) - (54.0 if subnormal else 0.0)
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    odd = z * (
        0.6666666666666735130 + w * (0.2857142874366239149 + w * (0.1818357216161805012 + w * 0.1479819860511658591))
    )
    even = w * (0.3999999999940941908 + w * (0.2222219843214978396 + w * 0.1531383769920937332))
    half = 0.5 * f * f
    y = exponent * _LN2_HIGH - ((half - (s * (half + (even + odd)) + exponent * _LN2_LOW)) - f)
    y = y if x < math.inf else x
    return y if x > 0.0 else -math.inf if x == 0.0 else math.nan


def branchless_exp(x: Any) -> Any:
    """The exponential of a float: inf where it is too great to be one."""
    bounded = x if x < 710.0 else 710.0
    bounded = bounded if bounded > -746.0 else -746.0
    rounded = bounded * _LOG2_E + _ROUNDS
    k = rounded - _ROUNDS
    high, low = bounded - k * _LN2_HIGH, k * _LN2_LOW
    r = high - low  # x = k ln 2 + r
    z = r * r
    w = z * z
    odd = z * (0.166666666666666019037 + w * (6.61375632143793436117e-05 + w * 4.13813679705723846039e-08))
    c = r - (odd + w * (-2.77777777770155933842e-03 + w * -1.65339022054652515390e-06))
    y = 1.0 - ((low - (r * c) / (2.0 - c)) - high)
    n = _bits(rounded) - _bits(_ROUNDS)
    some = n >> 1  # 2^n in two steps: it may be no normal number where the product is one
    y = y * _float((some + 1023) << 52) * _float((n - some + 1023) << 52)
    return y if x == x else x


def _bits(x: Any) -> Any:
    """The bits of a float64 as an integer; and back. Compiled they cost nothing."""
    return int(np.float64(x).view(np.int64))


def _float(bits: Any) -> Any:
    return float(np.int64(bits).view(np.float64))
