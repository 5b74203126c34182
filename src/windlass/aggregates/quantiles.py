"""median, percentile and quantile, exact: the values are kept as sorted runs (see `runs`).

| aggregate | nulls | NaN and infinity | no values |
|---|---|---|---|
| median, percentile, quantile | skipped | NaN is the greatest; from finite to infinite is infinite | null |

The answer is a float64: where the rank falls between two values it is interpolated linearly, as in Spark's
`percentile` and NumPy's default. Partials grow with the number of distinct values, so coarse values are
cheap; for a bounded partial use `approx_quantile`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa

from windlass.aggregates.aggregate import Aggregate, refuse_type
from windlass.aggregates.monoid import Monoid
from windlass.aggregates.parameters import number
from windlass.aggregates.runs import Run, United, around, run_monoid, run_of
from windlass.aggregates.values import ValueType

__all__ = ["median", "percentile", "quantile", "run_of"]


def median(column: str | None = None) -> Aggregate:
    """The value in the middle, or halfway between the two in the middle."""
    return _aggregate("median", column, 0.5, ())


def percentile(column: str | None = None, p: float | None = None) -> Aggregate:
    """The value below which `p` percent of the values lie: `percentile("latency", 99)`."""
    percent = number("p", p, 0, 100)
    return _aggregate("percentile", column, percent / 100, (("p", percent),))


def quantile(column: str | None = None, q: float | None = None) -> Aggregate:
    """The value below which the fraction `q` of the values lies: `quantile("latency", 0.99)`."""
    fraction = number("q", q, 0, 1)
    return _aggregate("quantile", column, fraction, (("q", fraction),))


def _aggregate(name: str, column: str | None, q: float, params: tuple[tuple[str, Any], ...]) -> Aggregate:
    return Aggregate(
        name,
        (column,),
        partial(_quantile, name, q),
        "holistic",
        invertible=True,
        params=params,
    )


def _quantile(name: str, q: float, type_: ValueType) -> Monoid:
    if not (type_.is_number or type_.is_decimal):
        raise refuse_type(name, type_, "numbers or decimals, between which one can interpolate")

    def lower(p: Any) -> Any:
        return (interpolated(p[0], q),)

    return run_monoid(type_, lower, pa.float64())


def interpolated(run: Run | United, q: float) -> float:
    """The value at rank q·(n - 1), counted from 0; between two ranks, on the straight line between them."""
    below, above, part = around(run, q)
    low, high = float(below), float(above)
    return low if low == high or low != low else (1.0 - part) * low + part * high
