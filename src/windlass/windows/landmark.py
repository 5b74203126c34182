"""Landmark windows: all since a fixed point, every `slide`.

    |───|
    |───────|                    [start, start + j·slide),  j = 1, 2, …
    |───────────| …

One without an event in its last slide would repeat the one before it, and is not emitted.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass.durations import Duration
from windlass.windows.parameters import Instant
from windlass.windows.periodic import PeriodicWindow
from windlass.windows.window import Periodic

__all__ = ["Landmark"]


@dataclass(frozen=True, repr=False)
class Landmark(PeriodicWindow):
    """`Landmark("2026-01-01", "1d")`: the year so far, every day."""

    start: Instant
    slide: Duration
    measure: str = field(default="time", kw_only=True)

    def bind(self, unit: str | None) -> Periodic:
        slide = self._duration("slide", unit)
        return Periodic(self._instant("start", unit), 0, slide, 0, last_only=True, measure=self.measure)
