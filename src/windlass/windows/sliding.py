"""Sliding windows: one begins every `slide`, and they overlap.

|──────────|
    |──────────|             [offset + k·slide, offset + k·slide + size)
        |──────────|
"""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass.durations import Duration
from windlass.errors import InvalidArgument
from windlass.windows.parameters import comparable
from windlass.windows.periodic import PeriodicWindow, refuse_longer
from windlass.windows.window import Periodic

__all__ = ["Sliding"]

MOST_WINDOWS = 10**9  # windows that hold one event, each of them a row
_GAPS = "events between two windows would be lost; if that is meant, filter them out before"


@dataclass(frozen=True, repr=False)
class Sliding(PeriodicWindow):
    """`Sliding("1m", "5s")`: the last minute, every five seconds."""

    size: Duration
    slide: Duration
    offset: Duration = field(default=0, kw_only=True)
    measure: str = field(default="time", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_longer("slide", self.slide, "size", self.size, _GAPS)
        both = comparable(self.slide, self.size)
        if both is not None:
            _refuse_many(self, *both)

    def bind(self, unit: str | None) -> Periodic:
        size, slide = self._duration("size", unit), self._duration("slide", unit)
        refuse_longer("slide", slide, "size", size, _GAPS)
        _refuse_many(self, slide, size)
        return Periodic(self._duration("offset", unit), slide, size, 1, measure=self.measure)


def _refuse_many(window: Sliding, slide: int, size: int) -> None:
    if size // slide > MOST_WINDOWS:
        raise InvalidArgument(
            f"{window!r}: each event would be in {size // slide:,} windows, more than {MOST_WINDOWS:,}; "
            "take a larger slide"
        )
