"""count_min: roughly how often each value occurred, in fixed space (Cormode and Muthukrishnan 2005).

| aggregate | nulls | NaN and infinity | no values |
|---|---|---|---|
| count_min | skipped | values like others; all NaN are one | a sketch that counted nothing |

The answer is the sketch as bytes; `count_min_estimate` asks it. An estimate is never too small, and with
probability 1 - `delta` at most `epsilon` times the number of all events too large. There are ln(1/delta)
rows of e/epsilon counters; a value adds one to a counter of each row, so what was added can be subtracted.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.monoid import Columns, Monoid
from windlass.aggregates.parameters import number
from windlass.aggregates.sketches import (
    as_bytes,
    from_bytes,
    hash_function,
    hashes,
    mix,
    object_reason,
)
from windlass.aggregates.values import INT64, ValueType
from windlass.errors import InvalidArgument
from windlass.kernels import Field

_LETTERS = b"WLCM"
_MOST_COUNTERS = 1 << 28


def count_min(column: str | None = None, *, epsilon: float = 0.001, delta: float = 0.01) -> Aggregate:
    """A sketch that knows about how often each value occurred; ask it with `count_min_estimate`."""
    error, risk = number("epsilon", epsilon, 0, 1, ends=False), number("delta", delta, 0, 1, ends=False)
    width, depth = math.ceil(math.e / error), math.ceil(-math.log(risk))
    if depth > 255 or depth * width > _MOST_COUNTERS:
        raise InvalidArgument(f"epsilon={epsilon} and delta={delta} need {depth} rows of {width} counters: too many")
    return Aggregate(
        "count_min",
        (column,),
        partial(_count_min, depth=depth, width=width),
        invertible=True,
        params=(("epsilon", error), ("delta", risk)),
    )


def count_min_estimate(sketch: bytes, values: Any) -> np.ndarray[Any, Any]:
    """For each value how often it occurred at most. A null did not."""
    depth, counters = from_bytes(sketch, _LETTERS, "<i8", "count_min")
    rows = counters.reshape(depth, -1)
    h, valid = hashes(values)
    least = np.full(len(h), np.iinfo(np.int64).max)
    for row in rows:
        h = mix(h)
        least = np.minimum(least, row[h % np.uint64(len(row))])
    return least if valid is None else np.where(valid, least, 0)


def _count_min(type_: ValueType, depth: int, width: int) -> Monoid:
    hash_of, columns_of_a_row, size = hash_function("count_min", type_), np.uint64(width), depth * width

    def lift(x: Any) -> Any:
        counters = np.zeros(size, np.int64)
        h = hash_of(x)
        for row in range(depth):
            h = mix(h)
            counters[row * width + int(h % columns_of_a_row)] = 1
        return (counters,)

    def combine(a: Any, b: Any) -> Any:
        return (a[0] + b[0],)

    def inverse(c: Any, a: Any) -> Any:
        return (c[0] - a[0],)

    def lower(p: Any) -> Any:
        return (p[0],)

    def identity() -> Any:
        return (np.zeros(size, np.int64),)

    def finish(columns: Columns, _: Any) -> pa.Array:
        return as_bytes(_LETTERS, depth, columns[0])

    field = Field("counters", INT64, (size,))
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
        inverse=inverse,
        answers_empty=True,
        interpreted=object_reason(type_),
        allocates=True,
    )
