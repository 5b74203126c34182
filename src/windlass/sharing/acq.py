"""ACQs, aggregate continuous queries: a range, a slide, an aggregate (MQO 1.1).

    ACQ(5, 3)          │────────│                  [3k, 3k + 5), an answer every 3
                          ···  │────────│

Times are integers of any one unit, or durations ("5m"), which become microseconds. `offset` shifts all windows.
"""

from __future__ import annotations

from dataclasses import dataclass

from windlass import durations
from windlass.aggregates.aggregate import Aggregate
from windlass.aggregates.extremes import max as max_of
from windlass.aggregates.sums import sum as sum_of
from windlass.durations import Duration
from windlass.errors import InvalidArgument, WrongType
from windlass.windows.sliding import MOST_WINDOWS
from windlass.windows.window import Periodic, Window

__all__ = ["ACQ", "INVERTIBLE", "SELECTIVE"]

# The aggregates the paper plans with (5.1): any other with the same properties costs the same.
INVERTIBLE, SELECTIVE = sum_of(None), max_of(None)
_LONGEST = 2**61  # times and lengths added up stay within 64 bits


@dataclass(frozen=True, init=False, repr=False)
class ACQ:
    """A window of the last `range`, answered every `slide`."""

    range: int
    slide: int
    aggregate: Aggregate
    offset: int
    name: str
    is_time: bool  # whether times are microseconds, or plain integers

    def __init__(
        self,
        range: Duration,
        slide: Duration | None = None,
        aggregate: Aggregate = INVERTIBLE,
        *,
        offset: Duration = 0,
        name: str = "",
    ) -> None:
        if not isinstance(aggregate, Aggregate):
            raise WrongType(f"an ACQ needs an aggregate such as agg.sum('x'), got {aggregate!r}")
        if not isinstance(name, str):
            raise WrongType(f"the name of an ACQ is text, got {name!r}")
        slide = range if slide is None else slide
        lengths = durations.parse(range), durations.parse(slide), durations.parse(offset, positive=False)
        if lengths[1] > lengths[0]:
            raise InvalidArgument(
                f"the slide {slide!r} is longer than the range {range!r}: events between two windows would be lost"
            )
        for what, length in zip(("range", "slide", "offset"), lengths, strict=True):
            if abs(length) > _LONGEST:
                raise InvalidArgument(f"the {what} is beyond {_LONGEST}: {length}")
        if lengths[0] // lengths[1] > MOST_WINDOWS:
            raise InvalidArgument(
                f"each event would be in {lengths[0] // lengths[1]:,} windows of range {range!r}, more than "
                f"{MOST_WINDOWS:,}; take a larger slide than {slide!r}"
            )
        is_time = not (isinstance(range, int) and isinstance(slide, int))
        values = (lengths[0], lengths[1], aggregate, lengths[2] % lengths[1], name, is_time)
        for field, value in zip(self.__dataclass_fields__, values, strict=True):
            object.__setattr__(self, field, value)

    @classmethod
    def of(cls, window: Window, aggregate: Aggregate = INVERTIBLE, *, unit: str | None = "us", name: str = "") -> ACQ:
        """The ACQ of a tumbling or sliding window."""
        bound = window.bind(unit)
        if not isinstance(bound, Periodic) or bound.period == 0 or bound.ends != 1 or bound.step < bound.period:
            raise InvalidArgument(
                f"{window!r} is no ACQ: only windows of one length that slide (Tumbling, Sliding) have a range and a "
                "slide"
            )
        acq = cls(bound.step, bound.period, aggregate, offset=bound.origin, name=name)
        object.__setattr__(acq, "is_time", unit == "us")
        return acq

    @property
    def overlap(self) -> float:
        """How many windows an event belongs to: r / s."""
        return self.range / self.slide

    @property
    def identity(self) -> tuple[int, int, int]:
        """Its window, whatever its name: of equal ones of an aggregate one is answered."""
        return self.range, self.slide, self.offset

    def __hash__(self) -> int:
        return hash((self.range, self.slide, self.offset, self.name))

    def __repr__(self) -> str:
        def shown(length: int) -> str:
            return repr(durations.format(length)) if self.is_time else str(length)

        parts = [shown(self.range), *([shown(self.slide)] if self.slide != self.range else [])]
        parts += [repr(self.aggregate)] if self.aggregate is not INVERTIBLE else []
        parts += [f"offset={shown(self.offset)}"] if self.offset else []
        parts += [f"name={self.name!r}"] if self.name else []
        return f"ACQ({', '.join(parts)})"
