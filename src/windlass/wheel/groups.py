"""Groups of a range: equal stretches of time, or those of a calendar, each clipped at both ends of the range.

"1h", a timedelta, …            aligned to the epoch, or to `origin`
"day", "week", "month", "quarter", "year"      of the calendar in a time zone: a day has 23, 24 or 25 hours
"""

from __future__ import annotations

import datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np

from windlass.durations import UNITS, Duration
from windlass.errors import InvalidArgument
from windlass.wheel.ticks import Clock, Instant

__all__ = ["CALENDAR", "edges"]

Array = np.ndarray[Any, Any]

CALENDAR = ("day", "week", "month", "quarter", "year")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MOST = 10_000_000  # groups


def edges(clock: Clock, start: int, end: int, every: Duration, zone: str | None, origin: Instant | None) -> Array:
    """The ticks at which groups begin, and the end: start, every edge inside, end."""
    if isinstance(every, str) and every.strip().lower() in CALENDAR:
        if origin is not None:
            raise InvalidArgument(f"groups by calendar ({every!r}) have no origin")
        inner: Any = _calendar(clock, start, end, every.strip().lower(), zone or "UTC")
    else:
        if zone is not None:
            raise InvalidArgument(f"a time zone is for calendar groups, {', '.join(CALENDAR)}; {every!r} is a duration")
        inner = _periodic(clock, start, end, clock.length("a group of", every), origin)
    if end <= start:
        return np.array([start], np.int64)
    return np.unique(np.concatenate(([start], inner, [end]))).astype(np.int64)


def _periodic(clock: Clock, start: int, end: int, length: int, origin: Instant | None) -> Array:
    phase = clock.bound("origin", origin) if origin is not None else 0
    first = (start - phase) // length + 1
    last = -((phase - end) // length)
    if last - first > _MOST:
        raise InvalidArgument(f"that would be {last - first} groups; ask for longer ones, or for a shorter range")
    return np.arange(first, last, dtype=np.int64) * length + phase


def _calendar(clock: Clock, start: int, end: int, unit: str, zone: str) -> list[int]:
    if clock.plain:
        raise InvalidArgument(f"the wheel's times are plain integers, so there is no {unit} to group by")
    try:
        tz = ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidArgument(f"{zone!r} is not a time zone: {error}") from None
    found: list[int] = []
    try:
        day = _first(_local(clock, start, tz), unit)
        while True:
            day = _next(day, unit)
            midnight = _midnight(day, tz)
            at = int((midnight - _EPOCH) // datetime.timedelta(seconds=1)) * (UNITS["s"] // UNITS[clock.unit])
            tick, rest = divmod(at, clock.tick)
            if tick >= end:
                return found
            if rest:
                raise InvalidArgument(
                    f"the {unit} that begins at {midnight.isoformat()} does not begin with a tick of {clock.span(1)}; "
                    "use a shorter tick, or group in another zone"
                )
            found.append(tick)
    except OverflowError:
        raise InvalidArgument("calendars are of the years 1 to 9999") from None


def _local(clock: Clock, tick: int, tz: ZoneInfo) -> datetime.date:
    seconds = tick * clock.tick * UNITS[clock.unit] // 10**9
    return (_EPOCH + datetime.timedelta(seconds=seconds)).astimezone(tz).date()


def _midnight(day: datetime.date, tz: ZoneInfo) -> datetime.datetime:
    """The first moment of a local day. Where there is no midnight, it is the moment at which the clocks are put
    forward."""
    local = datetime.datetime(day.year, day.month, day.day, tzinfo=tz)
    late = local.astimezone(datetime.UTC)
    if late.astimezone(tz).replace(tzinfo=None) == local.replace(tzinfo=None):
        return late
    early, second = late - datetime.timedelta(days=1), datetime.timedelta(seconds=1)
    while late - early > second:
        middle = early + (late - early) // second // 2 * second
        if middle.astimezone(tz).date() < day:
            early = middle
        else:
            late = middle
    return late


def _first(day: datetime.date, unit: str) -> datetime.date:
    """The first day of the group that a day is in."""
    if unit == "week":
        return day - datetime.timedelta(days=day.weekday())
    if unit == "month":
        return day.replace(day=1)
    if unit == "quarter":
        return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
    return day.replace(month=1, day=1) if unit == "year" else day


def _next(day: datetime.date, unit: str) -> datetime.date:
    if unit in ("day", "week"):
        return day + datetime.timedelta(days=7 if unit == "week" else 1)
    months = {"month": 1, "quarter": 3, "year": 12}[unit]
    month = day.month - 1 + months
    return day.replace(year=day.year + month // 12, month=month % 12 + 1)
