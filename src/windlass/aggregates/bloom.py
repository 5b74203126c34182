"""bloom_filter: which values there were, in a fixed number of bits (Bloom 1970).

| aggregate | nulls | NaN and infinity | no values |
|---|---|---|---|
| bloom_filter | skipped | values like others; all NaN are one | a filter that contains nothing |

The answer is the filter as bytes; `bloom_contains` asks it. A value that was seen is always found. One that
was not is found with a probability below `false_positives` as long as no more than `expected` different
values were seen. Bits are the next power of two above what that needs; the positions of a value are h, h +
s, h + 2s, … for two halves of one 64-bit hash (Kirsch and Mitzenmacher 2006).
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.monoid import Columns, Monoid
from windlass.aggregates.parameters import number, whole
from windlass.aggregates.sketches import as_bytes, from_bytes, hash_function, hashes, object_reason
from windlass.aggregates.values import UINT64, ValueType
from windlass.errors import InvalidArgument
from windlass.kernels import Field

_LETTERS = b"WLBF"
_MOST_BITS, _MOST_PROBES = 1 << 32, 255
_ODD = (1 << 63) | 1  # an odd step meets every position; the top bit keeps it unsigned when compiled


def bloom_filter(column: str | None = None, *, expected: int = 1000, false_positives: float = 0.01) -> Aggregate:
    """A filter that knows which values there were; ask it with `bloom_contains`."""
    values, rate = (
        whole("expected", expected, 1),
        number("false_positives", false_positives, 0, 1, ends=False),
    )
    probes = max(1, math.ceil(-math.log2(rate)))
    needed = -values * math.log(rate) / math.log(2) ** 2
    if needed > _MOST_BITS:
        raise InvalidArgument(f"{values} values at a rate of {rate} need {needed:.3g} bits, more than 2^32")
    if probes > _MOST_PROBES:
        raise InvalidArgument(f"false_positives={rate} needs {probes} bits a value, more than {_MOST_PROBES}")
    bits = max(64, 1 << max(0, math.ceil(math.log2(needed))))
    return Aggregate(
        "bloom_filter",
        (column,),
        partial(_bloom, bits=bits, probes=probes),
        params=(("expected", values), ("false_positives", rate)),
    )


def bloom_contains(bits: bytes, values: Any) -> np.ndarray[Any, Any]:
    """For each value whether the filter has (or seems to have) seen it. A null was never seen."""
    probes, words = from_bytes(bits, _LETTERS, "<u8", "bloom_filter")
    h, valid = hashes(values)
    step = (h >> 32) | _ODD
    found = np.ones(len(h), np.bool_) if valid is None else valid.copy()
    for _ in range(probes):
        position = h & np.uint64(64 * len(words) - 1)
        found &= (words[position >> 6] >> (position & 63)) & 1 == 1
        h = h + step
    return found


def _bloom(type_: ValueType, bits: int, probes: int) -> Monoid:
    hash_of = hash_function("bloom_filter", type_)
    words, mask = bits // 64, bits - 1

    def lift(x: Any) -> Any:
        filter_ = np.zeros(words, np.uint64)
        h = hash_of(x)
        step = (h >> 32) | _ODD
        for _ in range(probes):
            position = h & mask
            filter_[position >> 6] |= np.uint64(1) << np.uint64(position & 63)
            h = h + step
        return (filter_,)

    def combine(a: Any, b: Any) -> Any:
        return (a[0] | b[0],)

    def lower(p: Any) -> Any:
        return (p[0],)

    def identity() -> Any:
        return (np.zeros(words, np.uint64),)

    def finish(columns: Columns, _: Any) -> pa.Array:
        return as_bytes(_LETTERS, probes, columns[0])

    field = Field("bits", UINT64, (words,))
    return Monoid(
        (type_,),
        (field,),
        lift,
        combine,
        lower,
        identity,
        pa.large_binary(),
        results=(field,),
        finish=finish,
        answers_empty=True,
        interpreted=object_reason(type_),
        allocates=True,
    )
