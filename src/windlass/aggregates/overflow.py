"""Sums of 64-bit integers: one field while they provably fit, two fields afterwards. Answers that overflow.

A partial of one int64 adds modulo 2^64. While Σ|x| over all events stays below 2^63, no sum or difference of partials
can leave 64 bits: one field is exact, and fastest. The holder of partials keeps an upper bound of Σ|x|. Before it takes
a batch, it adds the batch's `greatest` value times its length. Once the bound reaches 2^63, the holder *widens*: every
partial gets a second field, `high`, which starts at 0.

    sum = low + 2^64 · high         low: the old field, signed (of uint64: unsigned); high: how often it wrapped

Together they are an integer modulo 2^128, so ⊕ and ⊖ are exact for 2^64 events. An answer fits if its `high` is 0.
Partials are never narrowed again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa

from windlass.aggregates.monoid import Columns, Monoid
from windlass.aggregates.values import INT64, UINT64, to_arrow
from windlass.errors import InvalidArgument, Overflow
from windlass.kernels import Field, compiled, direct

__all__ = [
    "HIGH",
    "LIMIT",
    "OnOverflow",
    "as_signed",
    "as_unsigned",
    "checked",
    "flagged",
    "forgiving",
    "greatest",
    "greatest_signed",
    "located",
    "modulo",
    "params",
    "widened",
]

Array = np.ndarray[Any, Any]
Mask = Array | None
OnOverflow = Literal["raise", "null", "wrap"]

LIMIT = 1 << 63  # Σ|x| must stay below this for one field to be exact
HIGH = Field("high", INT64)
_ALL_BITS = 0xFFFFFFFFFFFFFFFF


def checked(on_overflow: Any) -> OnOverflow:
    if on_overflow not in get_args(OnOverflow):
        raise InvalidArgument(f"on_overflow is 'raise', 'null' or 'wrap', got {on_overflow!r}")
    return on_overflow  # type: ignore[no-any-return]


def params(on_overflow: OnOverflow) -> tuple[tuple[str, Any], ...]:
    """The mode as parameters of an aggregate. The default is left out, so it does not show in names."""
    return () if on_overflow == "raise" else (("on_overflow", on_overflow),)


def as_unsigned(x: Any) -> Any:
    """The bits of an int64 as an unsigned integer. Costs nothing when compiled, and wraps in plain Python, too."""
    return int(np.int64(x).view(np.uint64))


def as_signed(x: Any) -> Any:
    """The inverse of `as_unsigned`."""
    return int(np.uint64(x & _ALL_BITS).view(np.int64))


def modulo(x: Any) -> Any:
    """An integer modulo 2^64, as uint64."""
    return np.uint64(x & _ALL_BITS)


# --------------------------------------------------------------------------- the bound of Σ|x|


def greatest(values: Array) -> int:
    """Upper bound of max(|x|), exact to within 1. Costs 0.05 ns a value."""
    if values.dtype == UINT64:
        return int(values.max()) if len(values) else 0
    return greatest_signed()(values) + 1


@cache
def greatest_signed() -> Callable[[Array], int]:
    """A kernel for `greatest(values) - 1` of int64: one loop without branches, fast for small batches too."""

    def greatest(values: Any) -> Any:
        most = 0
        for i in range(len(values)):
            most = max(most, values[i] ^ (values[i] >> 63))  # of negative x, -x - 1
        return most

    kernel = compiled(greatest)
    for flag in (True, False):  # to numba, Arrow's read-only arrays are another type
        nothing = np.zeros(0, np.int64)
        nothing.flags.writeable = flag
        kernel(nothing)
    return direct(kernel)  # type: ignore[no-any-return]


def widened(m: Monoid, columns: Columns, results: bool = False) -> Columns:
    """Convert partials of a monoid (or its result columns) to its wide form: add `high`, which is 0."""
    assert m.wide is not None
    old, new = (m.result_fields, m.wide.result_fields) if results else (m.fields, m.wide.fields)
    if not columns:
        return columns
    known = {field.name: column for field, column in zip(old, columns, strict=True)}
    length = len(columns[0])
    return tuple(known[f.name] if f.name in known else np.zeros(length, f.dtype) for f in new)


# --------------------------------------------------------------------------- answers that overflow


def flagged(what: str, result: pa.DataType, on_overflow: OnOverflow) -> dict[str, Any]:
    """The result fields of a monoid whose `lower` gives (value, high). A value fits if its `high` is 0."""

    def finish(columns: Columns, defined: Mask) -> pa.Array:
        low, high = columns
        beyond = high != 0 if defined is None else (high != 0) & defined
        if not beyond.any():
            return to_arrow(low, defined, result)
        if on_overflow == "raise":
            row = int(beyond.argmax())
            raise _too_great(what, int(low[row]) + (int(high[row]) << 64), result, row)
        return to_arrow(low, ~beyond if defined is None else defined & ~beyond, result)

    dtype = UINT64 if pa.types.is_uint64(result) else INT64
    results = Field("value", dtype), HIGH
    return {"result": result, "results": results, "finish": finish, "can_overflow": on_overflow == "raise"}


def forgiving(m: Monoid) -> Monoid:
    """The same monoid, with null in place of an answer that overflows."""
    return replace(m, finish=flagged("", m.result, "null")["finish"]) if m.can_overflow else m


def _too_great(what: str, value: int, type_: pa.DataType, row: int) -> Overflow:
    wider = "float64" if pa.types.is_duration(type_) else "a wider decimal or to float64"
    error = Overflow(
        f"the {what} is {value}, which {type_} cannot hold. Ask for null in its place, {what}(…, on_overflow='null'), "
        f"or cast the column to {wider}"
    )
    error.row = row
    return error


def located(error: Overflow, place: Callable[[int], str]) -> Overflow:
    """The same error. Its message starts with the place of the answer that overflows."""
    if error.row is None:
        return error
    told = Overflow(f"{place(error.row)}: {error}")
    told.row = error.row
    return told
