"""approx_quantile: KLL (Karnin, Lang, Liberty 2016), as implemented by Apache DataSketches.

| aggregate | nulls | NaN and infinity | no values |
|---|---|---|---|
| approx_quantile | skipped | NaN is skipped too; infinities are values | null |

The rank of the answer is right to about 1.65/k^0.9 (1.3 % for k = 200) with a probability of 99 %. Up to k
values it is exact. Beyond, a sketch drops values at random, so answers may differ between techniques (that
is, between ways of associating ⊕) and between runs, within that error. Needs the extra `sketches`; runs
interpreted.
"""

from __future__ import annotations

import copy
import math
from functools import partial
from typing import Any

import pyarrow as pa

from windlass.aggregates.aggregate import Aggregate, refuse_type
from windlass.aggregates.monoid import Monoid, object_field
from windlass.aggregates.parameters import number, whole
from windlass.aggregates.values import ValueType
from windlass.errors import MissingExtra


def approx_quantile(column: str | None = None, q: float | None = None, *, k: int = 200) -> Aggregate:
    """About the value below which the fraction `q` of the values lies, from a sketch of some k values."""
    rank, size = number("q", q, 0, 1), whole("k", k, 8, 65535)
    return Aggregate(
        "approx_quantile",
        (column,),
        partial(_kll, rank, size),
        "algebraic",
        params=(("q", rank), ("k", size)),
    )


def _kll(q: float, k: int, type_: ValueType) -> Monoid:
    if not (type_.is_number or type_.is_decimal):
        raise refuse_type("approx_quantile", type_, "numbers or decimals")
    try:
        from datasketches import kll_doubles_sketch
    except ImportError:
        raise MissingExtra("sketches", "approx_quantile") from None

    def lift(x: Any) -> Any:
        sketch = kll_doubles_sketch(k)
        sketch.update(float(x))
        return (sketch,)

    def combine(a: Any, b: Any) -> Any:
        sketch = copy.copy(a[0])
        sketch.merge(b[0])
        return (sketch,)

    def lower(p: Any) -> Any:
        # Asking sorts the sketch's youngest values in place, so a copy is asked.
        return (copy.copy(p[0]).get_quantile(q) if seen(p) else math.nan,)

    def identity() -> Any:
        return (kll_doubles_sketch(k),)

    def seen(p: Any) -> Any:
        return not p[0].is_empty()

    def encode(sketch: Any) -> bytes:
        return bytes(sketch.serialize())

    return Monoid(
        (type_,),
        (object_field("sketch"),),
        lift,
        combine,
        lower,
        identity,
        pa.float64(),
        defined=seen,  # NaN are skipped, so a sketch may be empty though nothing was null
        interpreted="its partials are DataSketches objects",
        encode=encode,
        decode=kll_doubles_sketch.deserialize,
    )
