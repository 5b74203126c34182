"""Durations: from what users write to integers in the stream's unit, and back to short text.

    parse("5 minutes")              300_000_000        microseconds, the default unit
    parse("1 hour 30 minutes")      5_400_000_000      components add up, as in Spark
    parse("1.5s", unit="ms")        1_500              fractions only where they are exact
    parse(timedelta(days=1))        86_400_000_000
    parse(250)                      250                integers already are in the stream's unit
    format(5_400_000_000)           "1h30m"            parse(format(x)) == x

Everything is computed in exact fractions: a duration that is not a whole number of units is refused, never
rounded.
"""

from __future__ import annotations

import datetime
import re
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from windlass.errors import InvalidArgument, WrongType

__all__ = ["UNITS", "Duration", "format", "parse", "refuse_plain"]

Duration: TypeAlias = "str | int | np.integer | datetime.timedelta | np.timedelta64"

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

_SECOND = 10**9
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR

# Nanoseconds in each unit that a stream's timestamps can have.
UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": _SECOND}

# Nanoseconds in each unit that a string can name. Those of at most two letters are matched exactly, since a
# capital changes the meaning (m is minutes, M would be months); longer ones in any case, as in Spark.
_NAMES = {
    name: nanoseconds
    for names, nanoseconds in (
        ("ns nano nanos nanosecond nanoseconds", 1),
        ("us µs μs micro micros microsecond microseconds", 10**3),
        ("ms milli millis millisecond milliseconds", 10**6),
        ("s sec secs second seconds", _SECOND),
        ("m min mins minute minutes", _MINUTE),
        ("h hr hrs hour hours", _HOUR),
        ("d day days", _DAY),
        ("w week weeks", 7 * _DAY),
    )
    for name in names.split()
}
_CALENDAR = frozenset(
    ("mo", "mon", "mons", "month", "months", "q", "quarter", "quarters", "y", "yr", "yrs", "year", "years")
)

# Nanoseconds in the units of numpy.timedelta64, without Y, M and the generic one, which have no length.
_NUMPY = {
    "W": Fraction(7 * _DAY),
    "D": Fraction(_DAY),
    "h": Fraction(_HOUR),
    "m": Fraction(_MINUTE),
    "s": Fraction(_SECOND),
    "ms": Fraction(10**6),
    "us": Fraction(10**3),
    "ns": Fraction(1),
    "ps": Fraction(1, 10**3),
    "fs": Fraction(1, 10**6),
    "as": Fraction(1, 10**9),
}

_COMPONENT = re.compile(r"\s*([+-]?)\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([^\W\d_]+)\s*")
_BARE_NUMBER = re.compile(r"[+-]?\s*[0-9.]+")


def parse(duration: Duration, *, unit: str = "us", positive: bool = True) -> int:
    """The duration as an integer count of `unit`: "ns", "us", "ms" or "s".

    With `positive=False`, zero and negative durations are allowed, for offsets.
    """
    scale = _nanoseconds(unit)
    if isinstance(duration, (bool, np.bool_)):
        raise WrongType(f"a duration cannot be a bool, got {duration!r}")
    # numpy.timedelta64 is a subclass of numpy's signed integer, so it has to come before the integers.
    if isinstance(duration, np.timedelta64):
        count = _whole(_of_numpy(duration), scale, duration, unit)
    elif isinstance(duration, (int, np.integer)):
        count = int(duration)
    elif isinstance(duration, str):
        count = _whole(_of_text(duration), scale, duration, unit)
    elif isinstance(duration, datetime.timedelta):
        count = _whole(_of_timedelta(duration), scale, duration, unit)
    elif isinstance(duration, (float, np.floating)):
        raise WrongType(
            f"a duration cannot be a float, got {duration!r}: durations are exact; "
            f"write text such as '1.5s', or an integer, which counts the stream's unit ({unit})"
        )
    else:
        raise WrongType(
            "a duration is text such as '5 minutes', a timedelta, or an integer in the stream's unit, "
            f"got {type(duration).__name__}"
        )
    if not INT64_MIN <= count <= INT64_MAX:
        raise InvalidArgument(f"duration {_shown(duration)} does not fit in 64 bits when counted in {unit}")
    if positive and count <= 0:
        raise InvalidArgument(
            f"a duration must be positive, but {_shown(duration)} is {'zero' if count == 0 else 'negative'}"
        )
    return count


def refuse_plain(what: str, duration: object) -> None:
    """Refuse a positive integer where times are timestamps: its unit is unclear."""
    if isinstance(duration, np.timedelta64) or not isinstance(duration, int | np.integer):
        return
    if duration > 0:
        raise WrongType(
            f"{what} is the plain integer {duration}, but times are timestamps: "
            f"write '{duration}s' for seconds, or a timedelta; microseconds are '{duration}us'"
        )


