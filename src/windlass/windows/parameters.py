"""Checks of the parameters of windows, with one wording for all, and their conversion to a stream's unit.

A specification keeps a duration as a plain integer, which counts the stream's unit, or as short text ("1m30s"), and
an instant as an integer or as ISO text in UTC. So "60s", timedelta(minutes=1) and "1 minute" make equal windows.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from windlass import durations
from windlass.durations import Duration
from windlass.errors import InvalidArgument, WrongType

Instant: TypeAlias = "int | np.integer[Any] | str | datetime.date | np.datetime64"


def extent(what: str, value: Duration, measure: str = "time", *, positive: bool = True) -> int | str:
    """A duration as a specification keeps it. On another measure than time only integers have a meaning."""
    if isinstance(value, int | np.integer) and not isinstance(value, np.timedelta64):
        return _of(what, value, "us", positive)
    if measure != "time":
        raise WrongType(f"{what} must be an integer, because the window is on {measure!r} and not on time: {value!r}")
    failure: InvalidArgument | None = None
    for unit in ("us", "ns", "s"):  # the first that holds it exactly
        try:
            return durations.format(_of(what, value, unit, positive), unit)
        except InvalidArgument as error:
            failure = failure or error
    assert failure is not None
    raise failure


def instant(what: str, value: Instant, measure: str = "time") -> int | str:
    """A point on the measure as a specification keeps it."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64):
        if not durations.INT64_MIN <= value <= durations.INT64_MAX:
            raise InvalidArgument(f"{what} does not fit in 64 bits")
        return int(value)
    if measure != "time":
        raise WrongType(f"{what} must be an integer, because the window is on {measure!r} and not on time: {value!r}")
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value)
        except ValueError:
            raise InvalidArgument(f"{what} must be an ISO date and time or an integer, got {value!r}") from None
    if isinstance(value, datetime.datetime) and value.tzinfo is not None and not hasattr(value, "to_datetime64"):
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    if isinstance(value, datetime.date):
        # A time of pandas also has nanoseconds, which datetime's own fields leave out.
        value = value.to_datetime64() if hasattr(value, "to_datetime64") else np.datetime64(value)
    if not isinstance(value, np.datetime64):
        raise WrongType(f"{what} must be a datetime, ISO text or an integer, got {type(value).__name__}")
    if np.isnat(value):
        raise InvalidArgument(f"{what} cannot be NaT (not a time)")
    seconds = value.astype("datetime64[s]")
    text = str(seconds) if seconds == value else str(value).rstrip("0")
    if len(text.partition(".")[2]) > 9:
        raise InvalidArgument(f"{what} {text} is finer than a nanosecond")
    return text


def in_unit(what: str, value: Duration, unit: str | None) -> int:
    """A kept duration as a count of the stream's unit."""
    if isinstance(value, str):
        _needs_unit(what, value, unit)
    return _of(what, value, unit or "us", positive=False)


def instant_in_unit(what: str, value: Instant, unit: str | None) -> int:
    """A kept instant as a count of the stream's unit."""
    if not isinstance(value, str):
        return int(value)  # type: ignore[arg-type]
    scale = durations.UNITS[_needs_unit(what, value, unit)]
    seconds, _, fraction = value.partition(".")
    nanoseconds = int(np.datetime64(seconds, "s").astype(np.int64)) * 10**9 + int(fraction.ljust(9, "0"))
    count, rest = divmod(nanoseconds, scale)
    if rest:
        raise InvalidArgument(f"{what} {value} is not a whole number of {unit}")
    if not durations.INT64_MIN <= count <= durations.INT64_MAX:
        raise InvalidArgument(f"{what} {value} does not fit in 64 bits when counted in {unit}")
    return count


def number(what: str, value: Any, least: int = 1) -> int:
    """An integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or isinstance(value, np.timedelta64):
        raise WrongType(f"{what} must be an integer, got {value!r}")
    if not least <= value <= durations.INT64_MAX:
        raise InvalidArgument(f"{what} must be an integer of at least {least}, got {value!r}")
    return int(value)


def measure_name(window: str, measure: Any) -> str:
    """What a window is defined on: "time", "count" or a column."""
    if not isinstance(measure, str):
        raise WrongType(f"the measure of {window} is 'time', 'count' or the name of a column, got {measure!r}")
    if not measure:
        raise InvalidArgument(f"the measure of {window} is 'time', 'count' or the name of a column, got ''")
    return measure


def column_names(window: str, columns: Any) -> tuple[str, ...]:
    """Names of columns; a single one may be given by itself."""
    if isinstance(columns, str):
        columns = (columns,)
    names = tuple(columns) if isinstance(columns, Iterable) else (columns,)
    for name in names:
        if not isinstance(name, str):
            raise WrongType(f"the columns of {window} are names, got {name!r}")
        if not name:
            raise InvalidArgument(f"the columns of {window} need names, got ''")
    return names


def function(what: str, value: Any) -> Any:
    if not callable(value):
        raise WrongType(f"{what} must be a function, got {type(value).__name__}")
    return value


def comparable(a: Duration, b: Duration) -> tuple[int, int] | None:
    """Two kept durations in one unit; None as long as only the stream can tell."""
    if isinstance(a, str) and isinstance(b, str):
        for unit in ("ns", "s"):
            try:
                return durations.parse(a, unit=unit, positive=False), durations.parse(b, unit=unit, positive=False)
            except InvalidArgument:
                continue
        return None
    if isinstance(a, str) or isinstance(b, str):
        return None
    return int(a), int(b)  # type: ignore[arg-type]


def _of(what: str, value: Duration, unit: str, positive: bool) -> int:
    try:
        return durations.parse(value, unit=unit, positive=positive)
    except (InvalidArgument, WrongType) as error:
        raise type(error)(f"{what}: {error}") from None


def _needs_unit(what: str, value: str, unit: str | None) -> str:
    if unit is None:
        raise WrongType(
            f"{what} is {value}, but the stream's time is plain integers, whose unit is not known; "
            "give an integer in their unit, or make the column a timestamp"
        )
    return unit
