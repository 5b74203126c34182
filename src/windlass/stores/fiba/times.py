"""Event times as the tree keeps them: int64. Integers as they are; timestamps and dates in microseconds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from windlass.aggregates.values import UINT64, column
from windlass.errors import InvalidArgument, WrongType

Times = np.ndarray[Any, np.dtype[np.int64]]
LEAST, GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max

_INT64 = np.dtype(np.int64)  # there is one, and to ask whether it is this one takes no time
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def times_of(times: Any) -> Times:
    """A column of times."""
    if type(times) is np.ndarray and times.dtype is _INT64 and times.ndim == 1:
        return times if times.flags.c_contiguous else np.ascontiguousarray(times)
    read = column(times)
    if read.valid is not None:
        raise InvalidArgument(f"time {int(np.flatnonzero(~read.valid)[0])} is null; every event has a time")
    type_ = read.type.arrow
    if pa.types.is_null(type_) and len(read) == 0:
        return np.zeros(0, np.int64)
    if pa.types.is_timestamp(type_):
        return _scaled(read.values, type_.unit)
    if pa.types.is_date32(type_):
        return _scaled(read.values * 86_400, "s")
    if pa.types.is_date64(type_):
        return _scaled(read.values, "ms")
    if not pa.types.is_integer(type_):
        raise WrongType(f"times are integers, timestamps or dates, got {type_}")
    if read.values.dtype == UINT64 and len(read) and int(read.values.max()) > GREATEST:
        raise InvalidArgument(f"time {int(read.values.max())} does not fit in 64 bits with a sign")
    return read.values.astype(np.int64, copy=False)


def are_timestamps(times: Any) -> bool:
    """Whether a column of times holds timestamps or dates."""
    return not (type(times) is np.ndarray and times.dtype is _INT64) and bool(
        pa.types.is_temporal(column(times).type.arrow)
    )


def time_of(t: Any) -> int:
    """One time."""
    if type(t) is int:
        if not LEAST <= t <= GREATEST:
            raise InvalidArgument(f"time {t} does not fit in 64 bits")
        return t
    if t is None or isinstance(t, bool | np.bool_):
        raise WrongType(f"a time is an integer, a timestamp or a date, got {t!r}")
    return int(times_of(np.array([t]) if isinstance(t, np.generic) else [t])[0])


def _scaled(values: Any, unit: str) -> Times:
    if unit == "ns":
        return np.asarray(values // 1000, np.int64)  # before 1970 it rounds down, too
    factor = _MICROSECONDS[unit]
    if len(values) and max(abs(int(values.min())), abs(int(values.max()))) > GREATEST // factor:
        raise InvalidArgument("a time does not fit in 64 bits when counted in microseconds")
    return np.asarray(values * factor, np.int64)