def format(duration: int, unit: str = "us") -> str:
    """A short readable form of an integer count of `unit`, which `parse` reads back: "5m", "1h30m", "250ms".

    In a negative duration every component carries the sign, as Spark reads it: "-1h-30m".
    """
    scale = _nanoseconds(unit)
    rest = abs(int(duration)) * scale
    if rest == 0:
        return "0s"
    components = []
    for name, size in (("d", _DAY), ("h", _HOUR), ("m", _MINUTE)):
        count, rest = divmod(rest, size)
        if count:
            components.append(f"{count}{name}")
    if rest:
        # Below a minute, one decimal number in the largest unit that it reaches.
        name, size = next((name, size) for name, size in reversed(UNITS.items()) if rest >= size)
        count, rest = divmod(rest, size)
        digits = f"{rest:0{len(str(size)) - 1}d}".rstrip("0") if rest else ""
        components.append(f"{count}.{digits}{name}" if digits else f"{count}{name}")
    sign = "-" if duration < 0 else ""
    return "".join(sign + component for component in components)


def _nanoseconds(unit: str) -> int:
    try:
        return UNITS[unit]
    except (KeyError, TypeError):
        raise InvalidArgument(f"a stream's unit is one of {', '.join(UNITS)}, got {unit!r}") from None


def _whole(nanoseconds: Fraction, scale: int, duration: object, unit: str) -> int:
    count = nanoseconds / scale
    if count.denominator != 1:
        raise InvalidArgument(f"duration {_shown(duration)} is not a whole number of {unit}")
    return count.numerator


@lru_cache(maxsize=1024)
def _of_text(text: str) -> Fraction:
    body = text.strip()
    if body[:8].lower() == "interval" and (len(body) == 8 or body[8].isspace()):
        body = body[8:].lstrip()
    if not body:
        raise InvalidArgument(f"duration {_shown(text)} is empty; write for example '5 minutes'")
    if _BARE_NUMBER.fullmatch(body):
        raise InvalidArgument(
            f"duration {_shown(text)} has no unit; write for example '5 minutes', "
            "or pass an integer, which counts the stream's unit"
        )
    total = Fraction(0)
    position = 0
    while position < len(body):
        component = _COMPONENT.match(body, position)
        if component is None:
            raise InvalidArgument(
                f"duration {_shown(text)} is not understood at {_shown(body[position:])}; "
                "write for example '5 minutes', '1h30m' or '250 ms'"
            )
        sign, number, name = component.groups()
        try:
            value = Fraction(number) * _size(name, text)
        except ValueError as error:
            if isinstance(error, InvalidArgument):
                raise
            raise InvalidArgument(f"duration {_shown(text)} has a number with too many digits") from None
        total += -value if sign == "-" else value
        position = component.end()
    return total


def _size(name: str, text: str) -> int:
    """The nanoseconds in the unit that a string names."""
    folded = name if len(name) <= 2 else name.lower()
    if folded in _NAMES:
        return _NAMES[folded]
    if name == "M":
        raise InvalidArgument(f"duration {_shown(text)}: 'M' is not a unit; write 'm' for minutes. {_NO_CALENDAR}")
    if name.lower() in _CALENDAR:
        raise InvalidArgument(f"duration {_shown(text)} uses {name!r}. {_NO_CALENDAR}")
    hint = f"; did you mean {name.lower()!r}?" if name.lower() in _NAMES else ""
    raise InvalidArgument(
        f"duration {_shown(text)}: {_shown(name)} is not a unit of time"
        f"{hint or '; use w, d, h, m, s, ms, us, ns or the words for them'}"
    )


_NO_CALENDAR = (
    "Months, quarters and years are not durations, because their length varies; use days, or group by the calendar"
)


def _of_timedelta(duration: datetime.timedelta) -> Fraction:
    # pandas.Timedelta is a timedelta that also has nanoseconds, which timedelta's own fields leave out.
    exact = getattr(duration, "to_timedelta64", None)
    if exact is not None:
        return _of_numpy(exact())
    microseconds = (duration.days * 86_400 + duration.seconds) * 10**6 + duration.microseconds
    return Fraction(microseconds * 1_000)


def _of_numpy(duration: np.timedelta64) -> Fraction:
    if np.isnat(duration):
        raise InvalidArgument("a duration cannot be NaT (not a time)")
    name, multiple = np.datetime_data(duration.dtype)
    if name in ("Y", "M"):
        raise InvalidArgument(f"duration {_shown(duration)} is in calendar units. {_NO_CALENDAR}")
    if name not in _NUMPY:
        raise InvalidArgument(f"duration {_shown(duration)} has no unit; write for example numpy.timedelta64(5, 'm')")
    return int(duration.astype(np.int64)) * multiple * _NUMPY[name]


def _shown(duration: object) -> str:
    """The repr, cut short; integers too long to print are described."""
    if isinstance(duration, int) and duration.bit_length() > 256:
        return f"an integer of {duration.bit_length()} bits"
    text = repr(duration)
    return text if len(text) <= 60 else f"{text[:57]}..."
