"""Time as a wheel counts it: whole ticks since 1970, whatever users write.

    tick 1s     10:15:23.7  ──►  tick 1 696 155 323      an event belongs to the tick that it falls into
                10:15:23    ──►  the same                a bound of a range must lie on a tick

Ticks and the slots of all levels are aligned to the epoch, so wheels that start at different times have the same slots
and can be merged. Before 1970 ticks are negative and round down too.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from windlass import durations
from windlass.aggregates.values import column, to_arrow
from windlass.durations import UNITS, Duration
from windlass.errors import InvalidArgument, WrongType
from windlass.kernels import compiled
from windlass.windows.parameters import Instant, instant, instant_in_unit

__all__ = ["LATEST", "Clock", "Instant", "divided", "to_ticks"]

Array = np.ndarray[Any, Any]

LATEST = 2**62 - 1  # times lie in -LATEST … LATEST, so that sums of two do not overflow


def floors(times: Any, size: Any, ticks: Any) -> Any:
    """The ticks of times, and the first that does not lie on a tick; -1 if all do."""
    wrong = -1
    for i in range(len(times)):
        ticks[i] = divided(times[i], size)
        if ticks[i] * size != times[i] and wrong < 0:
            wrong = i
    return wrong


@cache
def to_ticks() -> Any:
    return compiled(floors)


def divided(n: Any, size: Any) -> Any:
    """n // size. Below 2^53 the quotient of floats, rounded down, is exact, and on many processors a good deal
    faster."""
    if -(1 << 53) < n < 1 << 53:
        return math.floor(n / size)
    return n // size


class Clock:
    """The unit that times are given in, and the tick."""

    def __init__(self, tick: Duration, unit: str, plain: bool) -> None:
        self.unit, self.plain = unit, plain  # plain: times are integers, for users too
        self.tick = durations.parse(tick, unit=unit)

    def time(self, what: str, value: Instant) -> int:
        """An instant in the unit."""
        found = value if type(value) is int else instant_in_unit(what, instant(what, value), self.unit)
        if not -LATEST <= found <= LATEST:
            raise InvalidArgument(f"{what} {value} is too far away: times are within ±2^62 {self.unit}")
        return found

    def floor(self, what: str, value: Instant) -> int:
        """The tick that an instant falls into."""
        return self.time(what, value) // self.tick

    def bound(self, what: str, value: Instant) -> int:
        """An instant that must lie on a tick."""
        # Most often it is an integer, and a query takes microseconds.
        found = value if type(value) is int and -LATEST <= value <= LATEST else self.time(what, value)
        tick, rest = divmod(found, self.tick)
        if rest:
            near = f"{self.show(tick)} or {self.show(tick + 1)}"
            raise InvalidArgument(
                f"{what} {value} is finer than the tick, {durations.format(self.tick, self.unit)}, below which nothing "
                f"is kept apart; ask for {near}"
            )
        return tick

    def length(self, what: str, duration: Duration) -> int:
        """A duration in ticks."""
        if not self.plain:
            durations.refuse_plain(what.removesuffix(" of"), duration)
        found = durations.parse(duration, unit=self.unit)
        if found % self.tick:
            tick = durations.format(self.tick, self.unit)
            raise InvalidArgument(f"{what} {duration!r} is not a whole number of ticks of {tick}")
        return found // self.tick

    def times(self, data: Any) -> Array:
        """The times of events, as int64 in the unit."""
        if isinstance(data, np.ndarray) and data.dtype == np.int64:
            found = np.ascontiguousarray(data)
        else:
            found = self._converted(data)
        if found.ndim != 1:
            raise WrongType(f"times must be a one-dimensional array, got shape {found.shape}")
        if len(found) and (found.min() < -LATEST or found.max() > LATEST):
            row = int(np.argmax((found < -LATEST) | (found > LATEST)))
            raise InvalidArgument(f"the time in row {row} is too far away: times are within ±2^62 {self.unit}")
        return found

    def _converted(self, data: Any) -> Array:
        if isinstance(data, np.ndarray) and data.dtype.kind == "M":  # of any unit, also those that Arrow does not have
            if np.isnat(data).any():
                raise InvalidArgument(
                    f"the time in row {int(np.argmax(np.isnat(data)))} is null; every event needs a time"
                )
            return np.ascontiguousarray(data.astype(f"M8[{self.unit}]").view(np.int64))
        read = column(data)
        if read.valid is not None:
            raise InvalidArgument(f"the time in row {int(np.argmin(read.valid))} is null; every event needs a time")
        arrow = read.type.arrow
        if pa.types.is_integer(arrow):
            return read.values.astype(np.int64)
        if pa.types.is_timestamp(arrow):
            ns = UNITS[arrow.unit]
        elif pa.types.is_date(arrow):
            ns = 86_400 * UNITS["s"] if arrow.bit_width == 32 else UNITS["ms"]
        else:
            raise WrongType(f"times must be timestamps or integers in {self.unit}, got values of {arrow}")
        into = UNITS[self.unit]
        if ns < into:
            return read.values // (into // ns)
        factor = ns // into
        if len(read.values) and int(np.abs(read.values).max()) > LATEST // factor:
            raise InvalidArgument(f"a time does not fit in 64 bits when counted in {self.unit}")
        return read.values * factor

    def show(self, tick: int) -> str:
        """A tick as text for messages: ISO, or the integer where times are plain."""
        if self.plain:
            return str(tick * self.tick)
        seconds, rest = divmod(int(tick) * self.tick * UNITS[self.unit], 10**9)
        text = str(np.datetime64(seconds, "s")).replace("T", " ")
        return f"{text}.{rest:09d}".rstrip("0") if rest else text

    def span(self, ticks: int) -> str:
        return str(ticks * self.tick) if self.plain else durations.format(ticks * self.tick, self.unit)

    def to_arrow(self, ticks: Array) -> pa.Array:
        """Ticks as the times at which they begin."""
        return self.times_to_arrow(ticks * self.tick)

    def times_to_arrow(self, times: Array) -> pa.Array:
        return to_arrow(times, None, pa.int64() if self.plain else pa.timestamp(self.unit, "UTC"))
